"""FeatureVectorizer: columns of several inputs side by side."""

from __future__ import annotations

from typing import Any

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ir.symbols import product
from graphwright.ir.types import F32
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.ml.post_transforms import DOMAIN, as_type, in_rows


def _import(i: Importer) -> Any:
    """All inputs as f32, joined along the features: [N, C], [N, ...] with C elements a row, or [C]."""
    parts, widths = [i.input(k) for k in range(len(i.inputs()))], i.attr("inputdimensions") or ()
    if widths and len(widths) != len(parts):
        raise i.fail(f"{len(widths)} inputdimensions for {len(parts)} inputs", "export the model again")
    wanted = widths or [None] * len(parts)
    rows = [_rows(i, k, part, width) for k, (part, width) in enumerate(zip(parts, wanted, strict=True))]
    return i.emit(Concat(-1), *rows)


def _rows(i: Importer, index: int, part: Value, width: int | None) -> Value:
    """Input ``index`` as f32[N, C]; C must be ``width``, if that is given."""
    if not part.type.rank:
        raise i.fail(f"input {index} is {part.type}; it must be rows of features")
    rows = in_rows(i, part)
    features = product(rows.type.dims[1:])
    known = isinstance(features, int)
    if width is not None and known and features != width:
        raise i.fail(f"input {index} has {features} features, and inputdimensions say {width}")
    if rows.type.rank != 2 or (width is not None and not known):
        rows = i.emit(Reshape((0, features if width is None else width)), rows)
    return as_type(i, rows, F32)


Concat.onnx = {**Concat.onnx, ("FeatureVectorizer", 1, DOMAIN): _import}
