"""DictVectorizer."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.types import F32, F64, I64, STRING, DType, TensorType, map_of
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.ml.post_transforms import DOMAIN


@op("DictVectorizer")
class DictVectorizer(Op):
    """The values of a map for the keys of a vocabulary (operand 1), in its order, as one row of dtype ``to``.
    For keys that the map does not have: 0, or an empty string.
    """

    to: DType

    def infer(self, at: Inference, x: Fact, vocabulary: Fact) -> TensorType:
        if x.dtype.key is None or x.dtype.element != self.to:
            raise at.fail(f"the input is {x.type}; it must be a map to {self.to}")
        need_dtype(at, vocabulary, {x.dtype.key}, "the vocabulary")
        if vocabulary.rank != 1:
            raise at.fail(f"the vocabulary is {vocabulary.type}; it must be a vector")
        return TensorType(self.to, (1, vocabulary.shape[0]))

    def reference(self, x: dict[Any, Any], vocabulary: Array) -> Array:
        default = "" if self.to == STRING else 0
        return np.array([[x.get(key, default) for key in vocabulary.tolist()]], self.to.numpy)


def _import(i: Importer) -> Any:
    x = i.input(0)
    strings, integers = i.attr("string_vocabulary"), i.attr("int64_vocabulary")
    if (strings is None) == (integers is None):
        raise i.fail(
            "exactly one of string_vocabulary and int64_vocabulary must be given", "export the model again"
        )
    vocabulary = np.array(integers, np.int64) if strings is None else np.array(strings, dtype=object)
    return i.emit(DictVectorizer(x.type.dtype.element or F32), x, i.const(vocabulary))


DictVectorizer.onnx = {("DictVectorizer", 1, DOMAIN): _import}
_WORDS, _NUMBERS = arg(STRING, 3, values=("s1", "?", "s0")), arg(I64, 2, values=(1, 7))
DictVectorizer.samples = (
    *(Sample(DictVectorizer(t), (arg(map_of(STRING, t)), _WORDS)) for t in (F32, F64, I64)),
    *(Sample(DictVectorizer(t), (arg(map_of(I64, t)), _NUMBERS)) for t in (F32, F64, STRING)),
    Sample(DictVectorizer(F32), (arg(F32, 2), _NUMBERS), "it must be a map to f32"),
    Sample(DictVectorizer(F32), (arg(map_of(I64, F32)), _WORDS), "the vocabulary is string"),
)
