"""Checks run-time indices, so that later kernels may trust them."""

from __future__ import annotations

from typing import ClassVar, Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, minimum
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import FLAG, Extent, Reach, arguments, within
from graphwright.kernels.library.kernel_call import KernelCall
from graphwright.kernels.movement.gather import code
from graphwright.kernels.movement.rows import MAX_RANK, UNITS
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

_UNIT_ROWS: Final = 1 << 13
_MAX_UNITS: Final = 64


ABI: Final = Abi(
    "check_indices",
    ("indices",),
    ("index_size", "units", "rows", "depth", "lengths", f"size[{MAX_RANK}]"),
)


@dataclass(frozen=True)
class CheckIndices(KernelCall):
    """Fails with ``INDEX_OUT_OF_RANGE`` unless all indices are in range.

    Each ``indices[row, k]`` must be in ``[-sizes[k], sizes[k])`` or, with ``lengths``, in ``[0, sizes[k]]``.
    Operands: indices (int32 or int64, dense, of ``rows`` times ``len(sizes)``), guarded. The guarded operand
    is not accessed: it is the output of later kernels, which makes them wait for the check.
    """

    SYMBOL: ClassVar[str] = "gw_check_indices"

    index_size: int
    rows: Dim
    sizes: tuple[Dim, ...]
    lengths: bool = False

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        padding = (0,) * (MAX_RANK - len(self.sizes))
        return ABI.values(
            index_size=self.index_size,
            units=self.grid,
            rows=self.rows,
            depth=len(self.sizes),
            lengths=int(self.lengths),
            size=(*self.sizes, *padding),
        )

    @property
    def grid(self) -> Dim:
        """The number of units of work, which are of about equal size."""
        return minimum(ceildiv(self.rows, _UNIT_ROWS), _MAX_UNITS)

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds: indices are read and compared in vectors."""
        indices = self.rows * len(self.sizes)
        return predict(Work(cycles=floordiv(indices, 4), moved=self.index_size * indices), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that ``gw_check_indices`` accesses."""
    a = arguments(*ABI.args)
    return (
        Extent(
            CheckIndices.SYMBOL,
            ABI.args,
            ABI.ordered(indices=Reach(a.index_size, ((a.rows, a.depth), (a.depth, 1)))),
            grid=a.units,
            bounds=within(FLAG, "lengths") | within((0, MAX_RANK), "depth") | within(UNITS, "units"),
            choices={"index_size": (4, 8)},
        ),
    )


def header(isa: Isa) -> str:
    """The generated header of ``indices.c``."""
    return ABI.c_text() + code()
