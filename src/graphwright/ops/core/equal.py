"""Equal."""

from __future__ import annotations

import numpy as np

from graphwright.ir.loops.nodes import Scalar, apply
from graphwright.ir.op import Array, Inference, Sample, Trait, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim
from graphwright.ir.types import BOOL, I64, STRING
from graphwright.ops.core.checks import LOGICAL, NUMBERS
from graphwright.ops.core.elementwise_samples import binary_samples
from graphwright.ops.core.imports import simple
from graphwright.ops.core.pointwise import Pointwise


@op("Equal")
class Equal(Pointwise):
    """Whether ``a == b``, for any dtype."""

    traits = Trait.ELEMENTWISE | Trait.COMMUTATIVE
    dtypes = NUMBERS | {BOOL, STRING}
    gives = BOOL

    def known(self, at: Inference, *elements: Dim) -> Dim | None:
        if at.symbols.proves_equal(*elements):
            return 1
        return 0 if at.symbols.refutes_equal(*elements) else None

    def reference(self, a: Array, b: Array) -> Array:
        return np.asarray(a == b, dtype=np.bool_)

    def expression(self, a: Scalar, b: Scalar) -> Scalar:
        return apply("eq", a, b)


Equal.onnx = {("Equal", 7): simple(Equal)}
Equal.to_onnx = as_onnx("Equal")
Equal.samples = (
    *(s for s in binary_samples(Equal(), NUMBERS | LOGICAL) if "string" not in s.error),
    Sample(Equal(), (arg(I64, 3, values=(1, 2, 3)), arg(I64, 3, values=(1, 0, 3)))),
)
