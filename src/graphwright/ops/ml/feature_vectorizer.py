"""FeatureVectorizer: columns of several inputs side by side."""

from __future__ import annotations

from typing import Any

from graphwright.ir.op import Importer
from graphwright.ir.types import F32
from graphwright.ops.core.concat import Concat
from graphwright.ops.ml.post_transforms import DOMAIN, as_type, in_rows


def _import(i: Importer) -> Any:
    """All inputs as f32, [N, C] or [C], joined along the features."""
    parts, widths = [i.input(k) for k in range(len(i.inputs()))], i.attr("inputdimensions") or ()
    if widths and len(widths) != len(parts):
        raise i.fail(f"{len(widths)} inputdimensions for {len(parts)} inputs", "export the model again")
    for k, part in enumerate(parts):
        if part.type.rank not in (1, 2):
            raise i.fail(f"input {k} is {part.type}; it must be rows of features")
        last = part.type.dims[-1]
        if widths and isinstance(last, int) and last != widths[k]:
            raise i.fail(f"input {k} has {last} features, and inputdimensions say {widths[k]}")
    rows = [as_type(i, in_rows(i, part), F32) for part in parts]
    return i.emit(Concat(-1), *rows)


Concat.onnx = {**Concat.onnx, ("FeatureVectorizer", 1, DOMAIN): _import}
