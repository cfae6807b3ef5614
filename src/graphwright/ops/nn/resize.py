"""Resize, which Upsample becomes as well."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import cache
from typing import Any

import numpy as np

from graphwright.ir.blocked_form import Blocked, BlockedForm, can_be_blocked
from graphwright.ir.bounded_form import BoundedForm
from graphwright.ir.build import Builder
from graphwright.ir.exporter import CannotExport, Exporter
from graphwright.ir.graph import Node, Value
from graphwright.ir.op import (
    Array,
    AtenImport,
    AtenImporter,
    Fact,
    Importer,
    Inference,
    InferError,
    Op,
    Sample,
    arg,
    op,
)
from graphwright.ir.padding import Padded, PaddingRule
from graphwright.ir.symbols import Dim, floordiv, symbol
from graphwright.ir.types import F16, F32, F64, I64, U8, DType, TensorType
from graphwright.ops.control.bind_size import bind_symbols
from graphwright.ops.core.common import rank_of
from graphwright.ops.core.shaping import known_dims, known_floats, number
from graphwright.ops.nn.resize_open import (
    Method,
    given_bounds,
    given_by,
    interpolated,
    sizes_by_scales,
    sizes_kept,
)
from graphwright.ops.nn.spatial import accumulator
from graphwright.records import dataclass, replace

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
POLICIES = ("stretch", "not_larger", "not_smaller")
LONGEST = 1 << 20
"""Up to this size of an axis, the fractions that stand for scales of symbolic sizes are compared with f32."""
SHORTEST = 1 << 12
"""A fraction must serve sizes up to this one; else the size is computed when the model runs."""


@dataclass(frozen=True)
class Taps:
    """How one axis is interpolated: ``out[i] = sum(weights[i, k] * x[places[i, k]])``.

    Where ``outside[i]`` holds, the result is the extrapolation value.
    """

    places: Array
    weights: Array
    outside: Array


@dataclass(frozen=True)
class Ratio:
    """``n * numerator // denominator`` is ``floor(n * scale)`` in f32 for ``n`` up to ``limit``, or any."""

    numerator: int
    denominator: int
    limit: int | None = None


@cache
def scaled_ratio(scale: float) -> Ratio | None:
    """The ratio that stands for ``scale`` on most sizes; None where none does up to :data:`SHORTEST`.

    f32(1 / 3) is more than 1/3, and 10 * f32(2.3) is 23 although f32(2.3) is less than 2.3: ONNX's formula is
    that of the fraction which was meant, until the product's own rounding shows.
    """
    numerator, denominator = float(scale).as_integer_ratio()
    if denominator <= 64:
        return Ratio(numerator, denominator)
    if not 1 / LONGEST <= scale <= SHORTEST:
        return None
    sizes = np.arange(LONGEST + 1)
    wanted = np.floor(sizes.astype(np.float32) * np.float32(scale)).astype(np.int64)
    best: Ratio | None = None
    for bits in range(1, 21):
        numerator, denominator = _simplest(np.float32(scale).item(), 1 << bits)
        differs = sizes * numerator // denominator != wanted
        limit = int(np.argmax(differs)) - 1 if differs.any() else LONGEST
        if limit > (SHORTEST if best is None or best.limit is None else best.limit):
            best = Ratio(numerator, denominator, limit)
        if limit == LONGEST:
            break
    return best


def _simplest(value: float, most: int) -> tuple[int, int]:
    """The last convergent of the continued fraction of ``value`` with a denominator of at most ``most``."""
    top, bottom = value.as_integer_ratio()
    numerators, denominators = (0, 1), (1, 0)
    while bottom:
        whole, rest = divmod(top, bottom)
        if whole * denominators[1] + denominators[0] > most:
            break
        numerators = (numerators[1], whole * numerators[1] + numerators[0])
        denominators = (denominators[1], whole * denominators[1] + denominators[0])
        top, bottom = bottom, rest
    return numerators[1], denominators[1]


