"""Samples of 2-D images at points, in f32; ``ops/nn/grid_sample.py`` defines them.

Each lane of a vector is a point. The pixels and weights of a unit of points are computed once, for all
channels.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import FLAG, Extent, dense, within
from graphwright.kernels.library.kernel_call import ArgumentsCall
from graphwright.ops.core.interpolation_constants import CUBIC_A, MAX_COORDINATE
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_grid_sample_f32"

_UNIT: Final = 128
"""Points of a unit of the grid: a multiple of the lanes."""
_MOST_PIXELS: Final = 2**31 - 1
"""Of an image: indices have 32 bits."""


class Mode(IntEnum):
    """How pixels are weighted."""

    NEAREST = 0
    LINEAR = 1
    CUBIC = 2


class Padding(IntEnum):
    """What pixels outside of the image are."""

    ZEROS = 0
    BORDER = 1
    REFLECTION = 2


@dataclass(frozen=True)
class GridSampleCall(ArgumentsCall):
    """A call of the kernel."""

    images: Dim
    channels: Dim
    height: Dim
    width: Dim
    points: Dim
    """Of each image."""
    mode: Dim
    padding: Dim
    aligned: Dim

    @property
    def grid(self) -> Dim:
        """The number of units: images, and parts of their points."""
        return self.images * ceildiv(self.points, _UNIT)

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds: each lane of a gather is a load."""
        taps = self.mode + 1 if isinstance(self.mode, int) and self.mode < Mode.CUBIC else 4
        points = self.images * self.points
        return predict(Work(cycles=points * (4 * taps + 2 * self.channels * taps * taps)), isa.machine)


ABI: Final = Abi("grid_sample", ("x", "grid", "y"), GridSampleCall.names())
"""x[images, channels, height, width], grid[images, points, 2] and y[images, channels, points], all dense."""


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses."""
    a = GridSampleCall.symbols()
    return (
        Extent(
            SYMBOL,
            ABI.args,
            ABI.ordered(
                x=dense(4, a.images, a.channels, a.height, a.width),
                grid=dense(4, a.images, a.points, 2),
                y=dense(4, a.images, a.channels, a.points),
            ),
            grid=a.grid,
            bounds=within(FLAG, "aligned") | within((1, 1 << 29), "height", "width"),
            choices={"mode": tuple(map(int, Mode)), "padding": tuple(map(int, Padding))},
            at_least_0=(_MOST_PIXELS - a.height * a.width,),
        ),
    )


def header(isa: Isa) -> str:
    """The generated header of ``grid_sample.c``."""
    names = ", ".join(f"{member.name} = {member.value}" for kind in (Mode, Padding) for member in kind)
    return f"""{ABI.c_text()}
enum {{ {names} }};
#define UNIT {_UNIT} /* points */
#define MAX_COORDINATE {MAX_COORDINATE}f
#define CUBIC_A {CUBIC_A}f
"""
