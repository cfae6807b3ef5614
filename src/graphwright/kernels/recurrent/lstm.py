"""LSTM over a whole sequence, as ONNX defines it (layout 0), in one launch.

Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997; peepholes after Gers and Schmidhuber, 2000.
"""

from __future__ import annotations

import math
from typing import ClassVar, Final

from graphwright.ir.symbols import Dim
from graphwright.kernels.library.extent import Extent
from graphwright.kernels.recurrent.rnn import SIGMOID, TANH, Activation, Cell, Pair, Recurrent, c_text
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_lstm_f32"
CELL: Final = Cell("lstm", 4, ("reverse", "input_forget"), 3, ("h", "c"))


@dataclass(frozen=True)
class Lstm(Recurrent):
    """Sizes and strides (in elements) of one call. ``activations``: f, g, h for each direction."""

    CELL: ClassVar[Cell] = CELL

    initial_h_strides: Pair
    """The strides of direction and batch, like those of the other states."""
    initial_c_strides: Pair
    y_h_strides: Pair
    y_c_strides: Pair
    reverse: bool = False
    """Whether a layer of one direction runs backwards."""
    input_forget: bool = False
    clip: float = math.inf
    activations: tuple[Activation, ...] = (SIGMOID, TANH, TANH) * 2

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        return self.arguments(
            (self.initial_h_strides, self.initial_c_strides, self.y_h_strides, self.y_c_strides),
            {"reverse": self.reverse, "input_forget": self.input_forget},
            self.clip,
            self.activations,
        )


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses."""
    return (CELL.extent(SYMBOL),)


def header(isa: Isa) -> str:
    """The generated header of ``lstm.c``."""
    return CELL.abi.c_text() + c_text(isa)