@op("Resize")
class Resize(BlockedForm, BoundedForm, PaddingRule, Op):
    """Interpolation along every axis by ``scales`` or to ``sizes``: one for each axis, or each of ``axes``.

    Without both, operands 1 to 3 are the region of interest, scales and sizes; one of the last two is absent.
    Where both are set, ``sizes`` are those of the result and ``scales`` place its elements in the input.
    """

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    scales: tuple[float, ...] | None = None
    sizes: tuple[Dim, ...] | None = None
    roi: tuple[float, ...] | None = None
    """All starts, then all ends, as fractions of the axes; for tf_crop_and_resize."""
    axes: tuple[int, ...] | None = None
    policy: str = "stretch"
    antialias: bool = False
    cubic_a: float = -0.75
    exclude_outside: bool = False
    extrapolation: float = 0.0
    optional_inputs = frozenset({1, 2, 3})

    def verify(self) -> None:
        for name, value, allowed in (
            ("mode", self.mode, MODES),
            ("coordinates", self.coordinates, COORDINATES),
            ("rounding", self.rounding, ROUNDINGS),
            ("policy", self.policy, POLICIES),
        ):
            if value not in allowed:
                raise InferError(f"{name} {value!r} is not one of {', '.join(allowed)}")

    @property
    def crops(self) -> bool:
        return self.coordinates == "tf_crop_and_resize"

    def fold_operands(self, x: Fact, *operands: Fact | None) -> tuple[Op, tuple[int, ...]] | None:
        if x.type.shape is None:
            return None
        made: Resize | None = self
        if self.scales is None and self.sizes is None:
            made = self._with_operands((*operands, None, None, None)[:3])
        if made is None:
            return None
        made = made._on_all_axes(x.shape)
        stays = (self.scales is None and made._open_scales(x.shape)) or (
            self.sizes is None and made._open_aspect(x.shape)
        )
        return None if made == self or stays else (made, (0,))

    def _open_aspect(self, dims: tuple[Dim, ...]) -> bool:
        """Whether the sizes that keep the aspect ratio depend on open ones: then the operand stays."""
        return self.policy != "stretch" and self.sizes is not None and 0 not in dims

    def _open_scales(self, dims: tuple[Dim, ...]) -> bool:
        """Whether a symbolic size is scaled by what no ratio stands for: then the operand stays."""
        pairs = zip(dims, self.scales or (), strict=False) if self.sizes is None else ()
        return any(
            not isinstance(dim, int) and scaled_ratio(self._reach(axis) * scale) is None
            for axis, (dim, scale) in enumerate(pairs)
        )

    def _with_operands(self, operands: Sequence[Fact | None]) -> Resize | None:
        roi, scales, sizes = operands
        fractions = known_floats(roi) if self.crops else None
        if self.crops and fractions is None:
            return None
        factors, targets = known_floats(scales), known_dims(sizes)
        if targets:
            return replace(self, sizes=targets, roi=fractions)
        return replace(self, scales=factors, roi=fractions) if factors else None

    def _on_all_axes(self, dims: tuple[Dim, ...]) -> Resize:
        """Lists for all axes instead of ``axes``, and the aspect ratio kept, where sizes are numbers."""
        rank, made = len(dims), self
        axes = tuple(range(rank)) if self.axes is None else self.axes
        given = self.scales if self.scales is not None else self.sizes
        if given is None or len(given) != len(axes) or any(not -rank <= axis < rank for axis in axes):
            return self
        places = [axis % rank for axis in axes]
        if self.policy != "stretch" and self.sizes is not None:
            wanted, have = self.sizes, [dims[axis] for axis in places]
            if any(not isinstance(d, int) for d in (*wanted, *have)) or 0 in have:
                return self
            ratios = [number(w) / number(d) for w, d in zip(wanted, have, strict=True)]
            scale = min(ratios) if self.policy == "not_larger" else max(ratios)
            kept = tuple(int(scale * number(d) + 0.5) for d in have)
            made = replace(made, sizes=kept, scales=(scale,) * len(places), policy="stretch")
        if self.axes is None:
            return made
        roi = made.roi and (*_spread(made.roi[: len(axes)], places, [0.0] * rank),
                            *_spread(made.roi[len(axes) :], places, [1.0] * rank))  # fmt: skip
        return replace(
            made,
            axes=None,
            scales=made.scales and _spread(made.scales, places, [1.0] * rank),
            sizes=made.sizes and _spread(made.sizes, places, list(dims)),
            roi=roi,
        )

    def infer(self, at: Inference, x: Fact, *operands: Fact | None) -> TensorType:
        if self.scales is None and self.sizes is None:
            if sum(f is not None for f in operands[1:3]) != 1 and operands:
                raise at.fail("exactly one of scales and sizes is needed")
            resized = range(x.rank) if self.axes is None else [at.axis(axis, x.rank) for axis in self.axes]
            sizes = operands[2] if len(operands) > 2 else None
            scales = None if self.crops or len(operands) < 2 else known_floats(operands[1])
            return TensorType(x.dtype, self._open(at, x, resized, sizes, scales))
        open_sizes = any(not isinstance(d, int) for d in (*(self.sizes or ()), *x.shape)) or 0 in x.shape
        if self.policy != "stretch" and self.sizes is not None and open_sizes:
            raise at.fail(f"{self.policy}: sizes {list(self.sizes)} of {x.type} must be numbers, and not 0")
        for name, values, length in (
            ("scales", self.scales, x.rank),
            ("sizes", self.sizes, x.rank),
            ("bounds of the region", self.roi, 2 * x.rank),
        ):
            if values is not None and (len(values) != length or self.axes is not None):
                raise at.fail(f"{len(values)} {name} for axes {list(self.axes or range(x.rank))} of {x.type}")
        if not all(0 < scale < np.inf for scale in self.scales or ()):
            raise at.fail(f"scales of {list(self.scales or ())}: they must be positive and finite")
        if not np.isfinite(self.roi or ()).all():
            raise at.fail(f"a region of interest of {list(self.roi or ())}: its bounds must be finite")
        if self.sizes is not None:
            for axis, (dim, size) in enumerate(zip(x.shape, self.sizes, strict=True)):
                if dim != size and size != 0:
                    at.at_least(dim, 1, f"axis {axis}, of which elements are taken")
            return TensorType(x.dtype, self.sizes)
        return TensorType(x.dtype, tuple(self._scaled(at, axis, dim) for axis, dim in enumerate(x.shape)))

    def _open(
        self,
        at: Inference,
        x: Fact,
        resized: Sequence[int],
        sizes: Fact | None,
        scales: Sequence[float] | None,
    ) -> tuple[Dim, ...]:
        """The sizes of the result where elements decide them: those that are known, and new ones."""
        kept = {axis for axis, scale in zip(resized, scales or (), strict=False) if scale == 1}
        parts = (
            ()
            if sizes is None or self.policy != "stretch"
            else sizes.elements or sizes.partial_elements or ()
        )
        known = dict(zip(resized, parts, strict=False))
        shape: list[Dim] = []
        for axis, dim in enumerate(x.shape):
            part = known.get(axis)
            if axis in resized and axis not in kept and part is None:
                part = at.symbols.fresh("resized")
            shape.append(dim if part is None else part)
        return tuple(shape)

    def _scaled(self, at: Inference, axis: int, dim: Dim) -> Dim:
        scale = self._reach(axis) * (self.scales or ())[axis]
        if isinstance(dim, int):
            return _floor_scaled(dim, scale)
        ratio = scaled_ratio(scale)
        if ratio is None:
            raise at.fail(
                f"axis {axis} of {dim} elements scaled by {scale:.6g}: give a number for {dim}, or sizes"
            )
        if ratio.limit is not None and not at.not_less(ratio.limit - dim, 0):
            at.at_least(ratio.limit - dim, 0, f"axis {axis} scaled by {scale:.6g}: {ratio.limit} less {dim}")
        return floordiv(dim * ratio.numerator, ratio.denominator)

    def _reach(self, axis: int) -> float:
        """The part of the axis that the region of interest covers."""
        if not self.crops or self.roi is None:
            return 1.0
        return self.roi[axis + len(self.roi) // 2] - self.roi[axis]

    def padding_leak(self, node: Node, padded: Padded) -> str:
        before, after = node.operand(0).type.dims, node.output.type.dims
        for axis, (dim, size) in enumerate(zip(before, after, strict=True)):
            if (padded.holds(dim) or padded.holds(size)) and dim != size:
                return f"it resizes axis {axis}"
        return ""

    def blocked_form(self, node: Node, operands: Sequence[Value | None], lanes: int) -> Blocked | str:
        """Over the pixels, as the row-major kernel does."""
        x, y = node.operand(0), node.output
        if not can_be_blocked(x) or x.type.dims[:2] != y.type.dims[:2]:
            return f"no resize of {x.type} on channel blocks"
        if len(operands) > 1 or self.crops or self.antialias or self.coordinates == "tf_half_pixel_for_nn":
            return "it crops, uses antialiasing, computed sizes or an old coordinate mode"
        if self.scales is not None and len(self.scales) != len(x.type.dims):
            return "it scales only some axes"
        return Blocked()

    def reference(self, x: Array) -> Array:
        sizes = self._sizes(x.shape)
        if 0 in sizes or x.size == 0:
            return np.zeros(sizes, x.dtype)
        wide = np.dtype(np.float64) if x.dtype.kind in "iub" else accumulator(x)
        blends = self.mode != "nearest"
        out = x.astype(wide) if blends else x
        outside = np.zeros((1,) * x.ndim, dtype=bool)
        for axis, size in enumerate(sizes):
            taps = self.taps(axis, x.shape[axis], size)
            if taps is None:
                continue
            out = _interpolated(out, axis, taps, blends)
            outside = outside | taps.outside.reshape([-1 if k == axis else 1 for k in range(x.ndim)])
        if outside.any():
            out = np.where(outside, np.asarray(self.extrapolation, out.dtype), out)
        return np.array(out, dtype=x.dtype)

    def bounded_form(
        self, b: Builder, gives: Sequence[TensorType], made: Set[str], *inputs: Value | None
    ) -> Value | None:
        """With sizes that are told, the kernels of known ones serve; else tables of taps are made."""
        x, roi, scales, sizes = (*inputs, None, None, None)[:4]
        decides = sizes if scales is None else scales
        if x is None or decides is None or self.antialias or not _is_plain(x.type.dtype):
            return None
        dims = gives[0].dims
        axes = range(len(dims)) if self.axes is None else [axis % len(dims) for axis in self.axes]
        if decides.type.shape != (len(axes),) or (self.crops and roi is None):
            return None
        bounds = given_bounds(b, roi, len(axes)) if self.crops and roi is not None else None
        if scales is not None:
            sizes = sizes_by_scales(b, x, axes, scales, bounds)
        elif sizes is not None and self.policy != "stretch":
            sizes, scales = sizes_kept(b, x, axes, sizes, self.policy)
        assert sizes is not None
        bind_symbols(b, dims, axes, sizes, made)
        if scales is None and bounds is None and dims[:-2] == x.type.dims[:-2]:
            resized: Value = b(replace(self, sizes=dims, axes=None), x)
            return resized
        method = Method(
            self.mode,
            self.coordinates,
            self.rounding,
            self.cubic_a,
            self.exclude_outside,
            self.extrapolation,
        )
        return interpolated(b, x, dims, method, given_by(b, axes, scales, bounds))

    def _sizes(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        if self.sizes is not None:
            return tuple(number(size) for size in self.sizes)
        scales = self.scales or ()
        return tuple(_floor_scaled(d, self._reach(k) * scales[k]) for k, d in enumerate(dims))

    def taps(self, axis: int, size: int, result: int) -> Taps | None:
        """Taps of an axis that goes from ``size`` to ``result`` elements; None where it stays as it is."""
        scale = self.scales[axis] if self.scales is not None else None
        if size == result and scale in (None, 1.0) and not self.crops:
            return None
        x = self._positions(axis, size, result, scale)
        outside = ((x < 0) | (x > size - 1)) if self.crops else np.zeros(result, dtype=bool)
        if self.mode == "nearest":
            places = np.clip(_rounded(x, self.rounding), 0, size - 1).astype(np.int64)
            return Taps(places[:, None], np.ones((result, 1)), outside)
        stretch = min(1.0, result / size if scale is None else scale) if self.antialias else 1.0
        radius = (1 if self.mode == "linear" else 2) / stretch
        first = int(np.floor(-radius)) + 1
        places = np.floor(x)[:, None] + np.arange(first, 2 - first)
        distance = np.abs(places - x[:, None]) * stretch
        weights = np.clip(1 - distance, 0, 1) if self.mode == "linear" else _keys(distance, self.cubic_a)
        if self.exclude_outside:
            weights = np.where((places >= 0) & (places < size), weights, 0)
        if self.exclude_outside or self.antialias:
            weights = weights / weights.sum(1, keepdims=True)
        return Taps(np.clip(places, 0, size - 1).astype(np.int64), weights, outside)

    def _positions(self, axis: int, size: int, result: int, scale: float | None) -> Array:
        """Where each element of the result lies in the input (ONNX, coordinate_transformation_mode).

        The nearest element is that of f32, the precision of scales: element 9 of a scale of 1/3 is the 27th.
        """
        if self.mode == "nearest" and not self.crops:
            return self._nearest_positions(
                size, result, np.float32(result / size if scale is None else scale)
            )
        i = np.arange(result, dtype=np.float64)
        over, under = (size, result) if scale is None else (1.0, scale)  # multiplied first: ties stay exact
        match self.coordinates:
            case "asymmetric":
                return i * over / under
            case "tf_half_pixel_for_nn":
                return (i + 0.5) * over / under
            case "align_corners":
                return i * (size - 1) / max(result - 1, 1)
            case "tf_crop_and_resize":
                start, end = (self.roi or ())[axis], (self.roi or ())[axis + len(self.roi or ()) // 2]
                if result == 1:
                    return np.array([0.5 * (start + end) * (size - 1)])
                return start * (size - 1) + i * (end - start) * (size - 1) / (result - 1)
            case "pytorch_half_pixel" if result == 1:
                return np.zeros(1)
            case "half_pixel_symmetric" if scale is not None:
                return size / 2 * (1 - result / (scale * size)) + (i + 0.5) / scale - 0.5
        return (i + 0.5) * over / under - 0.5

    def _nearest_positions(self, size: int, result: int, scale: np.float32) -> Array:
        """:meth:`_positions` in f32, step by step as the library's kernel and ONNX Runtime compute them."""
        i, half, one = np.arange(result, dtype=np.float32), np.float32(0.5), np.float32(1)
        match self.coordinates:
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


def _is_plain(dtype: DType) -> bool:
    """Whether arithmetic in the graph may stand for that of the reference."""
    return (dtype.is_float and dtype.bits >= 16) or (dtype.is_integer and dtype.bits >= 8)


def _spread(values: Sequence[Any], places: Sequence[int], default: list[Any]) -> tuple[Any, ...]:
    for value, place in zip(values, places, strict=True):
        default[place] = value
    return tuple(default)


def _floor_scaled(dim: int, scale: float) -> int:
    """``floor(dim * scale)`` in f32, the precision of scales: 10 * 2.3 is 23, as it was meant."""
    return int(np.floor(np.float32(dim) * np.float32(scale)))


def _rounded(x: Array, how: str) -> Array:
    match how:
        case "round_prefer_floor":
            return np.asarray(np.ceil(x - 0.5))
        case "round_prefer_ceil":
            return np.asarray(np.floor(x + 0.5))
    return np.asarray(np.floor(x) if how == "floor" else np.ceil(x))


def _keys(distance: Array, a: float) -> Array:
    """The cubic convolution kernel (R. Keys, 1981), equation 4."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.asarray(np.where(distance <= 1, near, np.where(distance < 2, far, 0)))


def _interpolated(x: Array, axis: int, taps: Taps, blends: bool) -> Array:
    if not blends:
        return np.take(x, taps.places[:, 0], axis)
    shape = [-1 if k == axis else 1 for k in range(x.ndim)]
    total: Array = np.zeros((*x.shape[:axis], len(taps.places), *x.shape[axis + 1 :]), x.dtype)
    for k in range(taps.places.shape[1]):
        weights = taps.weights[:, k]
        if weights.any():
            total += np.take(x, taps.places[:, k], axis) * weights.reshape(shape).astype(x.dtype)
    return total


def _import_10(i: Importer) -> Any:
    """Resize 10 and Upsample 9: elements keep their top left corners."""
    made = Resize(_mode(i), "asymmetric", "floor")
    return i.emit(made, i.input(0), None, i.input(1))


def _import_7(i: Importer) -> Any:
    scales = i.const(np.array(i.required_attr("scales"), np.float32))
    return i.emit(Resize(_mode(i), "asymmetric", "floor"), i.input(0), None, scales)


def _mode(i: Importer) -> str:
    mode = str(i.attr("mode", "nearest"))
    return "linear" if mode == "bilinear" else mode


def _import_11(i: Importer) -> Any:
    axes = i.attr("axes")
    made = Resize(
        mode=i.attr("mode", "nearest"),
        coordinates=i.attr("coordinate_transformation_mode", "half_pixel"),
        rounding=i.attr("nearest_mode", "round_prefer_floor"),
        axes=None if axes is None else tuple(axes),
        policy=i.attr("keep_aspect_ratio_policy", "stretch"),
        antialias=bool(i.attr("antialias", 0)),
        cubic_a=i.attr("cubic_coeff_a", -0.75),
        exclude_outside=bool(i.attr("exclude_outside", 0)),
        extrapolation=i.attr("extrapolation_value", 0.0),
    )
    roi = i.optional(1) if made.crops else None
    return i.emit(made, i.input(0), roi, *_scales_or_sizes(i))


def _scales_or_sizes(i: Importer) -> tuple[Value | None, Value | None]:
    """The two operands, of which one is present. Where both are, the standard says that one has no elements:
    that is the one whose length is unknown.
    """
    scales, sizes = (None if _is_empty(i, k) else i.optional(k) for k in (2, 3))
    if scales is None or sizes is None or _has_known_length(scales) == _has_known_length(sizes):
        return scales, sizes
    return (scales, None) if _has_known_length(scales) else (None, sizes)


def _has_known_length(value: Value) -> bool:
    return value.type.shape is not None and all(isinstance(dim, int) for dim in value.type.shape)


def _is_empty(i: Importer, index: int) -> bool:
    """Exporters write an empty constant, or an input of no elements, for the one that is absent."""
    value = i.optional(index)
    return value is not None and value.type.shape == (0,)


def _export(e: Exporter, op: Resize, x: Value, *operands: Value | None) -> Any:
    """Operands that became attributes are operands again; axes are counted from the front and in order, as
    ONNX Runtime needs them.
    """
    roi, scales, sizes = (*operands, None, None, None)[:3]
    op = _in_order(op, x) if op.axes is not None and x.type.shape is not None else op
    return e.emit(
        "Resize",
        x,
        roi if op.roi is None else e.const(np.array(op.roi, np.float32)),
        scales if op.scales is None else e.const(np.array(op.scales, np.float32)),
        sizes if op.sizes is None else e.sizes(op.sizes),
        mode=op.mode,
        coordinate_transformation_mode=op.coordinates,
        nearest_mode=op.rounding,
        axes=op.axes,
        keep_aspect_ratio_policy=op.policy,
        antialias=op.antialias,
        cubic_coeff_a=op.cubic_a,
        exclude_outside=op.exclude_outside,
        extrapolation_value=op.extrapolation,
    )


def _in_order(op: Resize, x: Value) -> Resize:
    axes = [axis % len(x.type.dims) for axis in op.axes or ()]
    order = sorted(range(len(axes)), key=axes.__getitem__)

    def sorted_by(values: Any) -> Any:
        return None if values is None else tuple(values[k] for k in order)

    if order != list(range(len(axes))) and (op.scales is op.sizes is None or op.roi is not None):
        raise CannotExport("its axes are not in order")
    return replace(op, axes=sorted_by(axes), scales=sorted_by(op.scales), sizes=sorted_by(op.sizes))


Resize.to_onnx = _export
Resize.onnx = {
    ("Upsample", 7): _import_7,
    ("Upsample", 9): _import_10,
    ("Resize", 10): _import_10,
    ("Resize", 11): _import_11,
}
_X, _H = arg(F32, 1, 2, 4, 6), symbol("H")
_UP, _DOWN = (1.0, 1.0, 2.0, 1.5), (1.0, 1.0, 0.5, 0.75)
_SIZES = arg(I64, 4, values=(1, 2, 7, 3))
Resize.samples = (
    *(Sample(Resize(mode, c, scales=_UP), (_X,)) for mode in MODES for c in COORDINATES[:-1]),
    *(Sample(Resize(mode, scales=_DOWN, antialias=mode != "nearest"), (_X,)) for mode in MODES),
    *(Sample(Resize(rounding=rounding, sizes=(1, 2, 3, 4)), (_X,)) for rounding in ROUNDINGS),
    *(Sample(Resize(sizes=(5, 5), axes=(-1, 2), policy=policy), (_X,)) for policy in POLICIES),
    Sample(Resize("linear", scales=_UP), (arg(F32, 1, 2, _H, symbol("W")),)),
    Sample(Resize("nearest", "asymmetric", scales=(1.0, 0.25)), (arg(F32, 2, _H),)),
    Sample(
        Resize("linear", "tf_crop_and_resize", sizes=(3, 4), roi=(-0.5, 0.2, 1.1, 0.8), extrapolation=7.0),
        (arg(F32, 5, 6),),
    ),
    Sample(Resize("cubic", scales=_UP, exclude_outside=True, cubic_a=-0.5), (_X,)),
    Sample(Resize(), (_X, None, arg(F32, 4, values=_UP), None)),
    Sample(Resize(), (_X, None, None, _SIZES)),
    Sample(Resize("linear", sizes=(3, 4)), (arg(U8, 2, 2),)),
    Sample(Resize("linear", sizes=(3, 4)), (arg(F16, 2, 2),)),
    Sample(Resize("cubic", sizes=(3, 4)), (arg(F64, 2, 0),), "axis 1, of which elements are taken"),
    Sample(Resize(scales=(1.0, float(np.float32(1 / 3)))), (arg(F32, 2, _H),)),
    Sample(Resize(scales=(1.0, 2.0)), (_X,), "2 scales for axes [0, 1, 2, 3]"),
    Sample(Resize(sizes=(5,), axes=(7,)), (_X,), "1 sizes for axes [7]"),
    Sample(Resize(scales=(1.0, 1.0, 0.0, 1.0)), (_X,), "they must be positive and finite"),
    Sample(Resize("lanczos", scales=_UP), (_X,), "mode 'lanczos'"),
    Sample(Resize(), (_X, None, None, None), "exactly one of scales and sizes"),
    Sample(Resize(sizes=(5,), axes=(1,), policy="not_larger"), (arg(F32, 2, _H),), "must be numbers"),
)


def _scaled_to(mode: str) -> AtenImport:
    """To the size of the result; ``scale_factors`` place its elements where they are given."""

    def convert(i: AtenImporter) -> Any:
        i.ignore("output_size")
        x, factors = i.input(0), i.attr("scale_factors")
        aligned = mode != "nearest" and bool(i.attr("align_corners"))
        axes = tuple(range(2, rank_of(x)))
        coordinates = (
            "asymmetric" if mode == "nearest" else "align_corners" if aligned else "pytorch_half_pixel"
        )
        if mode == "cubic":
            coordinates = "align_corners" if aligned else "half_pixel"
        elif not aligned and mode == "linear":
            coordinates = "half_pixel"
        made = Resize(
            mode, coordinates, "floor" if mode == "nearest" else "round_prefer_floor",
            scales=None if factors is None or aligned else tuple(map(float, factors)),
            sizes=i.results[0].dims[2:], axes=axes,
        )  # fmt: skip
        return i.emit(made, x)

    return convert


Resize.aten = {
    **{f"upsample_nearest{n}d.vec": _scaled_to("nearest") for n in (1, 2, 3)},
    "upsample_linear1d.vec": _scaled_to("linear"),
    "upsample_bilinear2d.vec": _scaled_to("linear"),
    "upsample_trilinear3d.vec": _scaled_to("linear"),
    "upsample_bicubic2d.vec": _scaled_to("cubic"),
}
