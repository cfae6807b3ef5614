"""StringConcat."""

from __future__ import annotations

import numpy as np

from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, STRING, TensorType
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.core.imports import simple

_JOIN = np.frompyfunc(lambda a, b: f"{a}{b}", 2, 1)


@op("StringConcat")
class StringConcat(Op):
    """The concatenation of each string of input 0 with that of input 1; the inputs are broadcast."""

    def infer(self, at: Inference, x: Fact, y: Fact) -> TensorType:
        for operand in (x, y):
            need_dtype(at, operand, {STRING}, "the operand")
        return TensorType(STRING, at.broadcast(x.shape, y.shape))

    def reference(self, x: Array, y: Array) -> Array:
        return np.asarray(_JOIN(x, y), dtype=object)


StringConcat.onnx = {("StringConcat", 20): simple(StringConcat)}
StringConcat.to_onnx = as_onnx("StringConcat")
_N = symbol("N")
StringConcat.samples = (
    Sample(StringConcat(), (arg(STRING, 2, 3), arg(STRING, 2, 3))),
    Sample(StringConcat(), (arg(STRING, _N, 1), arg(STRING, 4))),
    Sample(StringConcat(), (arg(STRING), arg(STRING))),
    Sample(StringConcat(), (arg(STRING, 0, 3), arg(STRING, 3))),
    Sample(StringConcat(), (arg(STRING, 2), arg(STRING, 3)), "2 and 3 differ"),
    Sample(StringConcat(), (arg(STRING, 2), arg(F32, 2)), "the operand is f32; it must be string"),
)
