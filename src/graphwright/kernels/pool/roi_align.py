"""Means of samples of regions of images; ``ops/nn/roi_align.py`` defines them.

A sample weighs two pixels of each axis, so that the mean of a bin is a sum over rows and columns, with the
total weights of its pixels. These weights are computed once per region, for all channels.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import BITS, COUNT, FLAG, Extent, dense, within
from graphwright.kernels.library.kernel_call import ArgumentsCall
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_roi_align_f32"

MAX_POINTS: Final = 1 << 20
"""The most samples of a bin along an axis, if the op fixes their number."""


@dataclass(frozen=True)
class RoiAlignCall(ArgumentsCall):
    """A call of the kernel."""

    regions: Dim
    batch: Dim
    channels: Dim
    height: Dim
    width: Dim
    out_height: Dim
    out_width: Dim
    points: Dim
    """Samples of a bin along an axis; 0: the size of the bin in pixels, rounded up."""
    half_pixel: Dim
    """1 if the centers of pixels are at 0.5, else 0."""
    scale: Dim
    """The factor of coordinates, as the bits of an f32."""

    @property
    def grid(self) -> Dim:
        """The number of units: regions."""
        return self.regions

    @property
    def _weights(self) -> Dim:
        """The weights of a region."""
        return self.out_height * self.height + self.out_width * self.width

    def scratch_bytes(self, isa: Isa) -> Dim:
        """The bytes of the range and the weights of the pixels of each bin, along both axes, and of a row of
        weighted pixels.
        """
        return 16 * (self.out_height + self.out_width) + 4 * (self._weights + self.width)

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds, for regions whose bins have two by two samples."""
        bins = self.channels * self.out_height * self.out_width
        return predict(Work(cycles=self.regions * (8 * bins + self._weights)), isa.machine)


ABI: Final = Abi("roi_align", ("x", "regions", "images", "y"), RoiAlignCall.names())
"""x[batch, channels, height, width], regions[regions, 4], images i64[regions] and y[regions, channels,
out_height, out_width]; all dense, f32 but for the images. Images are in ``[-batch, batch)``.
"""


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses."""
    a = RoiAlignCall.symbols()
    reaches = ABI.ordered(
        x=dense(4, a.batch, a.channels, a.height, a.width),
        regions=dense(4, a.regions, 4),
        images=dense(8, a.regions),
        y=dense(4, a.regions, a.channels, a.out_height, a.out_width),
    )
    bounds = within((1, COUNT[1]), "height", "width") | within((0, MAX_POINTS), "points")
    bounds |= within(FLAG, "half_pixel") | within(BITS, "scale")
    return (Extent(SYMBOL, ABI.args, reaches, grid=a.grid, scratch=a.scratch_bytes(isa), bounds=bounds),)


def header(isa: Isa) -> str:
    """The generated header of ``roi_align.c``."""
    return ABI.c_text()
