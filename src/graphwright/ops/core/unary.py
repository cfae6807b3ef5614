"""Elementwise ops with one operand and without attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphwright.ir.loops.functions import FUNCTIONS
from graphwright.ir.loops.nodes import Scalar, apply, maximum, minimum
from graphwright.ir.op import Array, AtenImport, AtenImporter, Importer, Inference, Op, Trait, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim
from graphwright.ir.types import BOOL, F16, F32, DType
from graphwright.ops.core.aten_imports import elementwise
from graphwright.ops.core.cast import Cast, in_wide_float
from graphwright.ops.core.checks import FLOATS, INTEGERS, LOGICAL, NUMBERS, SIGNED
from graphwright.ops.core.elementwise_samples import unary_samples
from graphwright.ops.core.imports import simple
from graphwright.ops.core.pointwise import Pointwise
from graphwright.ops.core.references import like, quiet


def unary(
    name: str,
    doc: str,
    since: int | None,
    reference: Callable[[Array], Any],
    expression: Callable[[Scalar], Scalar] | str,
    dtypes: frozenset[DType] = FLOATS,
    gives: DType | None = None,
    fill: str = "normal",
    known: Callable[[Inference, Dim], Dim | None] | None = None,
    keeps_sizes: bool = False,
    traits: Trait = Trait.NONE,
) -> type[Op]:
    """Defines and registers an elementwise op with one operand.

    ``since`` is the opset in which ONNX has an op of the same name and meaning; None if ONNX does not have
    it. ``expression`` may be the name of a loop IR function. ``gives`` is the output dtype if it differs from
    the operand's. ``known``: see :class:`Pointwise`. ``keeps_sizes``: the op is the identity on integers >= 0
    in a float dtype. ``fill`` are the elements of the samples.
    """

    def compute(self: Op, x: Array) -> Array:
        result = quiet(reference)(x)
        return np.asarray(result) if gives else like(result, x)

    def scalar(self: Op, x: Scalar) -> Scalar:
        return apply(expression, x) if isinstance(expression, str) else expression(x)

    body: dict[str, Any] = {
        "__doc__": doc, "__module__": __name__, "dtypes": dtypes, "gives": gives,
        "reference": compute, "expression": scalar, "traits": Trait.ELEMENTWISE | traits,
    }  # fmt: skip
    if known is not None:
        body["known"] = lambda self, at, x: known(at, x)
    if keeps_sizes:
        body["known_real"] = lambda self, at, x: x
    cls: type[Op] = op(name)(type(name, (Pointwise,), body))
    if since is not None:
        cls.onnx = {(name, since): simple(cls)}
        cls.to_onnx = as_onnx(name)
    cls.samples = unary_samples(cls(), dtypes, fill)
    return cls


def _softplus(x: Array) -> Array:
    result: Array = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    return result


def _softplus_scalar(x: Scalar) -> Scalar:
    return maximum(x, 0.0) + apply("log1p", apply("exp_nonpositive", -apply("abs", x)))


def _mish_scalar(x: Scalar) -> Scalar:
    """With ``e = exp(x)`` and ``n = e * (e + 2)``, ``tanh(log(1 + e)) = n / (n + 2)``. ``x`` is clamped so
    that n is finite; the quotient is 1 there.
    """
    e = apply("exp", minimum(x, 5.0 if x.dtype == F16 else 20.0))
    n = e * (e + 2.0)
    return x * (n / (n + 2.0))


def _known_abs(at: Inference, x: Dim) -> Dim | None:
    if isinstance(x, int):
        return abs(x)
    return x if at.symbols.proves_at_least(x, 0) else None


def _known_sign(at: Inference, x: Dim) -> Dim | None:
    if isinstance(x, int):
        return (x > 0) - (x < 0)
    return 1 if at.symbols.proves_at_least(x, 1) else None


Abs = unary("Abs", "``|x|``", 6, np.abs, "abs", NUMBERS, known=_known_abs, keeps_sizes=True,
            traits=Trait.NONNEGATIVE)  # fmt: skip
Neg = unary("Neg", "``-x``", 6, np.negative, "neg", FLOATS | SIGNED, known=lambda _, x: -x)
Sign = unary("Sign", "The sign of ``x``: -1, 0 or 1; NaN stays NaN", 9, np.sign, "sign", NUMBERS,
             known=_known_sign)  # fmt: skip
Reciprocal = unary("Reciprocal", "``1 / x``", 6, lambda x: 1 / x, lambda x: 1.0 / x)
Sqrt = unary("Sqrt", "The square root; NaN for negative ``x``", 6, np.sqrt, "sqrt", fill="positive",
             traits=Trait.KEEPS_NONNEGATIVE)  # fmt: skip

Expm1 = unary("Expm1", "``e ** x - 1``, accurate near 0", None, np.expm1, "expm1")
Log1p = unary("Log1p", "``log(1 + x)``, accurate near 0", None, np.log1p, "log1p", fill="positive")
Trunc = unary("Trunc", "``x`` rounded towards 0", None, np.trunc, "trunc")
Log = unary("Log", "The natural logarithm; NaN for negative ``x``", 6, np.log, "log", fill="positive")
Log2 = unary("Log2", "The logarithm to base 2, exact for powers of 2; NaN for negative ``x``", None, np.log2,
             "log2", fill="positive")  # fmt: skip
Log10 = unary("Log10", "The logarithm to base 10, exact for powers of 10; NaN for negative ``x``", None,
              np.log10, "log10", fill="positive")  # fmt: skip
Floor = unary("Floor", "``x`` rounded down to an integer", 6, np.floor, "floor", keeps_sizes=True)
Ceil = unary("Ceil", "``x`` rounded up to an integer", 6, np.ceil, "ceil", keeps_sizes=True)
Round = unary(
    "Round",
    "``x`` rounded to the nearest integer, in ties to the even one",
    11,
    np.rint,
    "round",
    keeps_sizes=True,
)
Erf = unary("Erf", "The error function ``2/sqrt(pi) * integral of exp(-t*t) from 0 to x``", 9,
            FUNCTIONS["erf"].numpy, "erf", NUMBERS - INTEGERS)  # fmt: skip

Erfc = unary("Erfc", "``1 - erf(x)``, accurate for large ``x``", None, FUNCTIONS["erfc"].numpy, "erfc")
LogGamma = unary("LogGamma", "The logarithm of the absolute value of the gamma function", None,
                 FUNCTIONS["lgamma"].numpy, "lgamma", fill="positive")  # fmt: skip


def _import_erf(i: Importer) -> Any:
    """The error function of integers is computed in f32 and truncated."""
    x = i.input(0)
    if x.type.dtype not in INTEGERS:
        return i.emit(Erf(), x)
    return i.emit(Cast(x.type.dtype), i.emit(Erf(), i.emit(Cast(F32), x)))


Erf.onnx = {("Erf", 9): _import_erf}
Sin = unary("Sin", "The sine of ``x`` radians", 7, np.sin, "sin")
Cos = unary("Cos", "The cosine of ``x`` radians", 7, np.cos, "cos")
Tan = unary("Tan", "The tangent of ``x`` radians", 7, np.tan, "tan")
Asin = unary("Asin", "The angle in radians whose sine is ``x``", 7, np.arcsin, "asin", fill="unit")
Acos = unary("Acos", "The angle in radians whose cosine is ``x``", 7, np.arccos, "acos", fill="unit")
Atan = unary("Atan", "The angle in radians whose tangent is ``x``", 7, np.arctan, "atan")
Sinh = unary("Sinh", "The hyperbolic sine", 9, np.sinh, "sinh")
Cosh = unary("Cosh", "The hyperbolic cosine", 9, np.cosh, "cosh")
Asinh = unary("Asinh", "The inverse hyperbolic sine", 9, np.arcsinh, "asinh")
Acosh = unary(
    "Acosh", "The inverse hyperbolic cosine; NaN for ``x < 1``", 9, np.arccosh, "acosh", fill="positive"
)
Atanh = unary("Atanh", "The inverse hyperbolic tangent", 9, np.arctanh, "atanh", fill="unit")
Tanh = unary("Tanh", "The hyperbolic tangent", 6, np.tanh, "tanh")
Sigmoid = unary("Sigmoid", "``1 / (1 + exp(-x))``", 6, FUNCTIONS["sigmoid"].numpy, "sigmoid",
                traits=Trait.NONNEGATIVE)  # fmt: skip
Relu = unary("Relu", "``max(x, 0)``; NaN stays NaN", 6, lambda x: np.maximum(x, np.zeros((), x.dtype)),
             lambda x: maximum(x, 0), FLOATS | SIGNED,
             known=lambda at, x: at.symbols.larger(x, 0))  # fmt: skip
Softplus = unary("Softplus", "``log(1 + exp(x))``", 1, _softplus, _softplus_scalar)
Softsign = unary(
    "Softsign", "``x / (1 + |x|)``", 1, lambda x: x / (1 + np.abs(x)), lambda x: x / (1.0 + apply("abs", x))
)
HardSwish = unary("HardSwish", "``x * max(0, min(1, x/6 + 1/2))`` (Howard et al. 2019)", 14,
                  lambda x: x * np.maximum(0, np.minimum(1, x * like(1 / 6, x) + like(0.5, x))),
                  lambda x: x * maximum(minimum(x * (1 / 6) + 0.5, 1.0), 0.0))  # fmt: skip
Mish = unary("Mish", "``x * tanh(log(1 + exp(x)))`` (Misra 2019)", 18,
             lambda x: x * np.tanh(_softplus(x)),
             _mish_scalar)  # fmt: skip
Not = unary("Not", "Logical negation", 1, np.logical_not, "not", LOGICAL, known=lambda _, x: 1 - x)
BitwiseNot = unary("BitwiseNot", "All bits inverted", 18, np.invert, "not", INTEGERS)
IsNaN = unary("IsNaN", "Whether ``x`` is NaN", 9, np.isnan, "isnan", gives=BOOL)


def _aten_bitwise_not(i: AtenImporter) -> Any:
    x = i.input(0)
    return i.emit(Not() if x.type.dtype == BOOL else BitwiseNot(), x)


def _aten_rounding(op: Op) -> AtenImport:
    """Imports as the rounding ``op``; integers are returned unchanged."""

    def convert(i: AtenImporter) -> Any:
        x = i.input(0)
        return x if x.type.dtype in INTEGERS else i.emit(op, x)

    return convert


for _cls, _name in {Abs: "abs", Relu: "relu"}.items():
    _cls.aten = {_name: elementwise(_cls())}
for _cls, _name in {Floor: "floor", Ceil: "ceil", Round: "round", Trunc: "trunc"}.items():
    _cls.aten = {_name: _aten_rounding(_cls())}
for _cls in (
    Acos, Acosh, Asin, Asinh, Atan, Atanh, Cos, Cosh, Erf, Erfc, Expm1, Log, Log10, Log1p, Log2,
    Reciprocal, Sigmoid, Sin, Sinh, Sqrt, Tan, Tanh,
):  # fmt: skip
    _cls.aten = {_cls.name.lower(): elementwise(_cls(), floats=True)}
Not.aten = {"bitwise_not": _aten_bitwise_not}
IsNaN.onnx = {("IsNaN", 9): lambda i: i.emit(IsNaN(), in_wide_float(i.builder, i.input(0)))}
IsNaN.aten = {"isnan": elementwise(IsNaN())}
LogGamma.aten = {"lgamma": elementwise(LogGamma(), floats=True)}
HardSwish.aten = {"hardswish": elementwise(HardSwish())}
Mish.aten = {"mish": elementwise(Mish())}
Reciprocal.aten = {
    **Reciprocal.aten,
    "rsqrt": lambda i: i.emit(Reciprocal(), i.emit(Sqrt(), *i.promoted(0, floats=True))),
}
