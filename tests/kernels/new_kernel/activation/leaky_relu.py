"""``y = x`` where x is at least 0, else ``alpha * x``, of dense f32."""

from __future__ import annotations

from typing import Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import BITS, Extent, dense, within
from graphwright.kernels.library.kernel_call import ArgumentsCall
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_leaky_relu_f32"

_CHUNK: Final = 4096
"""The elements per unit."""


@dataclass(frozen=True)
class LeakyReluCall(ArgumentsCall):
    """A call of the kernel."""

    elements: Dim
    alpha: Dim
    """The bits of an f32."""

    @property
    def grid(self) -> Dim:
        """The number of units: chunks of elements."""
        return ceildiv(self.elements, _CHUNK)

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds: memory traffic alone."""
        return predict(Work(moved=8 * self.elements), isa.machine)


ABI: Final = Abi("leaky_relu", ("x", "y"), LeakyReluCall.names())


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses."""
    a = LeakyReluCall.symbols()
    reaches = ABI.ordered(x=dense(4, a.elements), y=dense(4, a.elements))
    return (Extent(SYMBOL, ABI.args, reaches, grid=a.grid, bounds=within(BITS, "alpha")),)


def header(isa: Isa) -> str:
    """The generated header of ``leaky_relu.c``."""
    return f"{ABI.c_text()}#define CHUNK {_CHUNK} /* elements of a unit */\n"
