"""Probit, a ``post_transform`` of ``ai.onnx.ml``. An op of graphwright, without ONNX counterpart."""

from __future__ import annotations

import math

import numpy as np

from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, F64, I32, TensorType
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.core.references import like

DTYPES = frozenset({F32, F64})
MAX_ITERATIONS = 1000


@op("Probit")
class Probit(Op):
    """The quantile function of the standard normal distribution, elementwise: the z for which a standard
    normal variable is below z with probability x. NaN for x outside [0, 1].
    """

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, DTYPES)
        return x.type

    def reference(self, x: Array) -> Array:
        return like(np.array([_quantile(float(p)) for p in x.ravel()]).reshape(x.shape), x)


def _quantile(p: float) -> float:
    """The quantile of ``p`` by Newton's method. The distribution function is convex below 0, so iterations
    that start at 0 do not overshoot.
    """
    if not 0 < p < 1:
        return {0.0: -math.inf, 1.0: math.inf}.get(p, math.nan)
    tail, z = min(p, 1 - p), 0.0
    for _ in range(MAX_ITERATIONS):
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        step = (math.erfc(-z / math.sqrt(2)) / 2 - tail) / density
        z -= step
        if abs(step) <= 1e-15 * abs(z):
            break
    return z if p < 0.5 else -z


_VALUES = (0.0, 1.0, 0.5, 0.25, 1e-30, 0.999, -0.1, float("nan"))
Probit.samples = (
    *(Sample(Probit(), (arg(t, 8, values=_VALUES),)) for t in (F32, F64)),
    Sample(Probit(), (arg(F32, symbol("N"), 3),)),
    Sample(Probit(), (arg(I32, 2),), "the input is i32"),
)
