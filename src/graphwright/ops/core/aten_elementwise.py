"""Import of PyTorch's elementwise operators with two operands, and of those that stand for several ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import AtenImport, AtenImporter, Op
from graphwright.ir.types import BOOL
from graphwright.ops.core.aten_imports import BOTH_WAYS, TENSOR_OR_NUMBER, by_overload, elementwise, number
from graphwright.ops.core.binary import (
    Add,
    And,
    Atan2,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Max,
    Min,
    Mul,
    Or,
    Sub,
    Xor,
)
from graphwright.ops.core.cast import Cast, as_dtype
from graphwright.ops.core.checks import INTEGERS, UNSIGNED
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.mod import Mod
from graphwright.ops.core.unary import IsNaN, Neg, Not, Round, Sign, Trunc
from graphwright.ops.core.where import Where


def times_number(i: AtenImporter, x: Value, name: str) -> Any:
    """``x`` multiplied by the argument ``name``, a number."""
    factor = i.number(name)
    if isinstance(factor, Value):  # it depends on sizes or elements
        return i.emit(Mul(), x, as_dtype(i.builder, factor, x.type.dtype))
    return x if factor == 1 else i.emit(Mul(), x, number(i, factor, x))


def _aten_add(i: AtenImporter) -> Any:
    a, b = i.promoted(0, 1)
    if a.type.dtype == BOOL:
        i.ignore("alpha")
        return i.emit(Or(), a, b)
    return i.emit(Add(), a, times_number(i, b, "alpha"))


def _aten_fma(i: AtenImporter) -> Any:
    """``a * b + c``, as Dynamo writes the last step of ``addcmul_`` and ``addcdiv_`` with a ``value``."""
    a, b, c = i.promoted(0, 1, 2)
    return i.emit(Add(), i.emit(Mul(), a, b), c)


def _aten_sub(i: AtenImporter) -> Any:
    a, b = i.promoted(0, 1)
    return i.emit(Sub(), a, times_number(i, b, "alpha"))


def _aten_neg(i: AtenImporter) -> Any:
    x = i.input(0)
    if x.type.dtype in UNSIGNED:
        return i.emit(Sub(), number(i, 0, x), x)
    return i.emit(Neg(), x)


def _aten_rsub(i: AtenImporter) -> Any:
    a, b = i.promoted(0, 1)
    return i.emit(Sub(), b, times_number(i, a, "alpha"))


def _aten_div_mode(i: AtenImporter) -> Any:
    """The quotient, rounded as ``rounding_mode`` says; rounded quotients have the dtype of the operands."""
    mode = i.attr("rounding_mode")
    if mode is None:
        return i.emit(Div(), *i.promoted(0, 1, floats=True))
    a, b = i.promoted(0, 1)
    return _floor_divide(i, a, b) if mode == "floor" else _truncate_divide(i, a, b)


def _floor_divide(i: AtenImporter, a: Value, b: Value) -> Any:
    """``floor(a / b)``.

    ``floor`` of the rounded float quotient can be one too large. Floats therefore divide ``a - fmod(a, b)``,
    which is a multiple of ``b``, and subtract 1 if the remainder and ``b`` differ in sign. A float divided by
    0 gives infinity or NaN, as in PyTorch.
    """
    if not a.type.dtype.is_float:
        return i.emit(Div(), i.emit(Sub(), a, i.emit(Mod(), a, b)), b)
    zero, rest = number(i, 0, b), i.emit(Mod(fmod=True), a, b)
    whole = i.emit(Round(), i.emit(Div(), i.emit(Sub(), a, rest), b))
    differ = i.emit(Xor(), i.emit(Less(), rest, zero), i.emit(Less(), b, zero))
    less = i.emit(And(), differ, i.emit(Not(), i.emit(Equal(), rest, zero)))
    floored = i.emit(Sub(), whole, i.emit(Cast(a.type.dtype), less))
    return i.emit(Where(), i.emit(Equal(), b, zero), i.emit(Div(), a, b), floored)


def _truncate_divide(i: AtenImporter, a: Value, b: Value) -> Any:
    quotient = i.emit(Div(), a, b)
    return i.emit(Trunc(), quotient) if a.type.dtype.is_float else quotient


def _aten_by_dtype(number_op: Op, bool_op: Op) -> AtenImport:
    """Imports as ``bool_op`` for bool operands, else as ``number_op``."""

    def convert(i: AtenImporter) -> Any:
        a, b = i.promoted(0, 1)
        return i.emit(bool_op if a.type.dtype == BOOL else number_op, a, b)

    return convert


def _aten_logical(op: Op, operands: int = 2) -> AtenImport:
    """Imports as ``op`` of the operands as bools: an element is true if it is not 0."""

    def convert(i: AtenImporter) -> Any:
        return i.emit(op, *(_is_true(i, i.input(k)) for k in range(operands)))

    return convert


def _is_true(i: AtenImporter, x: Value) -> Any:
    if x.type.dtype == BOOL:
        return x
    return i.emit(Not(), i.emit(Equal(), x, number(i, 0, x)))


def _aten_ne(i: AtenImporter) -> Any:
    return i.emit(Not(), i.emit(Equal(), *i.promoted(0, 1)))


def _aten_ignoring_nan(op: Op) -> AtenImport:
    """Imports as ``op``; where one operand is NaN, the result is the other operand."""

    def convert(i: AtenImporter) -> Any:
        a, b = i.promoted(0, 1)
        both = i.emit(op, a, b)
        if not a.type.dtype.is_float:
            return both
        return i.emit(Where(), i.emit(IsNaN(), a), b, i.emit(Where(), i.emit(IsNaN(), b), a, both))

    return convert


def _aten_sign(i: AtenImporter) -> Any:
    """PyTorch's sign of NaN is 0; that of :class:`Sign` is NaN."""
    (x,) = i.promoted(0)
    if not x.type.dtype.is_float:
        return i.emit(Sign(), x)
    zero = number(i, 0, x)
    above, below = i.emit(Greater(), x, zero), i.emit(Less(), x, zero)
    return i.emit(Sub(), i.emit(Cast(x.type.dtype), above), i.emit(Cast(x.type.dtype), below))


