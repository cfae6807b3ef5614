"""RNN over a whole sequence, as ONNX defines it, in one launch: ``h = f(x W' + h R' + b)``.

Elman, "Finding structure in time", 1990.
"""

from __future__ import annotations

import math
from typing import ClassVar, Final

from graphwright.ir.symbols import Dim
from graphwright.kernels.library.extent import Extent
from graphwright.kernels.recurrent.rnn import TANH, Activation, Cell, Recurrent, c_text
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_rnn_f32"
CELL: Final = Cell("rnn", 1, ("reverse",), 1, ("h",))


@dataclass(frozen=True)
class Rnn(Recurrent):
    """Sizes and strides (in elements) of one call. ``activations``: one for each direction."""

    CELL: ClassVar[Cell] = CELL

    initial_h_strides: tuple[Dim, Dim]
    """The strides of direction and batch."""
    y_h_strides: tuple[Dim, Dim]
    reverse: bool = False
    """Whether a layer of one direction runs backwards."""
    clip: float = math.inf
    activations: tuple[Activation, Activation] = (TANH, TANH)

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        return self.arguments(
            (self.initial_h_strides, self.y_h_strides),
            {"reverse": self.reverse},
            self.clip,
            self.activations,
        )


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses."""
    return (CELL.extent(SYMBOL),)


def header(isa: Isa) -> str:
    """The generated header of ``elman.c``."""
    return CELL.abi.c_text() + c_text(isa)
