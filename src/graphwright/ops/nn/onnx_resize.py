"""Import of ONNX's Resize and Upsample, and export as Resize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ir.op.exporter import Exporter, Operand
from graphwright.ops.nn.resize import Resize


def _import_10(i: Importer) -> Any:
    """Resize of opset 10 and Upsample of opset 9, with the coordinate mode asymmetric."""
    op = Resize(_mode(i), "asymmetric", "floor")
    return i.emit(op, i.input(0), None, i.input(1))


def _import_7(i: Importer) -> Any:
    scales = i.const(np.array(i.required_attr("scales"), np.float32))
    return i.emit(Resize(_mode(i), "asymmetric", "floor"), i.input(0), None, scales)


def _mode(i: Importer) -> str:
    mode = str(i.attr("mode", "nearest"))
    return "linear" if mode == "bilinear" else mode


def _import_11(i: Importer) -> Any:
    axes = i.attr("axes")
    op = Resize(
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
    roi = i.optional(1) if op.crops else None
    return i.emit(op, i.input(0), roi, *_scales_or_sizes(i))


def _scales_or_sizes(i: Importer) -> tuple[Value | None, Value | None]:
    """The operands scales and sizes, of which one is present. If both are given, ONNX requires that one is
    empty: it is the one whose length is not known.
    """
    scales, sizes = (None if _is_empty(i, k) else i.optional(k) for k in (2, 3))
    if scales is None or sizes is None or _has_known_length(scales) == _has_known_length(sizes):
        return scales, sizes
    return (scales, None) if _has_known_length(scales) else (None, sizes)


def _has_known_length(value: Value) -> bool:
    return value.type.shape is not None and all(isinstance(dim, int) for dim in value.type.shape)


def _is_empty(i: Importer, index: int) -> bool:
    """Whether operand ``index`` is an empty vector: some exporters write one for an absent operand."""
    value = i.optional(index)
    return value is not None and value.type.shape == (0,)


def _export(e: Exporter, op: Resize, x: Value, *operands: Value | None) -> Any:
    """Writes scales, sizes and region as operands. Axes are written non-negative and sorted, as ONNX Runtime
    requires.
    """
    given = (*operands, None, None, None)
    roi = given[0] if op.roi is None else e.const(np.array(op.roi, np.float32))
    scales = given[1] if op.scales is None else e.const(np.array(op.scales, np.float32))
    sizes = given[2] if op.sizes is None else e.sizes(op.sizes)
    axes = op.axes
    if axes is not None and x.type.shape is not None:
        axes = tuple(axis % len(x.type.dims) for axis in axes)
        order = sorted(range(len(axes)), key=axes.__getitem__)
        if order != list(range(len(axes))):
            axes = tuple(sorted(axes))
            roi = _in_order(e, roi, [*order, *(len(axes) + k for k in order)])
            scales, sizes = _in_order(e, scales, order), _in_order(e, sizes, order)
    return e.emit(
        "Resize",
        x,
        roi,
        scales,
        sizes,
        mode=op.mode,
        coordinate_transformation_mode=op.coordinates,
        nearest_mode=op.rounding,
        axes=axes,
        keep_aspect_ratio_policy=op.policy,
        antialias=op.antialias,
        cubic_coeff_a=op.cubic_a,
        exclude_outside=op.exclude_outside,
        extrapolation_value=op.extrapolation,
    )


def _in_order(e: Exporter, values: Operand, order: Sequence[int]) -> Operand:
    """Elements of the vector ``values`` in ``order``; None if there is no vector."""
    return None if values is None else e.emit("Gather", values, e.const(np.array(order)))


Resize.to_onnx = _export
Resize.onnx = {
    **Resize.onnx,
    ("Upsample", 7): _import_7,
    ("Upsample", 9): _import_10,
    ("Resize", 10): _import_10,
    ("Resize", 11): _import_11,
}
