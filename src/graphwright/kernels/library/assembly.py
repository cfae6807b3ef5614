"""Assembly helpers that the register tiles share: register names and FMAs."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.targets.cpu.isa import Isa


def register_count(isa: Isa) -> int:
    """The number of vector registers."""
    return 32 if isa.vector_bytes == 64 else 16


def register(isa: Isa, number: int) -> str:
    """The name of a vector register in an assembly template: ``%%zmm3``."""
    return f"%%{'zmm' if isa.vector_bytes == 64 else 'ymm'}{number}"


def clobbered(isa: Isa) -> str:
    """All vector registers, as a clobber list."""
    return ", ".join(f'"xmm{i}"' for i in range(register_count(isa)))


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
