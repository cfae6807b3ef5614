"""Interleaves channels of images of bytes, for convolutions: four channels of a pixel become a *quad*.

The result has the layout [plane][pixel], or, for windows of single pixels, that of the panels which the
convolution multiplies: [panel][plane][pixel]. The pixels of an image are cut into vectors, and these into
panels of nearly equal size; the last few pixels, which would leave a vector mostly empty, get a panel of
their own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.arguments import Arguments
from graphwright.kernels.library.byte_tile import QUAD, panel_columns, vectors_of
from graphwright.kernels.library.extent import Extent, dense
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

INTERLEAVE: Final = "gw_interleave_bytes"
INTERLEAVE_PANELS: Final = "gw_interleave_panels"
"""The same, packed in panels, for windows of single pixels."""

_PIXELS: Final = 4096
"""Pixels per unit of :data:`INTERLEAVE`."""


@dataclass(frozen=True)
class InterleaveArgs(Arguments):
    """The arguments of both kernels: images of ``groups * cin`` channels and their pixels."""

    images: Dim
    groups: Dim
    cin: Dim
    pixels: Dim
    x_signed: Dim


ABI: Final = Abi("interleave", ("x", "quads"), InterleaveArgs.names())


def most_single_pixels(isa: Isa) -> int:
    """The most pixels at the end of an image that are multiplied one by one, instead of in a vector."""
    return 2 if isa.vector_bytes == 64 else 0


def panel_count(isa: Isa, pixels: Dim) -> Dim:
    """Panels of pixels: at least one if there are pixels."""
    vectors = floordiv(pixels + isa.lanes - 1 - most_single_pixels(isa), isa.lanes)
    return maximum(ceildiv(vectors, vectors_of(isa)), minimum(pixels, 1))


def panel_sizes(isa: Isa) -> str:
    """The sizes of panels, as C."""
    return f"""
#define NR {panel_columns(isa)} /* pixels of a panel */
#define REST {most_single_pixels(isa)} /* the most pixels that are in no vector */
"""


class Interleaving(NamedTuple):
    """A kernel that interleaves images, the bytes of its result, and its number of units of work."""

    symbol: str
    result_bytes: Dim
    grid: Dim


def interleaving(isa: Isa, args: InterleaveArgs, *, packed: bool) -> Interleaving:
    """:data:`INTERLEAVE_PANELS`, whose units are panels, if ``packed``; else :data:`INTERLEAVE`, whose units
    are blocks of pixels of each quad of channels.
    """
    images, quads = args.images * args.groups, ceildiv(args.cin, QUAD)
    if packed:
        panels = panel_count(isa, args.pixels)  # in the result, another one for pixels that are in no vector
        result_bytes = images * (panels + 1) * panel_columns(isa) * quads * QUAD
        return Interleaving(INTERLEAVE_PANELS, result_bytes, images * panels)
    result_bytes = images * quads * args.pixels * QUAD
    return Interleaving(INTERLEAVE, result_bytes, images * quads * ceildiv(args.pixels, _PIXELS))


def work_ns(isa: Isa, args: InterleaveArgs) -> Dim:
    """The predicted time on one core, in nanoseconds: one cycle for two quads."""
    quads = args.images * args.groups * ceildiv(args.cin, QUAD) * args.pixels
    return predict(Work(cycles=floordiv(quads, 2)), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    a = InterleaveArgs.symbols()
    x = dense(1, a.images * a.groups, a.cin, a.pixels)
    kernels = (interleaving(isa, a, packed=packed) for packed in (False, True))
    return tuple(
        Extent(
            kernel.symbol,
            ABI.args,
            ABI.ordered(x=x, quads=dense(1, kernel.result_bytes)),
            grid=kernel.grid,
        )
        for kernel in kernels
    )


def header(isa: Isa) -> str:
    """The generated header of ``byte_interleave.c``."""
    pixels = f"#define PIXELS {_PIXELS} /* of a unit of planes */\n"
    return "\n".join([ABI.c_text(), panel_sizes(isa), pixels])
