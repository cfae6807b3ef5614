"""Scales of symbolic sizes: rational numbers that give the sizes that ONNX computes in f32."""

from __future__ import annotations

from functools import cache

import numpy as np

from graphwright.records import dataclass

MAX_CHECKED_SIZE = 1 << 20
"""A rational scale is compared with the f32 formula for all sizes up to this one."""
MIN_VALID_SIZE = 1 << 12
"""A rational scale must be right for all sizes up to this one; otherwise, sizes are computed at run time."""


@dataclass(frozen=True)
class Ratio:
    """A rational scale: ``n * numerator // denominator`` equals ``floor(n * scale)`` in f32 for all ``n`` up
    to ``limit``, or for all ``n`` if it is None.
    """

    numerator: int
    denominator: int
    limit: int | None = None


@cache
def ratio_of_scale(scale: float) -> Ratio | None:
    """The rational scale that is right for the most sizes; None if none is right up to
    :data:`MIN_VALID_SIZE`.

    Symbolic sizes are multiplied by a fraction, ONNX multiplies in f32. The product in f32 is usually that of
    the decimal number or fraction that was rounded to f32: 10 * f32(2.3) is 23, although f32(2.3) is less
    than 2.3. For large sizes, the rounding of the product makes a difference; ``limit`` excludes them.
    """
    numerator, denominator = float(scale).as_integer_ratio()
    if denominator <= 64:
        return Ratio(numerator, denominator)
    if not 1 / MAX_CHECKED_SIZE <= scale <= MIN_VALID_SIZE:
        return None
    sizes = np.arange(MAX_CHECKED_SIZE + 1)
    wanted = np.floor(sizes.astype(np.float32) * np.float32(scale)).astype(np.int64)
    best: Ratio | None = None
    for bits in range(1, 21):
        numerator, denominator = _convergent(np.float32(scale).item(), 1 << bits)
        differs = sizes * numerator // denominator != wanted
        limit = int(np.argmax(differs)) - 1 if differs.any() else MAX_CHECKED_SIZE
        if limit > (MIN_VALID_SIZE if best is None or best.limit is None else best.limit):
            best = Ratio(numerator, denominator, limit)
        if limit == MAX_CHECKED_SIZE:
            break
    return best


def _convergent(value: float, max_denominator: int) -> tuple[int, int]:
    """The last convergent of the continued fraction of ``value`` with a denominator of at most
    ``max_denominator``.
    """
    top, bottom = value.as_integer_ratio()
    numerators, denominators = (0, 1), (1, 0)
    while bottom:
        whole, rest = divmod(top, bottom)
        if whole * denominators[1] + denominators[0] > max_denominator:
            break
        numerators = (numerators[1], whole * numerators[1] + numerators[0])
        denominators = (denominators[1], whole * denominators[1] + denominators[0])
        top, bottom = bottom, rest
    return numerators[1], denominators[1]


def floor_scaled(dim: int, scale: float) -> int:
    """``floor(dim * scale)`` in f32, the precision of scales, in which 10 * 2.3 is 23."""
    return int(np.floor(np.float32(dim) * np.float32(scale)))
