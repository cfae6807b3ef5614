"""``y = x`` where x is at least 0, else ``alpha * x``, of dense f32."""

from __future__ import annotations

from typing import Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.arguments import Arguments
from graphwright.kernels.library.extent import BITS, Extent, dense, within
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_leaky_relu_f32"

_CHUNK: Final = 4096
"""Elements of a unit."""


@dataclass(frozen=True)
class LeakyReluArgs(Arguments):
    """The kernel's args in ABI order."""

    elements: Dim
    alpha: Dim
    """The bits of an f32."""


ABI: Final = Abi("leaky_relu", ("x", "y"), LeakyReluArgs.names())


def grid(args: LeakyReluArgs) -> Dim:
    """Chunks of elements."""
    return ceildiv(args.elements, _CHUNK)


def work_ns(isa: Isa, args: LeakyReluArgs) -> Dim:
    """Nanoseconds of one core: what is read and written."""
    return predict(Work(moved=8 * args.elements), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far :data:`SYMBOL` reaches."""
    a = LeakyReluArgs.symbols()
    reaches = ABI.ordered(x=dense(4, a.elements), y=dense(4, a.elements))
    return (Extent(SYMBOL, ABI.args, reaches, grid=grid(a), bounds=within(BITS, "alpha")),)


def header(isa: Isa) -> str:
    """What ``leaky_relu.c`` includes."""
    return f"{ABI.c_text()}#define CHUNK {_CHUNK} /* elements of a unit */\n"
