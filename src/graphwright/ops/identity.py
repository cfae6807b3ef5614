"""The identity, and what becomes of Dropout when a model is only run."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.loops.nodes import Scalar
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F32, I64, STRING
from graphwright.ops.binary import Or
from graphwright.ops.cast import Cast
from graphwright.ops.common import simple


@op("Identity")
class Identity(Op):
    """``x`` itself, of any dtype."""

    traits = Trait.ELEMENTWISE | Trait.VIEW

    def infer(self, at: Inference, x: Fact) -> Fact:
        return x

    def reference(self, x: Array) -> Array:
        return x

    def expression(self, x: Scalar) -> Scalar:
        return x


def _import_dropout(i: Importer) -> Any:
    """Outside of training nothing is dropped: the output is the input and the mask is true."""
    if i.version >= 12 and i.optional(2) is not None:
        training, ratio = i.constant(2), i.constant(1) if i.optional(1) is not None else np.array(0.5)
        if training is None:
            raise i.fail("training_mode is computed at run time", hint="export the model in evaluation mode")
        if training.any() and (ratio is None or ratio.any()):
            raise i.fail("training_mode is true", hint="export the model in evaluation mode")
    x = i.input(0)
    same = i.emit(Identity(), x)
    if i.output_count < 2:
        return same
    return same, i.emit(Or(), i.emit(Cast(BOOL), x), i.const(np.array(True)))


Identity.onnx = {
    ("Identity", 1): simple(Identity),
    ("Dropout", 7): _import_dropout,
    ("Dropout", 12): _import_dropout,
}
Identity.samples = (
    Sample(Identity(), (arg(F32, 2, symbol("N")),)),
    Sample(Identity(), (arg(I64, 3, values=(1, 2, 3)),)),
    Sample(Identity(), (arg(BOOL),)),
    Sample(Identity(), (arg(STRING, 2),)),
)
