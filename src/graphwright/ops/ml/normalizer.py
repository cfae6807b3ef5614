"""Normalizer: rows of norm 1."""

from __future__ import annotations

from typing import Any

from graphwright.ir.op import Importer
from graphwright.ir.types import F32
from graphwright.ops.core.binary import Div, Equal, Where
from graphwright.ops.core.reductions import ReduceL1, ReduceL2, ReduceMax
from graphwright.ops.ml.post_transforms import DOMAIN, as_type, number

_NORMS = {"MAX": ReduceMax, "L1": ReduceL1, "L2": ReduceL2}


def _import(i: Importer) -> Any:
    """Rows over their norm; those of norm 0 stay. ``MAX`` is the largest element, be it negative."""
    x, norm = as_type(i, i.input(0), F32), str(i.attr("norm", "MAX"))
    if norm not in _NORMS or not x.type.rank:
        raise i.fail(
            f"norm {norm!r} of {x.type}: rows of features and one of {', '.join(_NORMS)} are supported"
        )
    size = i.emit(_NORMS[norm]((-1,)), x)
    nothing = i.emit(Equal(), size, number(i, 0, x))
    return i.emit(Div(), x, i.emit(Where(), nothing, number(i, 1, x), size))


Div.onnx = {**Div.onnx, ("Normalizer", 1, DOMAIN): _import}
