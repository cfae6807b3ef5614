"""What kernels on images do, row-major and on blocks of channels: layouts are chosen by it, and the kernels'
own costs are the same formulas.

``lanes`` are the f32 elements of a vector; counts may be symbols. Efficiencies and cycles were fitted to
measured times: ``python -m benchmarks.cost ops``.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.machine import Machine
from graphwright.cost.predict import Work
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum

STORED: Final = 5
"""Cycles to store a vector of a tile of the result, with what is added to it."""
ROUNDED: Final = 3
"""Cycles to round a vector of the input of a convolution in bf16."""
DIRECT: Final = 96
"""Percent of the peak that direct convolution on blocks reaches."""
PLANAR: Final = 90
"""Of few input channels, which it reads from planes."""
WINOGRAD: Final = 170
"""What Winograd convolution comes to, in the arithmetic of the direct one."""
IM2COL: Final = 90
"""The product of gathered panels, without gathering."""
TRANSPOSED: Final = 30
"""Transposed convolution of row-major images, which adds the products of each tap to the output."""


def direct_work(lanes: int, pixels: Dim, cout: Dim, taps: Dim, efficiency: int = DIRECT) -> Work:
    """Direct convolution to ``pixels`` of whole blocks of ``cout`` channels, sums of ``taps`` products."""
    blocks = ceildiv(cout, lanes)
    return Work(
        fmas=pixels * blocks * lanes * taps,
        efficiency=efficiency,
        cycles=STORED * pixels * blocks,
        weights=4 * blocks * lanes * taps,
    )


def bf16_direct_work(lanes: int, pixels: Dim, cin: Dim, cout: Dim, taps: Dim, read: Dim) -> Work:
    """The same in bf16, with ``taps`` of each input channel; of ``read`` pixels of the input the channels are
    rounded to pairs once.
    """
    blocks = ceildiv(cout, lanes)
    return Work(
        pair_fmas=pixels * blocks * lanes * cin * taps,
        efficiency=DIRECT,
        cycles=STORED * pixels * blocks + ROUNDED * read * ceildiv(cin, lanes),
        weights=2 * blocks * lanes * cin * taps,
    )


def im2col_work(lanes: int, pixels: Dim, cout: Dim, taps: Dim) -> Work:
    """Row-major convolution as a product of gathered panels with the weights. The last panel of weights, of
    half as many channels as a vector has lanes, takes as long as a whole one.
    """
    gathered, panel = pixels * taps, lanes // 2
    few = isinstance(cout, int) and cout < panel
    return Work(
        fmas=gathered * (cout if few else ceildiv(cout, panel) * panel),
        efficiency=IM2COL,
        cycles=gathered - floordiv(gathered, 16) + STORED * cout * ceildiv(pixels, lanes),
        weights=4 * cout * taps,
    )


def planar_depthwise_work(planes: Dim, vectors: Dim, taps: Dim) -> Work:
    """Planes one by one: rows are copied with their padding, and loads of neighbours cross cache lines."""
    return Work(cycles=180 * planes + 7 * vectors + floordiv(3 * vectors * taps, 2))


def blocked_depthwise_work(lanes: int, vectors: Dim, taps: Dim) -> Work:
    """A vector of channels for each pixel."""
    return Work(fmas=vectors * lanes * taps, cycles=floordiv(7 * lanes * vectors, 16))


def channels_last_work(read: Dim, made: Dim) -> Work:
    """So many vectors of channels that are copied to rows of pixels, and from such rows: what convolutions of
    images whose channels lie last do more.
    """
    return Work(cycles=2 * read + 2 * made)


def planar_pool_work(
    lanes: int, rows: Dim, vectors: Dim, moved: Dim, average: bool = False, pairs: bool = False
) -> Work:
    """Rows of the result, each of ``vectors`` that both steps combine; averages count and divide as well.

    ``pairs``: each window has two columns of its own (:func:`pools_pairs`), which takes one step.
    """
    if pairs:
        return Work(cycles=rows * ((41 if average else 32) + floordiv(5 * vectors, 2)), moved=moved)
    return Work(cycles=rows * ((94 if average else 56) + floordiv(lanes * vectors, 9)), moved=moved)


def pools_pairs(kernel: Dim, stride: Dim, dilation: Dim, before: Dim) -> bool:
    """Whether windows along the last axis have two columns of their own."""
    return (kernel, stride, dilation, before) == (2, 2, 1, 0)


def blocked_pool_work(lanes: int, rows: Dim, vectors: Dim, moved: Dim, average: bool = False) -> Work:
    """The same steps, a vector of channels for each pixel."""
    return Work(cycles=rows * ((20 if average else 10) + floordiv(lanes * vectors, 8)), moved=moved)


def reblock_work(lanes: int, planes: Dim, pixels: Dim) -> Work:
    """``planes`` of a block of channels and so many ``pixels``, from rows to blocks or back: squares of
    ``lanes`` channels and as many pixels are transposed.
    """
    squares = planes * ceildiv(pixels, lanes)
    return Work(cycles=20 * planes + squares * (lanes * lanes // 4), moved=8 * lanes * planes * pixels)


BAND_CALL_NS: Final = 1000
"""Of a convolution for one band: its kernel prepares, and its tiles end sooner."""


def handed_on(size: Dim, machine: Machine) -> Dim:
    """Nanoseconds that one convolution takes longer to store an image of so many bytes, and the next to load
    it, where the second-level cache does not hold it: ``python -m benchmarks.bands``.
    """
    beyond_l2 = maximum(0, size - 2 * machine.l2.bytes)
    beyond_l3 = maximum(0, size - 5 * machine.l2.bytes)  # of what others leave of it
    return floordiv(beyond_l2, 42) + floordiv(beyond_l3, 25)
