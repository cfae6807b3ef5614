"""The attributes of Resize, and how constant operands become attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from graphwright.ir.op import Fact, InferError, Op, family
from graphwright.ir.symbols import Dim
from graphwright.ops.core.size_inference import known_dims, known_floats, number
from graphwright.ops.nn.rational_scale import ratio_of_scale
from graphwright.ops.nn.resize_taps import COORDINATES, MODES, ROUNDINGS, Method
from graphwright.records import replace

POLICIES = ("stretch", "not_larger", "not_smaller")


@family
class ResizeAttributes(Op):
    """The base class of Resize, which documents the attributes."""

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    scales: tuple[float, ...] | None = None
    sizes: tuple[Dim, ...] | None = None
    roi: tuple[float, ...] | None = None
    """The region of interest of tf_crop_and_resize: all starts, then all ends, as fractions of the axes."""
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
    def method(self) -> Method:
        """The attributes that define the interpolation."""
        return Method(
            self.mode,
            self.coordinates,
            self.rounding,
            self.antialias,
            self.cubic_a,
            self.exclude_outside,
            self.extrapolation,
        )

    @property
    def crops(self) -> bool:
        """Whether it resizes a region of interest."""
        return self.method.crops

    def covered(self, axis: int) -> float:
        """The fraction of the axis that the region of interest covers."""
        start, end = self.region(axis)
        return end - start

    def region(self, axis: int) -> tuple[float, float]:
        """The start and end of the region of interest along an axis, as fractions of it."""
        if not self.crops or self.roi is None:
            return 0.0, 1.0
        return self.roi[axis], self.roi[axis + len(self.roi) // 2]

    def fold_operands(self, x: Fact, *operands: Fact | None) -> tuple[Op, tuple[int, ...]] | None:
        if x.type.shape is None:
            return None
        folded: ResizeAttributes | None = self
        if self.scales is None and self.sizes is None:
            folded = self._with_operands((*operands, None, None, None)[:3])
        if folded is None:
            return None
        folded = folded._on_all_axes(x.shape)
        at_run_time = (self.scales is None and folded._needs_scales_at_run_time(x.shape)) or (
            self.sizes is None and folded._needs_aspect_at_run_time(x.shape)
        )
        return None if folded == self or at_run_time else (folded, (0,))

    def _needs_aspect_at_run_time(self, dims: tuple[Dim, ...]) -> bool:
        """Whether sizes that keep the aspect ratio depend on symbolic sizes."""
        return self.policy != "stretch" and self.sizes is not None and 0 not in dims

    def _needs_scales_at_run_time(self, dims: tuple[Dim, ...]) -> bool:
        """Whether a symbolic size is scaled, and no rational scale is valid."""
        pairs = zip(dims, self.scales or (), strict=False) if self.sizes is None else ()
        return any(
            not isinstance(dim, int) and ratio_of_scale(self.covered(axis) * scale) is None
            for axis, (dim, scale) in enumerate(pairs)
        )

    def _with_operands(self, operands: Sequence[Fact | None]) -> Self | None:
        """The op with constant operands as attributes; None if an operand is not constant."""
        roi, scales, sizes = operands
        fractions = known_floats(roi) if self.crops else None
        if self.crops and fractions is None:
            return None
        factors, targets = known_floats(scales), known_dims(sizes)
        if targets:
            return replace(self, sizes=targets, roi=fractions)
        return replace(self, scales=factors, roi=fractions) if factors else None

    def _on_all_axes(self, dims: tuple[Dim, ...]) -> Self:
        """The op with lists for all axes instead of ``axes``, and with sizes that keep the aspect ratio if
        they are numbers.
        """
        rank, resized_op = len(dims), self
        axes = tuple(range(rank)) if self.axes is None else self.axes
        given = self.scales if self.scales is not None else self.sizes
        if given is None or len(given) != len(axes) or any(not -rank <= axis < rank for axis in axes):
            return self
        resized = [axis % rank for axis in axes]
        if self.policy != "stretch" and self.sizes is not None:
            wanted, have = self.sizes, [dims[axis] for axis in resized]
            if any(not isinstance(d, int) for d in (*wanted, *have)) or 0 in have:
                return self
            ratios = [number(w) / number(d) for w, d in zip(wanted, have, strict=True)]
            scale = min(ratios) if self.policy == "not_larger" else max(ratios)
            kept = tuple(int(scale * number(d) + 0.5) for d in have)
            resized_op = replace(resized_op, sizes=kept, scales=(scale,) * len(resized), policy="stretch")
        if self.axes is None:
            return resized_op
        roi = resized_op.roi and (*_all_axes(resized_op.roi[: len(axes)], resized, [0.0] * rank),
                            *_all_axes(resized_op.roi[len(axes) :], resized, [1.0] * rank))  # fmt: skip
        return replace(
            resized_op,
            axes=None,
            scales=resized_op.scales and _all_axes(resized_op.scales, resized, [1.0] * rank),
            sizes=resized_op.sizes and _all_axes(resized_op.sizes, resized, list(dims)),
            roi=roi,
        )


def _all_axes(values: Sequence[Any], axes: Sequence[int], default: list[Any]) -> tuple[Any, ...]:
    """``default`` with the values of ``axes`` replaced by ``values``."""
    for value, axis in zip(values, axes, strict=True):
        default[axis] = value
    return tuple(default)
