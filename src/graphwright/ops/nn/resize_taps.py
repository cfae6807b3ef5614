"""The interpolation of one axis by Resize, as ONNX defines it: positions in the input, and weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array
from graphwright.ir.types import F64, DType
from graphwright.records import dataclass

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True)
class Method:
    """The attributes of Resize that define the interpolation."""

    mode: str
    coordinates: str
    rounding: str
    antialias: bool
    cubic_a: float
    exclude_outside: bool
    extrapolation: float

    @property
    def crops(self) -> bool:
        """Whether a region of interest is resized."""
        return self.coordinates == "tf_crop_and_resize"

    def range_of(self, dtype: np.dtype[Any]) -> tuple[float, float] | None:
        """The range to which integers are rounded and saturated; None for floats, for copies, and for
        integers whose fraction is cut off.

        Cubic weights are negative at some positions, so a sum of bytes can leave their range. ONNX Runtime
        rounds integers with antialiasing, and cuts off their fraction without it. Without antialiasing it has
        no cubic interpolation of integers.
        """
        overshoots_or_filters = self.mode == "cubic" or (self.mode == "linear" and self.antialias)
        if dtype.kind not in "iu" or not overshoots_or_filters:
            return None
        info = np.iinfo(dtype)
        high = float(info.max)
        return float(info.min), high if int(high) <= info.max else float(np.nextafter(high, 0))


def sum_dtype(dtype: DType) -> DType:
    """The dtype in which weighted elements of ``dtype`` are summed."""
    return dtype.computed if dtype.is_float else F64


@dataclass(frozen=True)
class Taps:
    """The interpolation of one axis: ``out[i] = sum(weights[i, k] * x[positions[i, k]])``.

    Where ``outside[i]`` is true, the result is the extrapolation value.
    """

    positions: Array
    weights: Array
    outside: Array


def taps_of(method: Method, size: int, result: int, scale: float | None, region: tuple[float, float]) -> Taps:
    """The taps of an axis that is resized from ``size`` to ``result`` elements. The default of ``scale`` is
    their ratio; ``region`` is the start and end of the part that is resized, as fractions of the axis.
    """
    x = _positions(method, size, result, scale, region)
    outside = ((x < 0) | (x > size - 1)) if method.crops else np.zeros(result, dtype=bool)
    if method.mode == "nearest":
        # f32 does not represent every size - 1, so both roundings are those of f64
        nearest = _rounded(x.astype(np.float64), method.rounding)
        positions = np.clip(nearest, 0, size - 1).astype(np.int64)
        return Taps(positions[:, None], np.ones((result, 1)), outside)
    stretch = min(1.0, result / size if scale is None else scale) if method.antialias else 1.0
    radius = (1 if method.mode == "linear" else 2) / stretch
    first = int(np.floor(-radius)) + 1
    positions = np.floor(x)[:, None] + np.arange(first, 2 - first)
    distance = np.abs(positions - x[:, None]) * stretch
    linear = method.mode == "linear"
    weights = np.clip(1 - distance, 0, 1) if linear else _cubic_weights(distance, method.cubic_a)
    if method.exclude_outside:
        weights = np.where((positions >= 0) & (positions < size), weights, 0)
    if method.exclude_outside or method.antialias:
        weights = weights / weights.sum(1, keepdims=True)
    return Taps(np.clip(positions, 0, size - 1).astype(np.int64), weights, outside)


def _positions(
    method: Method, size: int, result: int, scale: float | None, region: tuple[float, float]
) -> Array:
    """The coordinate in the input of each element of the result (ONNX: coordinate_transformation_mode).

    Mode nearest computes in f32, the precision of scales, so that rounding errors do not change the
    nearest element: with a scale of 1/3, element 9 is element 27 of the input.
    """
    if method.mode == "nearest" and not method.crops:
        return _nearest_positions(
            method.coordinates, size, result, np.float32(result / size if scale is None else scale)
        )
    i = np.arange(result, dtype=np.float64)
    over, under = (size, result) if scale is None else (1.0, scale)  # multiplies first: ties are exact
    match method.coordinates:
        case "asymmetric":
            return i * over / under
        case "tf_half_pixel_for_nn":
            return (i + 0.5) * over / under
        case "align_corners":
            return i * (size - 1) / max(result - 1, 1)
        case "tf_crop_and_resize":
            start, end = region
            if result == 1:
                return np.array([0.5 * (start + end) * (size - 1)])
            return start * (size - 1) + i * (end - start) * (size - 1) / (result - 1)
        case "pytorch_half_pixel" if result == 1:
            return np.zeros(1)
        case "half_pixel_symmetric" if scale is not None:
            return size / 2 * (1 - result / (scale * size)) + (i + 0.5) / scale - 0.5
    return (i + 0.5) * over / under - 0.5


def _nearest_positions(coordinates: str, size: int, result: int, scale: np.float32) -> Array:
    """:func:`_positions` in f32, with the operations of the library kernel and of ONNX Runtime."""
    i, half, one = np.arange(result, dtype=np.float32), np.float32(0.5), np.float32(1)
    match coordinates:
        case "asymmetric":
            return i / scale
        case "tf_half_pixel_for_nn":
            return (i + half) / scale
        case "align_corners":
            return i * np.float32(size - 1) / np.float32(max(result - 1, 1))
        case "pytorch_half_pixel" if result == 1:
            return np.zeros(1, np.float32)
        case "half_pixel_symmetric":
            covered = np.float32(result) / (scale * np.float32(size))
            return np.float32(size) * half * (one - covered) + (i + half) / scale - half
    return (i + half) / scale - half


def _rounded(x: Array, how: str) -> Array:
    match how:
        case "round_prefer_floor":
            return np.asarray(np.ceil(x - 0.5))
        case "round_prefer_ceil":
            return np.asarray(np.floor(x + 0.5))
    return np.asarray(np.floor(x) if how == "floor" else np.ceil(x))


def _cubic_weights(distance: Array, a: float) -> Array:
    """The cubic convolution kernel (Keys 1981, equation 4)."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.asarray(np.where(distance <= 1, near, np.where(distance < 2, far, 0)))


def interpolated_axis(x: Array, axis: int, taps: Taps, interpolates: bool) -> Array:
    """``x`` resized along one axis: the weighted sums of its taps, or the elements of single taps."""
    if not interpolates:
        return np.take(x, taps.positions[:, 0], axis)
    shape = [-1 if k == axis else 1 for k in range(x.ndim)]
    total: Array = np.zeros((*x.shape[:axis], len(taps.positions), *x.shape[axis + 1 :]), x.dtype)
    for k in range(taps.positions.shape[1]):
        weights = taps.weights[:, k]
        if weights.any():
            total += np.take(x, taps.positions[:, k], axis) * weights.reshape(shape).astype(x.dtype)
    return total
