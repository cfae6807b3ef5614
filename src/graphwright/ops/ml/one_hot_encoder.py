"""OneHotEncoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F32, F64, I32, I64, STRING, TensorType
from graphwright.ops.core.cast import Cast, as_dtype
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.ml.post_transforms import DOMAIN

DTYPES = frozenset({STRING, I64, I32, F32, F64})


@op("OneHotEncoder")
class OneHotEncoder(Op):
    """One-hot encoding along a new last axis: whether each element equals each category (operand 1, a
    vector).

    Floats are truncated to integers. Without ``zeros``, an element that is no category is an error.
    """

    zeros: bool = True

    def infer(self, at: Inference, x: Fact, categories: Fact) -> TensorType:
        need_dtype(at, x, DTYPES)
        need_dtype(at, categories, {STRING if x.dtype == STRING else I64}, "the list of categories")
        if categories.rank != 1:
            raise at.fail(f"the list of categories is {categories.type}; it must be a vector")
        return TensorType(BOOL, (*x.shape, categories.shape[0]))

    def reference(self, x: Array, categories: Array) -> Array:
        whole = x if x.dtype == object else x.astype(np.int64)
        hit = np.asarray(whole[..., np.newaxis] == categories, np.bool_)
        if not self.zeros and not hit.any(-1).all():
            unknown = x[~hit.any(-1)].ravel()[0]
            raise ValueError(f"{unknown!r} is not a category, and zeros=0 allows no other values")
        return hit

    def decompose(self, b: Builder, x: Value, categories: Value) -> Value | None:
        """None for strings, and if unknown elements are an error."""
        if x.type.dtype == STRING or not self.zeros:
            return None
        hit: Value = b(Equal(), b(Unsqueeze((-1,)), as_dtype(b, x, I64)), categories)
        return hit


def _import(i: Importer) -> Any:
    strings, integers = i.attr("cats_strings"), i.attr("cats_int64s")
    if bool(strings) == bool(integers):
        raise i.fail("exactly one of cats_strings and cats_int64s must be given", "export the model again")
    categories = np.array(strings, dtype=object) if strings else np.array(integers, np.int64)
    hit = i.emit(OneHotEncoder(bool(i.attr("zeros", 1))), i.input(0), i.const(categories))
    return i.emit(Cast(F32), hit)


OneHotEncoder.onnx = {("OneHotEncoder", 1, DOMAIN): _import}
_CATEGORIES, _TEXTS = arg(I64, 3, values=(2, 0, -1)), arg(STRING, 2, values=("s1", "s0"))
OneHotEncoder.samples = (
    *(Sample(OneHotEncoder(), (arg(t, 4, 2), _CATEGORIES)) for t in (I64, I32, F32, F64)),
    Sample(OneHotEncoder(), (arg(I64, symbol("N"), 1, fill="index"), _CATEGORIES)),
    Sample(OneHotEncoder(), (arg(STRING, symbol("N"), 2), _TEXTS)),
    Sample(OneHotEncoder(zeros=False), (arg(I64, 3, values=(0, -1, 2)), _CATEGORIES)),
    Sample(OneHotEncoder(), (arg(I64), _CATEGORIES)),
    Sample(OneHotEncoder(), (arg(BOOL, 2), _CATEGORIES), "the input is bool"),
    Sample(OneHotEncoder(), (arg(I64, 2), _TEXTS), "the list of categories is string"),
)