def _aten_angle(i: AtenImporter) -> Any:
    """The angle of a real number as a complex one: pi if it is negative, else 0; NaN stays NaN."""
    (x,) = i.promoted(0, floats=True)
    zero = number(i, 0, x)
    angle = i.emit(Where(), i.emit(Less(), x, zero), number(i, np.pi, x), zero)
    return i.emit(Where(), i.emit(IsNaN(), x), x, angle)


def _aten_round_decimals(i: AtenImporter) -> Any:
    """Rounds to ``decimals`` places after the decimal point; a negative number means places before it."""
    x, decimals = i.input(0), i.attr("decimals")
    if x.type.dtype in INTEGERS:
        if decimals < 0:
            raise i.fail("rounding of integers to negative decimals is not supported")
        return x
    scale_up, scale_down = (Mul(), Div()) if decimals > 0 else (Div(), Mul())
    scale = number(i, 10.0 ** abs(decimals), x)
    return i.emit(scale_down, i.emit(Round(), i.emit(scale_up, x, scale)), scale)


Add.aten = {
    **by_overload("add", _aten_add, *TENSOR_OR_NUMBER),
    "prims.fma": _aten_fma,
}
Sub.aten = {
    **by_overload("sub", _aten_sub, *TENSOR_OR_NUMBER),
    **by_overload("rsub", _aten_rsub, *TENSOR_OR_NUMBER),
}
Neg.aten = {"neg": _aten_neg, "_neg_view": _aten_neg}
Mul.aten = by_overload("mul", _aten_by_dtype(Mul(), And()), *TENSOR_OR_NUMBER)
Div.aten = {
    **by_overload("div", elementwise(Div(), 2, floats=True), *TENSOR_OR_NUMBER),
    "true_divide.Tensor": elementwise(Div(), 2, floats=True),  # of numbers that PyTorch turns into tensors
    **by_overload("div", _aten_div_mode, "Tensor_mode", "Scalar_mode"),
    "round.decimals": _aten_round_decimals,
    "floor_divide": lambda i: _floor_divide(i, *i.promoted(0, 1)),
}
Sign.aten = {"sign": _aten_sign}
Atan2.aten = {"atan2": elementwise(Atan2(), 2, floats=True), "angle": _aten_angle}
Min.aten = {"minimum": elementwise(Min(), 2), "fmin": _aten_ignoring_nan(Min())}
Max.aten = {"maximum": elementwise(Max(), 2), "fmax": _aten_ignoring_nan(Max())}
And.aten = {
    "logical_and": _aten_logical(And()),
    **by_overload("bitwise_and", _aten_by_dtype(BitwiseAnd(), And()), *BOTH_WAYS),
}
Or.aten = {
    "logical_or": _aten_logical(Or()),
    **by_overload("bitwise_or", _aten_by_dtype(BitwiseOr(), Or()), *BOTH_WAYS),
}
Xor.aten = {
    "logical_xor": _aten_logical(Xor()),
    **by_overload("bitwise_xor", _aten_by_dtype(BitwiseXor(), Xor()), *BOTH_WAYS),
}
for _cls, _name in {Less: "lt", LessOrEqual: "le", Greater: "gt", GreaterOrEqual: "ge"}.items():
    _cls.aten = by_overload(_name, elementwise(_cls(), 2), *TENSOR_OR_NUMBER)
Equal.aten = {
    **by_overload("eq", elementwise(Equal(), 2), *TENSOR_OR_NUMBER),
    **by_overload("ne", _aten_ne, *TENSOR_OR_NUMBER),
    "logical_not": _aten_logical(Not(), 1),
}
