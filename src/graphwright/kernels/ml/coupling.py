"""Class probabilities from those of pairs of classes; ``ops/ml/pairwise_coupling.py`` has the method."""

from __future__ import annotations

from typing import Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import BITS, COUNT, Extent, dense, within
from graphwright.kernels.library.kernel_call import ArgumentsCall
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_pairwise_coupling_f32"

MAX_CLASSES: Final = 2048
"""The matrix of more classes would exceed the cache."""

_CHUNK: Final = 16
"""Rows per unit."""

_USUAL_ROUNDS: Final = 10


@dataclass(frozen=True)
class CouplingCall(ArgumentsCall):
    """A call of the kernel."""

    rows: Dim
    classes: Dim
    rounds: Dim
    """The most iterations."""
    precision: Dim
    """The tolerance, as the bits of an f64."""

    @property
    def grid(self) -> Dim:
        """The number of units: chunks of rows."""
        return ceildiv(self.rows, _CHUNK)

    def scratch_bytes(self, isa: Isa) -> Dim:
        """The bytes, in f64, of a row's matrix, its product with the probabilities, and these."""
        return 8 * self.classes * (self.classes + 2)

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds."""
        steps = self.rows * self.classes * self.classes
        return predict(Work(cycles=3 * _USUAL_ROUNDS * steps), isa.machine)


ABI: Final = Abi("coupling", ("x", "y"), CouplingCall.names())
"""x[rows, pairs of classes] and y[rows, classes], both dense f32."""


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses."""
    a = CouplingCall.symbols()
    pairs = floordiv(a.classes * (a.classes - 1), 2)
    reaches = ABI.ordered(x=dense(4, a.rows, pairs), y=dense(4, a.rows, a.classes))
    bounds = within((2, MAX_CLASSES), "classes") | within(COUNT, "rounds") | within(BITS, "precision")
    return (Extent(SYMBOL, ABI.args, reaches, grid=a.grid, scratch=a.scratch_bytes(isa), bounds=bounds),)


def header(isa: Isa) -> str:
    """The generated header of ``coupling.c``."""
    return f"{ABI.c_text()}#define CHUNK {_CHUNK} /* rows of a unit */\n"
