"""Elementwise ops that are a formula: written once, for arrays and for values of a graph.

A formula computes in f64 whatever the dtype of its operands is, and its result is rounded once.
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
from graphwright.ops.core.binary import Add, And, Div, Equal, Less, LessOrEqual, Mul, Pow, Sub, Where
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.common import FLOATS, like, need_dtype, same_dtype
from graphwright.ops.core.unary import (
    Abs,
    Acos,
    Acosh,
    Cos,
    Cosh,
    Erfc,
    Exp,
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
from graphwright.ops.special.polynomial import Polynomial, horner

Real: TypeAlias = Any
"""An array of f64, a :class:`Term`, or a number."""
Formula: TypeAlias = Callable[..., Real]


class Term:
    """A value of a graph with the operators of an array."""

    __array_ufunc__ = None  # NumPy's numbers leave operators to it

    def __init__(self, builder: Builder, value: Value) -> None:
        self.builder, self.value = builder, value

    def emit(self, op: Op, *operands: Real) -> Term:
        """``op`` of ``operands``, of which this is one."""
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

    def __eq__(self, other: Real) -> Term:  # type: ignore[override]  # elementwise, as of arrays
        return self.emit(Equal(), self, other)

    __hash__ = None  # type: ignore[assignment]  # as arrays

    def __and__(self, other: Real) -> Term:
        return self.emit(And(), self, other)

    def __invert__(self) -> Term:
        return self.emit(Not(), self)


def _function(made: Op, meaning: Callable[..., Any]) -> Formula:
    """``made`` of terms, ``meaning`` of arrays."""

    def function(*operands: Real) -> Real:
        term = next((each for each in operands if isinstance(each, Term)), None)
        return meaning(*operands) if term is None else term.emit(made, *operands)

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
    """The polynomial that was fitted to ``x`` from ``low`` to ``high``, in ``s`` from -1 to 1."""
    return polynomial((x - low) * (2 / (high - low)) - 1.0, coefficients)


@family
class Special(Op):
    """Base of ops that are a formula of operands, which broadcast."""

    formula: ClassVar[Formula]
    arity: ClassVar[int] = 1

    def infer(self, at: Inference, *operands: Fact) -> TensorType:
        if len(operands) != self.arity:
            raise at.fail(f"{self.arity} operands are needed, {len(operands)} are given")
        dtype = same_dtype(at, *operands)
        need_dtype(at, operands[0], FLOATS, "the operand")
        if len(operands) == 1:
            return TensorType(dtype, operands[0].type.shape)
        return TensorType(dtype, at.broadcast(*(operand.shape for operand in operands)))

    def of(self, *operands: Real) -> Real:
        """The formula with this op's attributes."""
        return type(self).formula(*operands)

    def meaning(self, *operands: Array) -> Array:
        """The formula of arrays."""
        with np.errstate(all="ignore"):
            return like(self.of(*(operand.astype(np.float64) for operand in operands)), operands[0])

    def decompose(self, b: Builder, *operands: Value) -> Value:
        terms = (Term(b, as_dtype(b, operand, F64)) for operand in operands)
        return as_dtype(b, self.of(*terms).value, operands[0].type.dtype)


@family
class SpecialOfOne(Special):
    """Base of those of one operand."""

    def reference(self, x: Array) -> Array:
        return self.meaning(x)


@family
class SpecialOfTwo(Special):
    """Base of those of two operands."""

    arity = 2

    def reference(self, a: Array, b: Array) -> Array:
        return self.meaning(a, b)


def special(name: str, doc: str, formula: Formula, operands: int = 1, fill: str = "normal") -> type[Op]:
    """Register one row of a table: a formula without attributes."""
    base = SpecialOfOne if operands == 1 else SpecialOfTwo
    body: dict[str, Any] = {
        "__doc__": doc,
        "__module__": formula.__module__,
        "formula": staticmethod(formula),
    }
    cls: type[Op] = op(name)(type(name, (base,), body))
    cls.samples = samples_of(cls(), operands, fill)
    return cls


def samples_of(made: Op, operands: int = 1, fill: str = "normal") -> tuple[Sample, ...]:
    """An open size, 16-bit floats, and what must be refused: the rest is that of the ops of the formula."""
    return (
        Sample(made, (arg(F32, symbol("N"), 3, fill=fill),) * operands),
        Sample(made, (arg(BF16, 5, fill=fill),) * operands),
        Sample(made, (arg(I32, 2),) * operands, "the operand is"),
    )
