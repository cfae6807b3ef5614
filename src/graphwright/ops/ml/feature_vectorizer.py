"""Import of FeatureVectorizer, which concatenates the features of several inputs."""

from __future__ import annotations

from typing import Any

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ir.symbols import product
from graphwright.ir.types import F32
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.ml.post_transforms import DOMAIN, in_rows


def _import(i: Importer) -> Any:
    """Converts all inputs to f32 and concatenates them along the features. Inputs are [N, C], [N, ...] with C
    elements per row, or [C].
    """
    parts, widths = [i.input(k) for k in range(len(i.inputs()))], i.attr("inputdimensions") or ()
    if widths and len(widths) != len(parts):
        raise i.fail(
            f"{len(widths)} inputdimensions for {len(parts)} inputs: the numbers must be equal",
            "export the model again",
        )
    wanted = widths or [None] * len(parts)
    rows = [_rows(i, k, part, width) for k, (part, width) in enumerate(zip(parts, wanted, strict=True))]
    return i.emit(Concat(-1), *rows)


def _rows(i: Importer, index: int, part: Value, width: int | None) -> Value:
    """Input ``index`` as f32[N, C]. If ``width`` is given, C becomes it: rows are cut off, or filled with
    zeros. If C is only known at run time, it must be equal to ``width``.
    """
    if part.type.rank is None and width is not None:
        return as_dtype(i.builder, i.emit(Reshape((-1, width)), part), F32)
    if not part.type.rank:
        raise i.fail(f"input {index} is {part.type}; it must have at least one axis")
    rows = in_rows(i, part)
    features = product(rows.type.dims[1:])
    known = isinstance(features, int)
    if rows.type.rank != 2 or (width is not None and not known):
        rows = i.emit(Reshape((0, features if width is None or known else width)), rows)
    if width is not None and known and features != width:
        rows = i.emit(Pad((0, 0, 0, width - features)), rows)
    return as_dtype(i.builder, rows, F32)


Concat.onnx = {**Concat.onnx, ("FeatureVectorizer", 1, DOMAIN): _import}
