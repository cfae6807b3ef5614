"""The work of image kernels, row-major and blocked. Layout decisions and the costs of the kernels use the
same formulas.

``lanes`` is the number of f32 elements in a vector; counts can be symbolic. Efficiencies and cycles were
fitted to measured times: ``python -m benchmarks.cost ops``.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.machine import Machine
from graphwright.cost.predict import Work
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum

STORED: Final = 5
"""Cycles to store one vector of a result tile, including its epilogue."""
ROUNDED: Final = 3
"""Cycles to round one input vector of a bf16 convolution."""
DIRECT: Final = 96
"""Percent of peak that blocked direct convolution reaches."""
PLANAR: Final = 90
"""The same for few input channels, which are read in row-major layout."""
WINOGRAD: Final = 170
"""Percent of peak that Winograd convolution reaches, counted in the arithmetic of direct convolution."""
IM2COL: Final = 90
"""Percent of peak of the im2col product, without gathering."""
TRANSPOSED: Final = 30
"""Percent of peak of row-major transposed convolution, which adds the products of each tap to the output."""
SCATTERED: Final = 82
"""Percent of peak of the products that a transposed convolution of few features scatters."""
MOST_SCATTERED: Final = 256
"""The most products of a pixel that are scattered, and the most taps of a row of a window."""
WEIGHT_GRADIENT: Final = 75
"""Percent of peak of the products of a gradient of weights, without copies."""
_MANY_FEATURES: Final = 12
"""Features that fill the tiles of the transposed convolution that does not scatter."""
_FEW_CHANNELS: Final = 4
"""With fewer input channels, scattering takes longer than the products."""


def direct_work(lanes: int, pixels: Dim, cout: Dim, taps: Dim, efficiency: int = DIRECT) -> Work:
    """Direct convolution with ``pixels`` output pixels, ``cout`` output channels in whole blocks, and
    ``taps`` products per sum.
    """
    blocks = ceildiv(cout, lanes)
    return Work(
        fmas=pixels * blocks * lanes * taps,
        efficiency=efficiency,
        cycles=STORED * pixels * blocks,
        weights=4 * blocks * lanes * taps,
    )


def bf16_direct_work(lanes: int, pixels: Dim, cin: Dim, cout: Dim, taps: Dim, read: Dim) -> Work:
    """The same in bf16, with ``taps`` per input channel; the channels of ``read`` input pixels are rounded to
    pairs once.
    """
    blocks = ceildiv(cout, lanes)
    return Work(
        pair_fmas=pixels * blocks * lanes * cin * taps,
        efficiency=DIRECT,
        cycles=STORED * pixels * blocks + ROUNDED * read * ceildiv(cin, lanes),
        weights=2 * blocks * lanes * cin * taps,
    )


def im2col_work(lanes: int, pixels: Dim, cout: Dim, taps: Dim) -> Work:
    """Row-major convolution as a product of gathered panels with the weights. A panel of weights has half as
    many channels as a vector has lanes. The last panel takes as long as a full one.
    """
    gathered, panel = pixels * taps, lanes // 2
    few = isinstance(cout, int) and cout < panel
    return Work(
        fmas=gathered * (cout if few else ceildiv(cout, panel) * panel),
        efficiency=IM2COL,
        cycles=gathered - floordiv(gathered, 16) + STORED * cout * ceildiv(pixels, lanes),
        weights=4 * cout * taps,
    )


def scatters(cin: int, features: int, taps: int) -> bool:
    """Whether a row-major transposed convolution of one group is computed by scattering."""
    return (
        cin >= _FEW_CHANNELS and features < _MANY_FEATURES and taps > 1 and features * taps <= MOST_SCATTERED
    )


def scattered_transpose_work(lanes: int, pixels: Dim, cin: Dim, scattered: Dim, stored: Dim) -> Work:
    """Transposed convolution by scattering: ``scattered`` products of each of ``pixels`` input pixels, in
    whole vectors, and ``stored`` results.
    """
    added = ceildiv(pixels * scattered, lanes)
    return Work(
        fmas=pixels * scattered * cin,
        efficiency=SCATTERED,
        cycles=10 * added + 8 * ceildiv(stored, lanes),
        moved=4 * (pixels * cin + stored),
        weights=4 * cin * scattered,
    )


def weight_gradient_work(lanes: int, products: Dim, copied: Dim) -> Work:
    """Gradient of the weights of a convolution: ``products`` of output pixels and taps, and ``copied``
    elements of the image and of the gradient of the result.
    """
    return Work(fmas=products, efficiency=WEIGHT_GRADIENT, cycles=floordiv(3 * copied, lanes))


def planar_depthwise_work(planes: Dim, vectors: Dim, taps: Dim) -> Work:
    """Row-major depthwise convolution: rows are copied with padding, and loads of neighbors cross cache
    lines.
    """
    return Work(cycles=180 * planes + 7 * vectors + floordiv(3 * vectors * taps, 2))


def transposed_depthwise_work(rows: Dim, vectors: Dim, taps: Dim) -> Work:
    """Row-major transposed depthwise convolution: ``vectors`` of the result in ``rows``, each the sum of
    ``taps`` products.
    """
    return Work(cycles=40 * rows + 6 * vectors + 2 * vectors * taps)


def blocked_depthwise_work(lanes: int, vectors: Dim, taps: Dim) -> Work:
    """Blocked depthwise convolution: one vector of channels per pixel."""
    return Work(fmas=vectors * lanes * taps, cycles=floordiv(7 * lanes * vectors, 16))


def channels_last_work(read: Dim, written: Dim) -> Work:
    """The additional work of channels-last convolutions: copies of ``read`` and ``written`` vectors of
    channels to and from rows of pixels.
    """
    return Work(cycles=2 * read + 2 * written)


def planar_pool_work(lanes: int, rows: Dim, vectors: Dim, moved: Dim, average: bool, pairs: bool) -> Work:
    """Row-major pooling: ``rows`` of the result, each with ``vectors`` combined in both steps; averages also
    count and divide.

    ``pairs``: each window has two columns of its own (:func:`is_pairwise_pool`), which takes one
    step.
    """
    if pairs:
        return Work(cycles=rows * ((41 if average else 32) + floordiv(5 * vectors, 2)), moved=moved)
    return Work(cycles=rows * ((94 if average else 56) + floordiv(lanes * vectors, 9)), moved=moved)


def is_pairwise_pool(kernel: Dim, stride: Dim, dilation: Dim, before: Dim) -> bool:
    """Whether windows along the last axis have two columns and do not overlap."""
    return (kernel, stride, dilation, before) == (2, 2, 1, 0)


def blocked_pool_work(lanes: int, rows: Dim, vectors: Dim, moved: Dim, average: bool) -> Work:
    """Blocked pooling: the same steps with one vector of channels per pixel."""
    return Work(cycles=rows * ((20 if average else 10) + floordiv(lanes * vectors, 8)), moved=moved)


def reblock_work(lanes: int, planes: Dim, pixels: Dim) -> Work:
    """Conversion of ``planes`` blocks of channels with ``pixels`` each between row-major and blocked: squares
    of ``lanes`` channels and ``lanes`` pixels are transposed.
    """
    squares = planes * ceildiv(pixels, lanes)
    return Work(cycles=20 * planes + squares * (lanes * lanes // 4), moved=8 * lanes * planes * pixels)


BAND_CALL_NS: Final = 1000
"""Nanoseconds per additional call of a convolution on a band: its setup, and partial tiles."""


def intermediate_image_ns(size: Dim, machine: Machine) -> Dim:
    """The additional time in nanoseconds if an image of ``size`` bytes, which one convolution stores and the
    next one loads, does not fit in the L2 cache. Measured with ``python -m benchmarks.fusion.bands``.
    """
    beyond_l2 = maximum(0, size - 2 * machine.l2.bytes)
    beyond_l3 = maximum(0, size - 5 * machine.l2.bytes)  # the share of it that is effectively available
    return floordiv(beyond_l2, 42) + floordiv(beyond_l3, 25)
