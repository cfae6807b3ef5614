"""Import of Normalizer, which divides each row by its norm."""

from __future__ import annotations

from typing import Any

from graphwright.ir.op import Importer
from graphwright.ir.types import F32
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.imports import scalar
from graphwright.ops.core.reductions import ReduceL1, ReduceL2, ReduceMax
from graphwright.ops.core.where import Where
from graphwright.ops.ml.post_transforms import DOMAIN

_NORMS = {"MAX": ReduceMax, "L1": ReduceL1, "L2": ReduceL2}


def _import(i: Importer) -> Any:
    """Rows of norm 0 are not changed. The norm ``MAX`` is the largest element, which may be negative."""
    x, norm = as_dtype(i.builder, i.input(0), F32), str(i.attr("norm", "MAX"))
    if norm not in _NORMS or x.type.rank == 0:
        raise i.fail(
            f"norm {norm!r} of {x.type} is not supported: the norm must be one of {', '.join(_NORMS)}, and"
            " the input must have an axis"
        )
    norms = i.emit(_NORMS[norm]((-1,)), x)
    is_zero = i.emit(Equal(), norms, scalar(i, 0, x))
    return i.emit(Div(), x, i.emit(Where(), is_zero, scalar(i, 1, x), norms))


Div.onnx = {**Div.onnx, ("Normalizer", 1, DOMAIN): _import}
