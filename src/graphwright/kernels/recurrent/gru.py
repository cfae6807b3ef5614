"""GRU over a whole sequence, as ONNX defines it (layout 0), in one launch.

Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014; ``linear_before_reset`` is the
form of cuDNN.
"""

from __future__ import annotations

import math
from typing import ClassVar, Final

from graphwright.ir.symbols import Dim
from graphwright.kernels.library.extent import Extent
from graphwright.kernels.recurrent.rnn import SIGMOID, TANH, Activation, Cell, Pair, Recurrent, c_text
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_gru_f32"
CELL: Final = Cell("gru", 3, ("reverse", "linear_before_reset"), 2, ("h",))


@dataclass(frozen=True)
class Gru(Recurrent):
    """Sizes and strides (in elements) of one call. ``activations``: f, g for each direction."""

    CELL: ClassVar[Cell] = CELL

    initial_h_strides: Pair
    """The strides of direction and batch."""
    y_h_strides: Pair
    reverse: bool = False
    """Whether a layer of one direction runs backwards."""
    linear_before_reset: bool = False
    clip: float = math.inf
    activations: tuple[Activation, ...] = (SIGMOID, TANH) * 2

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        return self.arguments(
            (self.initial_h_strides, self.y_h_strides),
            {"reverse": self.reverse, "linear_before_reset": self.linear_before_reset},
            self.clip,
            self.activations,
        )


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses."""
    return (CELL.extent(SYMBOL),)


def header(isa: Isa) -> str:
    """The generated header of ``gru.c``."""
    return CELL.abi.c_text() + c_text(isa)
