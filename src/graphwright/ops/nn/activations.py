"""Elementwise ops with one operand and attributes. Names and defaults of the attributes are those of ONNX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.loops.functions import FUNCTIONS
from graphwright.ir.loops.nodes import Scalar, apply, maximum, minimum, select
from graphwright.ir.op import Array, AtenImporter, Importer, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import Exporter, as_onnx
from graphwright.ir.types import BF16, F16, F32, F64, I32, DType
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import FLOATS
from graphwright.ops.core.imports import with_attributes
from graphwright.ops.core.pointwise import Pointwise
from graphwright.ops.core.references import like, quiet


@op("LeakyRelu")
class LeakyRelu(Pointwise):
    """``x`` if it is at least 0, else ``alpha * x`` (Maas et al. 2013)."""

    alpha: float = 0.01

    @quiet
    def reference(self, x: Array) -> Array:
        return like(np.where(x < 0, x * like(self.alpha, x), x), x)

    def expression(self, x: Scalar) -> Scalar:
        return select(x < 0.0, x * self.alpha, x)


@op("Elu")
class Elu(Pointwise):
    """``x`` if it is at least 0, else ``alpha * (exp(x) - 1)`` (Clevert et al. 2015)."""

    alpha: float = 1.0

    @quiet
    def reference(self, x: Array) -> Array:
        return like(np.where(x < 0, like(self.alpha, x) * np.expm1(x), x), x)

    def expression(self, x: Scalar) -> Scalar:
        return select(x < 0.0, self.alpha * apply("expm1", x), x)


@op("Selu")
class Selu(Pointwise):
    """``gamma * x`` if ``x > 0``, else ``gamma * alpha * (exp(x) - 1)`` (Klambauer et al. 2017)."""

    alpha: float = 1.67326319217681884765625
    gamma: float = 1.05070102214813232421875

    @quiet
    def reference(self, x: Array) -> Array:
        return like(like(self.gamma, x) * np.where(x > 0, x, like(self.alpha, x) * np.expm1(x)), x)

    def expression(self, x: Scalar) -> Scalar:
        return self.gamma * select(x > 0.0, x, self.alpha * apply("expm1", x))


@op("Celu")
class Celu(Pointwise):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`` (Barron 2017)."""

    alpha: float = 1.0

    def verify(self) -> None:
        if self.alpha == 0:
            raise InferError("alpha is 0; the op divides by it")

    @quiet
    def reference(self, x: Array) -> Array:
        alpha = like(self.alpha, x)
        return like(np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0), x)

    def expression(self, x: Scalar) -> Scalar:
        return maximum(x, 0.0) + minimum(self.alpha * apply("expm1", x / self.alpha), 0.0)


@op("HardSigmoid")
class HardSigmoid(Pointwise):
    """``max(0, min(1, alpha * x + beta))``."""

    alpha: float = 0.2
    beta: float = 0.5

    @quiet
    def reference(self, x: Array) -> Array:
        return like(np.maximum(np.minimum(x * like(self.alpha, x) + like(self.beta, x), 1), 0), x)

    def expression(self, x: Scalar) -> Scalar:
        return maximum(minimum(x * self.alpha + self.beta, 1.0), 0.0)


@op("ThresholdedRelu")
class ThresholdedRelu(Pointwise):
    """``x`` if it is greater than ``alpha``, else 0 (Konda et al. 2014)."""

    alpha: float = 1.0

    @quiet
    def reference(self, x: Array) -> Array:
        return like(np.where(x > like(self.alpha, x), x, 0), x)

    def expression(self, x: Scalar) -> Scalar:
        return select(x > self.alpha, x, 0.0)


@op("Swish")
class Swish(Pointwise):
    """``x / (1 + exp(-alpha * x))``: Swish (Ramachandran et al. 2017), with ``alpha`` 1 also called SiLU."""

    alpha: float = 1.0

    @quiet
    def reference(self, x: Array) -> Array:
        return like(x * FUNCTIONS["sigmoid"].numpy(x * like(self.alpha, x)), x)

    def expression(self, x: Scalar) -> Scalar:
        return x * apply("sigmoid", x if self.alpha == 1 else x * self.alpha)


_ROOT_HALF = math.sqrt(0.5)
_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)


@op("Gelu")
class Gelu(Pointwise):
    """``x * P(X <= x)`` for a standard normal X (Hendrycks and Gimpel 2016).

    ``approximate`` is ``none`` (computed with erf) or ``tanh`` (the approximation with tanh).
    """

    approximate: str = "none"

    def verify(self) -> None:
        if self.approximate not in ("none", "tanh"):
            raise InferError(f"approximate is {self.approximate!r}, not none or tanh")

    @quiet
    def reference(self, x: Array) -> Array:
        if self.approximate == "tanh":
            inner = like(_ROOT_2_OVER_PI, x) * (x + like(0.044715, x) * x * x * x)
            return like(like(0.5, x) * x * (1 + np.tanh(inner)), x)
        erf = np.vectorize(math.erf, otypes=[np.float64])
        return like(like(0.5, x) * x * (1 + like(erf(x * like(_ROOT_HALF, x)), x)), x)

    def expression(self, x: Scalar) -> Scalar:
        if self.approximate == "tanh":
            return 0.5 * x * (1.0 + apply("tanh", _ROOT_2_OVER_PI * (x + 0.044715 * x * x * x)))
        return 0.5 * x * (1.0 + apply("erf", x * _ROOT_HALF))


