"""Resize with constant operands as attributes, and with lists for all axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphwright.ir.op import Fact
from graphwright.ir.symbols import Dim
from graphwright.ops.core.shaping import known_dims, known_floats, number
from graphwright.ops.nn.rational_scale import ratio_of_scale
from graphwright.records import replace

if TYPE_CHECKING:
    from graphwright.ops.nn.resize import Resize


def folded_resize(op: Resize, x: Fact, operands: Sequence[Fact | None]) -> Resize | None:
    """``op`` for an input like ``x``; None if its sizes are known only at run time."""
    if x.type.shape is None:
        return None
    folded: Resize | None = op
    if op.scales is None and op.sizes is None:
        folded = _with_operands(op, (*operands, None, None, None)[:3])
    if folded is None:
        return None
    folded = _on_all_axes(folded, x.shape)
    at_run_time = (op.scales is None and _needs_scales_at_run_time(folded, x.shape)) or (
        op.sizes is None and _needs_aspect_at_run_time(folded, x.shape)
    )
    return None if at_run_time else folded


def _needs_aspect_at_run_time(op: Resize, dims: tuple[Dim, ...]) -> bool:
    """Whether sizes that keep the aspect ratio depend on symbolic sizes."""
    return op.policy != "stretch" and op.sizes is not None and 0 not in dims


def _needs_scales_at_run_time(op: Resize, dims: tuple[Dim, ...]) -> bool:
    """Whether a symbolic size is scaled, and no rational scale is valid."""
    pairs = zip(dims, op.scales or (), strict=False) if op.sizes is None else ()
    return any(
        not isinstance(dim, int) and ratio_of_scale(op.covered(axis) * scale) is None
        for axis, (dim, scale) in enumerate(pairs)
    )


def _with_operands(op: Resize, operands: Sequence[Fact | None]) -> Resize | None:
    """The op with constant operands as attributes; None if an operand is not constant."""
    roi, scales, sizes = operands
    fractions = known_floats(roi) if op.crops else None
    if op.crops and fractions is None:
        return None
    factors, targets = known_floats(scales), known_dims(sizes)
    if targets:
        return replace(op, sizes=targets, roi=fractions)
    return replace(op, scales=factors, roi=fractions) if factors else None


def _on_all_axes(op: Resize, dims: tuple[Dim, ...]) -> Resize:
    """The op with lists for all axes instead of ``axes``, and with sizes that keep the aspect ratio if they
    are numbers.
    """
    rank, resized_op = len(dims), op
    axes = tuple(range(rank)) if op.axes is None else op.axes
    given = op.scales if op.scales is not None else op.sizes
    if given is None or len(given) != len(axes) or any(not -rank <= axis < rank for axis in axes):
        return op
    resized = [axis % rank for axis in axes]
    if op.policy != "stretch" and op.sizes is not None:
        wanted, have = op.sizes, [dims[axis] for axis in resized]
        if any(not isinstance(d, int) for d in (*wanted, *have)) or 0 in have:
            return op
        ratios = [number(w) / number(d) for w, d in zip(wanted, have, strict=True)]
        scale = min(ratios) if op.policy == "not_larger" else max(ratios)
        kept = tuple(int(scale * number(d) + 0.5) for d in have)
        resized_op = replace(resized_op, sizes=kept, scales=(scale,) * len(resized), policy="stretch")
    if op.axes is None:
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
