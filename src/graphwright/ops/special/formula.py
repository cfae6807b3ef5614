"""Elementwise ops that are defined by a formula. The same formula computes the reference from arrays and
decomposes the op into nodes.

A formula computes in f64 for any dtype of the operands, and the result is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.loops.functions import FUNCTIONS
from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, family, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BF16, F32, F64, I32, TensorType
from graphwright.ops.core.binary import Add, And, Less, LessOrEqual, Mul, Sub
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import FLOATS, need_dtype, same_dtype
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.pow import Pow
from graphwright.ops.core.references import like
from graphwright.ops.core.unary import (
    Abs,
    Acos,
    Acosh,
    Cos,
    Cosh,
    Erfc,
    Floor,
    IsNaN,
    Log,
    Neg,
    Not,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Trunc,
)
from graphwright.ops.core.where import Where
from graphwright.ops.special.polynomial import Polynomial, horner

Real: TypeAlias = Any
"""An f64 array, a :class:`Term`, or a number."""
Formula: TypeAlias = Callable[..., Real]


class Term:
    """A value of a graph, with the operators of an array. Each operator adds a node."""

    __array_ufunc__ = None  # so that NumPy scalars use the reflected operators of this class

    def __init__(self, builder: Builder, value: Value) -> None:
        self.builder, self.value = builder, value

    def emit(self, op: Op, *operands: Real) -> Term:
        """Adds a node of ``op``. One of ``operands`` is this term."""
        return Term(self.builder, self.builder(op, *map(self._value, operands)))

    def _value(self, operand: Real) -> Value:
        return operand.value if isinstance(operand, Term) else self.builder.const(operand, F64)

    def __add__(self, other: Real) -> Term:
        return self.emit(Add(), self, other)

    def __radd__(self, other: Real) -> Term:
        return self.emit(Add(), other, self)

    def __sub__(self, other: Real) -> Term:
        return self.emit(Sub(), self, other)

    def __rsub__(self, other: Real) -> Term:
        return self.emit(Sub(), other, self)

    def __mul__(self, other: Real) -> Term:
        return self.emit(Mul(), self, other)

    def __rmul__(self, other: Real) -> Term:
        return self.emit(Mul(), other, self)

    def __truediv__(self, other: Real) -> Term:
        return self.emit(Div(), self, other)

    def __rtruediv__(self, other: Real) -> Term:
        return self.emit(Div(), other, self)

    def __pow__(self, other: Real) -> Term:
        return self.emit(Pow(), self, other)

    def __neg__(self) -> Term:
        return self.emit(Neg(), self)

    def __lt__(self, other: Real) -> Term:
        return self.emit(Less(), self, other)

    def __le__(self, other: Real) -> Term:
        return self.emit(LessOrEqual(), self, other)

    def __gt__(self, other: Real) -> Term:
        return self.emit(Less(), other, self)

    def __ge__(self, other: Real) -> Term:
        return self.emit(LessOrEqual(), other, self)

    def __eq__(self, other: Real) -> Term:  # type: ignore[override]  # elementwise, as for arrays
        return self.emit(Equal(), self, other)

    __hash__ = None  # type: ignore[assignment]  # as arrays

    def __and__(self, other: Real) -> Term:
        return self.emit(And(), self, other)

    def __invert__(self) -> Term:
        return self.emit(Not(), self)


def _function(op: Op, on_arrays: Callable[..., Any]) -> Formula:
    """A function that adds a node of ``op`` if an operand is a Term, and else computes ``on_arrays``."""

    def function(*operands: Real) -> Real:
        term = next((each for each in operands if isinstance(each, Term)), None)
        return on_arrays(*operands) if term is None else term.emit(op, *operands)

    return function


absolute = _function(Abs(), np.abs)
acos = _function(Acos(), np.arccos)
acosh = _function(Acosh(), np.arccosh)
cos = _function(Cos(), np.cos)
cosh = _function(Cosh(), np.cosh)
erfc = _function(Erfc(), FUNCTIONS["erfc"].numpy)
exp = _function(Exp(), np.exp)
floor = _function(Floor(), np.floor)
isnan = _function(IsNaN(), np.isnan)
log = _function(Log(), np.log)
sin = _function(Sin(), np.sin)
sinh = _function(Sinh(), np.sinh)
sqrt = _function(Sqrt(), np.sqrt)
tan = _function(Tan(), np.tan)
trunc = _function(Trunc(), np.trunc)
where = _function(Where(), np.where)


def polynomial(s: Real, coefficients: Sequence[float]) -> Real:
    """``coefficients[0] + coefficients[1] * s + ...``"""
    return _function(Polynomial(tuple(coefficients)), lambda x: horner(x, coefficients))(s)


def fit(x: Real, low: float, high: float, coefficients: Sequence[float]) -> Real:
    """The polynomial with ``coefficients`` that was fitted to a function from ``low`` to ``high``. Its
    variable is ``x``, mapped to -1 to 1.
    """
    return polynomial((x - low) * (2 / (high - low)) - 1.0, coefficients)


@family
class Special(Op):
    """Base class of the ops that are defined by a formula. The operands broadcast."""

    formula: ClassVar[Formula]
    arity: ClassVar[int] = 1

    def infer(self, at: Inference, *operands: Fact) -> TensorType:
        if len(operands) != self.arity:
            raise at.fail(f"it has {len(operands)} operands; it must have {self.arity}")
        dtype = same_dtype(at, *operands)
        need_dtype(at, operands[0], FLOATS, "the operand")
        if len(operands) == 1:
            return TensorType(dtype, operands[0].type.shape)
        return TensorType(dtype, at.broadcast(*(operand.shape for operand in operands)))

    def evaluate(self, *operands: Real) -> Real:
        """The formula, applied to f64 arrays or terms. Ops with attributes override it."""
        return type(self).formula(*operands)

    def evaluate_arrays(self, *operands: Array) -> Array:
        """The formula, applied to arrays and rounded to their dtype."""
        with np.errstate(all="ignore"):
            return like(self.evaluate(*(operand.astype(np.float64) for operand in operands)), operands[0])

    def decompose(self, b: Builder, *operands: Value) -> Value:
        terms = (Term(b, as_dtype(b, operand, F64)) for operand in operands)
        return as_dtype(b, self.evaluate(*terms).value, operands[0].type.dtype)


@family
class SpecialOfOne(Special):
    """Base class of the ops of one operand."""

    def reference(self, x: Array) -> Array:
        return self.evaluate_arrays(x)


@family
class SpecialOfTwo(Special):
    """Base class of the ops of two operands."""

    arity = 2

    def reference(self, a: Array, b: Array) -> Array:
        return self.evaluate_arrays(a, b)


def special(name: str, doc: str, formula: Formula, operands: int = 1, fill: str = "normal") -> type[Op]:
    """Registers an op without attributes that is defined by ``formula``. ``fill``: the values of its
    samples.
    """
    base = SpecialOfOne if operands == 1 else SpecialOfTwo
    body: dict[str, Any] = {
        "__doc__": doc,
        "__module__": formula.__module__,
        "formula": staticmethod(formula),
    }
    cls: type[Op] = op(name)(type(name, (base,), body))
    cls.samples = samples_of(cls(), operands, fill)
    return cls


def samples_of(op: Op, operands: int = 1, fill: str = "normal") -> tuple[Sample, ...]:
    """Samples with a symbolic size, with 16-bit floats and with a wrong dtype. The ops of the formula have
    samples of all other cases.
    """
    return (
        Sample(op, (arg(F32, symbol("N"), 3, fill=fill),) * operands),
        Sample(op, (arg(BF16, 5, fill=fill),) * operands),
        Sample(op, (arg(I32, 2),) * operands, "the operand is"),
    )