@op("Shrink")
class Shrink(Pointwise):
    """``x + bias`` if ``x < -lambd``, ``x - bias`` if ``x > lambd``, else 0."""

    bias: float = 0.0
    lambd: float = 0.5

    @quiet
    def reference(self, x: Array) -> Array:
        bias, lambd = like(self.bias, x), like(self.lambd, x)
        return like(np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)), x)

    def expression(self, x: Scalar) -> Scalar:
        inner = select(x > self.lambd, x - self.bias, 0.0)
        return select(x < -self.lambd, x + self.bias, inner)


def _import_shrink(i: Importer) -> Any:
    """Integers are computed in f64, because the attributes are floats."""
    x, op = i.input(0), Shrink(float(i.attr("bias", 0.0)), float(i.attr("lambd", 0.5)))
    if x.type.dtype in FLOATS:
        return i.emit(op, x)
    return i.emit(Cast(x.type.dtype), i.emit(op, i.emit(Cast(F64), x)))


_SINCE: dict[type[Op], int] = {
    LeakyRelu: 6, Elu: 6, Selu: 6, Celu: 12, HardSigmoid: 6, ThresholdedRelu: 10, Swish: 24, Gelu: 20,
    Shrink: 9,
}  # fmt: skip
_FLOATS: tuple[DType, ...] = (F32, F64, F16, BF16)
_OTHERS: dict[type[Op], tuple[Op, ...]] = {
    LeakyRelu: (LeakyRelu(0.2),), Elu: (Elu(0.5),), Selu: (Selu(1.0, 2.0),), Celu: (Celu(0.7),),
    Swish: (Swish(1.702),), HardSigmoid: (HardSigmoid(1 / 6, 0.5),), Shrink: (Shrink(0.3, 0.2),),
    ThresholdedRelu: (ThresholdedRelu(-0.5),), Gelu: (Gelu("tanh"),),
}  # fmt: skip
_ERRORS = {Celu: (Celu(0.0), "alpha is 0"), Gelu: (Gelu("exact"), "not none or tanh")}

for _cls, _more in _OTHERS.items():
    _cls.onnx = {(_cls.name, _SINCE[_cls]): with_attributes(_cls)}
    _cls.to_onnx = as_onnx(_cls.name, {name: name for name in _cls.attribute_defaults})
    _cls.samples = (
        *(Sample(_cls(), (arg(dtype, 3, 5),)) for dtype in _FLOATS),
        *(Sample(op, (arg(F32, 3, 5),)) for op in _more),
        Sample(_cls(), (arg(F32),)),
        Sample(_cls(), (arg(I32, 2),), "the operand is i32"),
    )
for _cls, (_op, _text) in _ERRORS.items():
    _cls.samples += (Sample(_op, (arg(F32, 2),), _text),)
Shrink.onnx = {(Shrink.name, 9): _import_shrink}
Shrink.to_onnx = as_onnx("Shrink", bias="bias", lambd="lambd")


def _export_swish(e: Exporter, op: Swish, x: Value) -> Any:
    """Written as Sigmoid and Mul: ONNX has Swish only from opset 24 on."""
    scaled: Any = x if op.alpha == 1 else e.emit("Mul", x, e.const(np.array(op.alpha, x.type.dtype.numpy)))
    return e.emit("Mul", x, e.emit("Sigmoid", scaled))


Swish.to_onnx = _export_swish


def _aten_leaky_relu(i: AtenImporter) -> Any:
    return i.emit(LeakyRelu(float(i.attr("negative_slope"))), i.input(0))


def _aten_gelu(i: AtenImporter) -> Any:
    return i.emit(Gelu(i.attr("approximate")), i.input(0))


def _aten_elu(i: AtenImporter) -> Any:
    if i.attr("scale") != 1 or i.attr("input_scale") != 1:
        raise i.fail("elu with a scale is not supported")
    return i.emit(Elu(float(i.attr("alpha"))), i.input(0))


LeakyRelu.aten = {"leaky_relu": _aten_leaky_relu}
Gelu.aten = {"gelu": _aten_gelu}
Elu.aten = {"elu": _aten_elu}
Swish.aten = {"silu": lambda i: i.emit(Swish(), i.input(0))}
HardSigmoid.aten = {"hardsigmoid": lambda i: i.emit(HardSigmoid(1 / 6), i.input(0))}
