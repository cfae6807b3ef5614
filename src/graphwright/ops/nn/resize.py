"""Resize."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.blocked_form import Blocked, BlockedForm, can_be_blocked
from graphwright.ir.interfaces.bounded_form import BoundedForm
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import (
    Array,
    Fact,
    Inference,
    Sample,
    arg,
    op,
)
from graphwright.ir.symbols import Dim, floordiv, names_in, substitute, symbol
from graphwright.ir.types import F16, F32, F64, I64, STRING, U8, DType, TensorType
from graphwright.ops.core.bind_size import bind_symbols
from graphwright.ops.core.round_to_range import round_to_range
from graphwright.ops.core.size_inference import known_floats, number
from graphwright.ops.nn.dynamic_resize import (
    axis_parameters,
    interpolated,
    proportional_sizes,
    region_bounds,
    scaled_sizes,
)
from graphwright.ops.nn.rational_scale import floor_scaled, ratio_of_scale
from graphwright.ops.nn.resize_attributes import POLICIES, ResizeAttributes
from graphwright.ops.nn.resize_taps import (
    COORDINATES,
    MODES,
    ROUNDINGS,
    Taps,
    interpolated_axis,
    taps_of,
)
from graphwright.ops.nn.spatial import accumulator
from graphwright.records import replace


@op("Resize")
class Resize(BlockedForm, BoundedForm, PaddingRule, ResizeAttributes):
    """Resizes a tensor by interpolation, by ``scales`` or to ``sizes``: one for each axis, or for each of
    ``axes``.

    If both are None, operands 1 to 3 are the region of interest, scales and sizes, of which one of the last
    two is absent. If both are set, ``sizes`` are those of the result, and ``scales`` map its positions to the
    input. The attributes are those of ONNX: ``coordinates`` is ``coordinate_transformation_mode``,
    ``rounding`` ``nearest_mode``, ``policy`` ``keep_aspect_ratio_policy``. ``mode`` cubic is the convolution
    of Keys (1981).
    """

    def infer(self, at: Inference, x: Fact, *operands: Fact | None) -> TensorType:
        if x.dtype == STRING and self.mode != "nearest":
            raise at.fail(f"mode {self.mode} for {x.type}: strings support only mode nearest")
        if self.scales is None and self.sizes is None:
            if sum(f is not None for f in operands[1:3]) != 1 and operands:
                raise at.fail("exactly one of the operands scales and sizes must be given")
            resized = range(x.rank) if self.axes is None else [at.axis(axis, x.rank) for axis in self.axes]
            sizes = operands[2] if len(operands) > 2 else None
            scales = None if self.crops or len(operands) < 2 else known_floats(operands[1])
            return TensorType(x.dtype, self._data_dependent_shape(at, x, resized, sizes, scales))
        self._check_lists(at, x)
        if self.sizes is not None:
            for axis, (dim, size) in enumerate(zip(x.shape, self.sizes, strict=True)):
                if dim != size and not _is_zero_with(size, dim):
                    at.at_least(dim, 1, f"size of axis {axis}, which is resized")
            return TensorType(x.dtype, self.sizes)
        return TensorType(x.dtype, tuple(self._scaled(at, axis, dim) for axis, dim in enumerate(x.shape)))

    def _check_lists(self, at: Inference, x: Fact) -> None:
        """Raises InferError for scales, sizes or a region with wrong lengths or values."""
        symbolic = any(not isinstance(d, int) for d in (*(self.sizes or ()), *x.shape))
        if self.policy != "stretch" and self.sizes is not None and (symbolic or 0 in x.shape):
            raise at.fail(
                f"policy {self.policy} with sizes {list(self.sizes)} for {x.type}: all sizes must be numbers,"
                " and those of the input must not be 0"
            )
        for name, values, length in (
            ("scales", self.scales, x.rank),
            ("sizes", self.sizes, x.rank),
            ("bounds of the region", self.roi, 2 * x.rank),
        ):
            if values is not None and (len(values) != length or self.axes is not None):
                raise at.fail(f"{len(values)} {name} for axes {list(self.axes or range(x.rank))} of {x.type}")
        if not all(0 < scale < np.inf for scale in self.scales or ()):
            raise at.fail(f"the scales are {list(self.scales or ())}; they must be positive and finite")
        if not np.isfinite(self.roi or ()).all():
            raise at.fail(f"the region of interest is {list(self.roi or ())}; it must be finite")

    def _data_dependent_shape(
        self,
        at: Inference,
        x: Fact,
        resized: Sequence[int],
        sizes: Fact | None,
        scales: Sequence[float] | None,
    ) -> tuple[Dim, ...]:
        """The shape of the result if scales and sizes are unknown: a new symbol for each unknown size."""
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
        """The size of an axis after scaling."""
        scale = self.covered(axis) * (self.scales or ())[axis]
        if isinstance(dim, int):
            return floor_scaled(dim, scale)
        ratio = ratio_of_scale(scale)
        if ratio is None:
            raise at.fail(
                f"axis {axis} of symbolic size {dim} cannot be scaled by {scale:.6g}: bind {dim} to a number,"
                " or use sizes instead of scales"
            )
        if ratio.limit is not None and not at.not_less(ratio.limit - dim, 0):
            at.at_most(dim, ratio.limit, f"axis {axis}, which is scaled by {scale:.6g}")
        return floordiv(dim * ratio.numerator, ratio.denominator)

    def padding_leak(self, node: Node, padded: Padded) -> str:
        before, after = node.operand(0).type.dims, node.output.type.dims
        for axis, (dim, size) in enumerate(zip(before, after, strict=True)):
            if (padded.holds(dim) or padded.holds(size)) and dim != size:
                return f"it resizes axis {axis}"
        return ""

    def blocked_form(self, node: Node, operands: Sequence[Value | None], lanes: int) -> Blocked | str:
        """A resize of the spatial axes interpolates whole blocks of channels."""
        x, y = node.operand(0), node.output
        if not can_be_blocked(x) or x.type.dims[:2] != y.type.dims[:2]:
            return f"a resize of {x.type} to {y.type} has no channel-blocked form"
        if len(operands) > 1 or self.crops or self.antialias or self.coordinates == "tf_half_pixel_for_nn":
            return (
                "it has sizes that are computed at run time, crops, uses antialiasing or tf_half_pixel_for_nn"
            )
        if self.scales is not None and len(self.scales) != len(x.type.dims):
            return "it scales only some axes"
        return Blocked()

    def reference(self, x: Array) -> Array:
        sizes = self._sizes(x.shape)
        if 0 in sizes or x.size == 0:
            return np.zeros(sizes, x.dtype)
        wide = np.dtype(np.float64) if x.dtype.kind in "iub" else accumulator(x)
        interpolates = self.mode != "nearest"
        out = x.astype(wide) if interpolates else x
        outside = np.zeros((1,) * x.ndim, dtype=bool)
        for axis, size in enumerate(sizes):
            taps = self.taps(axis, x.shape[axis], size)
            if taps is None:
                continue
            out = interpolated_axis(out, axis, taps, interpolates)
            outside = outside | taps.outside.reshape([-1 if k == axis else 1 for k in range(x.ndim)])
        if outside.any():
            out = np.where(outside, np.asarray(self.extrapolation, out.dtype), out)
        bounds = self.method.range_of(x.dtype)
        if bounds is not None:
            out = round_to_range(out, None, *bounds)
        return np.array(out, dtype=x.dtype)

    def bounded_form(
        self, b: Builder, gives: Sequence[TensorType], defined: Set[str], *inputs: Value | None
    ) -> Value | None:
        """Binds the sizes of the result. If they alone define the interpolation of the last two axes, this is
        a Resize to sizes, which has kernels; otherwise the positions and weights are computed by nodes.
        """
        x, roi, scales, sizes = (*inputs, None, None, None)[:4]
        given = sizes if scales is None else scales
        if x is None or given is None or self.antialias or not _is_plain(x.type.dtype):
            return None
        dims = gives[0].dims
        axes = range(len(dims)) if self.axes is None else [axis % len(dims) for axis in self.axes]
        if given.type.shape != (len(axes),) or (self.crops and roi is None):
            return None
        bounds = region_bounds(b, roi, len(axes)) if self.crops and roi is not None else None
        if scales is not None:
            sizes = scaled_sizes(b, x, axes, scales, bounds)
        elif sizes is not None and self.policy != "stretch":
            sizes, scales = proportional_sizes(b, x, axes, sizes, self.policy)
        assert sizes is not None
        bind_symbols(b, dims, axes, sizes, defined)
        if scales is None and bounds is None and dims[:-2] == x.type.dims[:-2]:
            resized: Value = b(replace(self, sizes=dims, axes=None), x)
            return resized
        return interpolated(b, x, dims, self.method, axis_parameters(b, axes, scales, bounds))

    def _sizes(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        if self.sizes is not None:
            return tuple(number(size) for size in self.sizes)
        scales = self.scales or ()
        return tuple(floor_scaled(d, self.covered(k) * scales[k]) for k, d in enumerate(dims))

    def taps(self, axis: int, size: int, result: int) -> Taps | None:
        """The taps of an axis that is resized from ``size`` to ``result`` elements; None if it does not
        change.
        """
        scale = self.scales[axis] if self.scales is not None else None
        if size == result and scale in (None, 1.0) and not self.crops:
            return None
        return taps_of(self.method, size, result, scale, self.region(axis))


def _is_plain(dtype: DType) -> bool:
    """Whether nodes can interpolate elements of ``dtype``."""
    return (dtype.is_float and dtype.bits >= 16) or (dtype.is_integer and dtype.bits >= 8)


def _is_zero_with(size: Dim, dim: Dim) -> bool:
    """Whether ``size`` is 0 wherever ``dim`` is, such as ``2 * H`` for ``H``: nothing is interpolated."""
    if isinstance(size, int) or isinstance(dim, int):
        return size == 0
    names = tuple(names_in(dim))
    if len(names) != 1 or dim != substitute(dim, {names[0]: 1}) * symbol(names[0]):
        return False  # other values than 0 of its symbols might make it 0
    return substitute(size, {names[0]: 0}) == 0


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
    Sample(Resize("cubic", sizes=(3, 4)), (arg(U8, 2, 2, values=(0, 255, 250, 3)),)),
    Sample(Resize("linear", sizes=(3, 4)), (arg(F16, 2, 2),)),
    Sample(Resize("cubic", sizes=(3, 4)), (arg(F64, 2, 0),), "size of axis 1, which is resized"),
    Sample(Resize(scales=(1.0, float(np.float32(1 / 3)))), (arg(F32, 2, _H),)),
    Sample(Resize(scales=(1.0, 2.0)), (_X,), "2 scales for axes [0, 1, 2, 3]"),
    Sample(Resize(sizes=(5,), axes=(7,)), (_X,), "1 sizes for axes [7]"),
    Sample(Resize(scales=(1.0, 1.0, 0.0, 1.0)), (_X,), "they must be positive and finite"),
    Sample(Resize("lanczos", scales=_UP), (_X,), "mode 'lanczos'"),
    Sample(Resize("cubic", sizes=(3, 4)), (arg(STRING, 2, 2),), "only mode nearest"),
    Sample(Resize(), (_X, None, None, None), "exactly one of the operands scales and sizes"),
    Sample(Resize(sizes=(5,), axes=(1,), policy="not_larger"), (arg(F32, 2, _H),), "must be numbers"),
    Sample(Resize("linear", axes=(3, 2)), (_X, None, arg(F32, 2, values=(1.5, 2.0)), None)),
    Sample(
        Resize("linear", "tf_crop_and_resize", sizes=(4, 3), axes=(-1, 2), roi=(0.2, -0.5, 0.8, 1.1)), (_X,)
    ),
)
