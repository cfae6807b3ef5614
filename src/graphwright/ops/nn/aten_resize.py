"""Import of PyTorch's ``upsample`` operators."""

from __future__ import annotations

from typing import Any

from graphwright.ir.op import AtenImport, AtenImporter
from graphwright.ir.types import F32, U8
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.round_to_range import RoundToRange
from graphwright.ops.nn.resize import Resize


def _aten_upsample(mode: str) -> AtenImport:
    """A resize to the sizes of the result. ``scale_factors``, if given, map its positions to the input."""

    def convert(i: AtenImporter) -> Any:
        i.ignore("output_size")
        x, factors = i.input(0), i.attr("scale_factors")
        aligned = mode != "nearest" and bool(i.attr("align_corners"))
        axes = tuple(range(2, rank_of(x)))
        coordinates = "asymmetric" if mode == "nearest" else "align_corners" if aligned else "half_pixel"
        op = Resize(
            mode, coordinates, "floor" if mode == "nearest" else "round_prefer_floor",
            scales=None if factors is None or aligned else tuple(map(float, factors)),
            sizes=i.results[0].dims[2:], axes=axes,
        )  # fmt: skip
        if x.type.dtype != U8 or mode != "linear":
            return i.emit(op, x)
        wide = i.emit(op, as_dtype(i.builder, x, F32))  # PyTorch rounds bytes, ONNX Runtime cuts them off
        return as_dtype(i.builder, i.emit(RoundToRange(), wide), U8)

    return convert


Resize.aten = {
    **{f"upsample_nearest{n}d.vec": _aten_upsample("nearest") for n in (1, 2, 3)},
    "upsample_linear1d.vec": _aten_upsample("linear"),
    "upsample_bilinear2d.vec": _aten_upsample("linear"),
    "upsample_trilinear3d.vec": _aten_upsample("linear"),
    "upsample_bicubic2d.vec": _aten_upsample("cubic"),
}
