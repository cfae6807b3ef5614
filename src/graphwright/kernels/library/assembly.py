"""Assembly helpers that the register tiles share: register names and FMAs."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.cost.machine import FMA_SUMS
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa


def clobbered(isa: Isa) -> str:
    """All vector registers, as a clobber list."""
    return ", ".join(f'"xmm{i}"' for i in range(_register_count(isa)))


def _register_count(isa: Isa) -> int:
    return 32 if isa.vector_bytes == 64 else 16


@dataclass(frozen=True)
class Accumulators:
    """The vector registers of a tile of ``rows`` x ``vectors`` sums. ``splits`` sets of registers accumulate
    parts of each sum.
    """

    isa: Isa
    rows: int
    vectors: int
    splits: int = 1

    @classmethod
    def filling(cls, isa: Isa, rows: int, vectors: int) -> Accumulators:
        """As many sets as keep the FMA units busy: each FMA waits for the one before it in its sum."""
        splits = next(n for n in (1, 2, 4) if n * rows * vectors >= FMA_SUMS or n == 4)
        return cls(isa, rows, vectors, splits)

    @property
    def registers(self) -> list[str]:
        """The names of all vector registers in an assembly template, such as ``%%zmm3``."""
        prefix = "%%zmm" if self.isa.vector_bytes == 64 else "%%ymm"
        return [f"{prefix}{number}" for number in range(_register_count(self.isa))]

    @property
    def spare(self) -> list[str]:
        """The registers without sums, which come last."""
        return self.registers[self.splits * self.rows * self.vectors :]

    def sums(self, split: int = 0) -> list[list[str]]:
        """The registers of a set, by row."""
        first = split * self.rows * self.vectors
        return [self.registers[first + r * self.vectors :][: self.vectors] for r in range(self.rows)]

    def flat(self, split: int = 0) -> list[str]:
        """The registers of a set."""
        return [x for row in self.sums(split) for x in row]

    def clear(self) -> list[str]:
        """Clears all sums."""
        return zeroed(self.registers[: self.splits * self.rows * self.vectors])

    def add_up(self) -> list[str]:
        """Adds all sets to the first one."""
        return [
            f"vaddps {part}, {x}, {x}"
            for split in range(1, self.splits)
            for part, x in zip(self.flat(split), self.flat(), strict=True)
        ]


def zeroed(registers: Sequence[str]) -> list[str]:
    """Clears registers. Writing the short name clears the whole register, and has a shorter encoding."""
    short = [x.replace("zmm", "xmm").replace("ymm", "xmm") for x in registers]
    return [f"vxorps {x}, {x}, {x}" for x in short]


def outer_product(
    addresses: Sequence[str],
    folded: Sequence[bool],
    columns: Sequence[str],
    sums: Sequence[Sequence[str]],
    free: Sequence[str],
    fma: str = "vfmadd231ps",
) -> list[str]:
    """``sums[r][c] += *addresses[r] * columns[c]``, by the instruction ``fma``. For rows in ``folded``, FMAs
    read and broadcast the number from memory (AVX-512); for others, it is broadcast to one of the ``free``
    registers, in turn.
    """
    lines = []
    for row, (number, is_folded) in enumerate(zip(addresses, folded, strict=True)):
        if is_folded:
            number += "%{1to16%}"
        else:
            own = free[row % len(free)]
            lines.append(f"vbroadcastss {number}, {own}")
            number = own
        lines += [f"{fma} {number}, {x}, {y}" for x, y in zip(columns, sums[row], strict=True)]
    return lines


def spread(count: int, of: int) -> list[bool]:
    """Distributes ``count`` marks evenly over ``of`` positions."""
    return [(i + 1) * count // of > i * count // of for i in range(of)]
