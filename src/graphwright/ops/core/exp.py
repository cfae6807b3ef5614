"""Exp."""

from __future__ import annotations

import numpy as np

from graphwright.ir.loops.nodes import Scalar, apply
from graphwright.ir.op import Array, Trait, op
from graphwright.ops.core.aten_imports import elementwise
from graphwright.ops.core.checks import FLOATS
from graphwright.ops.core.elementwise_samples import unary_samples
from graphwright.ops.core.imports import simple
from graphwright.ops.core.pointwise import Pointwise
from graphwright.ops.core.references import like, quiet


@op("Exp")
class Exp(Pointwise):
    """``e ** x``. ``nonpositive``: no element is positive; the kernel then needs fewer instructions."""

    traits = Trait.ELEMENTWISE | Trait.NONNEGATIVE
    nonpositive: bool = False

    @quiet
    def reference(self, x: Array) -> Array:
        return like(np.exp(x), x)

    def expression(self, x: Scalar) -> Scalar:
        return apply("exp_nonpositive" if self.nonpositive else "exp", x)


Exp.onnx = {("Exp", 6): simple(Exp)}
Exp.to_onnx = lambda e, op, x: e.emit("Exp", x)
Exp.aten = {"exp": elementwise(Exp(), floats=True)}
Exp.samples = unary_samples(Exp(), FLOATS)
