"""Elementwise functions of two operands, which broadcast: a table, and the ops with attributes below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphwright.ir.exporter import as_onnx
from graphwright.ir.graph import Value
from graphwright.ir.loops.functions import FUNCTIONS
from graphwright.ir.loops.nodes import Const, Scalar, apply, select
from graphwright.ir.op import (
    Array,
    AtenImport,
    AtenImporter,
    Fact,
    Import,
    Importer,
    Inference,
    InferError,
    Op,
    Sample,
    Trait,
    arg,
    op,
    op_class,
)
from graphwright.ir.symbols import Dim, Range, SymbolTable, floordiv, mod, symbol
from graphwright.ir.symbols import maximum as maximum_dim
from graphwright.ir.symbols import minimum as minimum_dim
from graphwright.ir.types import BOOL, F16, F32, F64, I32, I64, STRING, U8, DType, TensorType
from graphwright.ops.core.aten import by_overload, elementwise, number
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.common import (
    FLOATS,
    INTEGERS,
    LOGICAL,
    NUMBERS,
    Pointwise,
    chain,
    elementwise_fact,
    like,
    quiet,
    simple,
    with_attributes,
)
from graphwright.ops.core.unary import IsNaN, Not, Round, Sign, Trunc

Known = Callable[[SymbolTable, Dim, Dim], Dim | None]


def binary(
    name: str,
    doc: str,
    onnx: dict[int, Import] | int | None,
    reference: Callable[[Array, Array], Any],
    expression: Callable[[Scalar, Scalar], Scalar] | str,
    dtypes: frozenset[DType] = NUMBERS,
    gives: DType | None = None,
    known: Known | None = None,
    known_real: Known | None = None,
    commutative: bool = False,
    divisor: bool = False,
) -> type[Op]:
    """Register one row. ``onnx``: the opset from which ``name`` maps straight to it, or imports by opset;
    None where ONNX has no such op.

    ``divisor``: the second operand of samples is positive.
    """

    def meaning(self: Op, a: Array, b: Array) -> Array:
        result = quiet(reference)(a, b)
        return np.asarray(result) if gives else like(result, a)

    def scalar(self: Op, a: Scalar, b: Scalar) -> Scalar:
        return apply(expression, a, b) if isinstance(expression, str) else expression(a, b)

    body: dict[str, Any] = {
        "__doc__": doc, "__module__": __name__, "dtypes": dtypes, "gives": gives,
        "reference": meaning, "expression": scalar,
        "traits": Trait.ELEMENTWISE | Trait.COMMUTATIVE if commutative else Trait.ELEMENTWISE,
    }  # fmt: skip
    if known is not None:
        body["known"] = lambda self, symbols, a, b: known(symbols, a, b)
    if known_real is not None:
        body["known_real"] = lambda self, symbols, a, b: known_real(symbols, a, b)
    cls: type[Op] = op(name)(type(name, (Pointwise,), body))
    imports = {onnx: simple(cls)} if isinstance(onnx, int) else onnx or {}
    cls.onnx = {(name, since): convert for since, convert in imports.items()}
    cls.to_onnx = as_onnx(name) if imports else None
    cls.samples = binary_samples(cls(), dtypes, divisor)
    return cls


def binary_samples(made: Op, dtypes: frozenset[DType], divisor: bool = False) -> tuple[Sample, ...]:
    """Each kind of dtype, broadcasting both ways, symbols, scalars, no elements; and what must be refused."""
    first, *others = sorted(dtypes & {F32, F16, I64, I32, U8, BOOL}, key=str, reverse=True)
    fill = "positive" if divisor else "normal"
    n, m = symbol("N"), symbol("M")
    other = F32 if first != F32 else F64
    return (
        *(Sample(made, (arg(t, 4, 5), arg(t, 4, 5, fill=fill))) for t in (first, *others)),
        Sample(made, (arg(first, 3, 1, 5), arg(first, 4, 1, fill=fill))),
        Sample(made, (arg(first), arg(first, 2, 3, fill=fill))),
        Sample(made, (arg(first, n, m), arg(first, n, 1, fill=fill))),
        Sample(made, (arg(first, 0, 3), arg(first, 3, fill=fill))),
        Sample(made, (arg(first, 2, 3), arg(first, 4, fill=fill)), "3 and 4 differ"),
        Sample(made, (arg(first, 2), arg(other, 2, fill=fill)), "one dtype"),
        Sample(made, (arg(STRING, 2), arg(STRING, 2)), "the operand is string"),
        *(
            Sample(made, (arg(I64, 4, values=(7, -7, 0, 2)), arg(I64, values=(3,))))
            for _ in range(I64 in dtypes)
        ),
    )


def _divide(symbols: SymbolTable, a: Dim, b: Dim) -> Dim | None:
    """Truncated, which is floored where neither is negative."""
    if isinstance(a, int) and isinstance(b, int) and b:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if symbols.proves_at_least(a, 0) and symbols.proves_at_least(b, 1):
        return floordiv(a, b)
    return None


def _divide_real(symbols: SymbolTable, a: Dim, b: Dim) -> Dim | None:
    """Only where nothing is left over."""
    return floordiv(a, b) if symbols.proves_at_least(b, 1) and mod(a, b) == 0 else None


def _subtract_real(symbols: SymbolTable, a: Dim, b: Dim) -> Dim | None:
    return a - b if symbols.proves_at_least(a - b, 0) else None


def _compare(test: Callable[[Range], bool | None]) -> Known:
    """A comparison decided by the range of ``a - b``."""

    def known(symbols: SymbolTable, a: Dim, b: Dim) -> Dim | None:
        decided = test(symbols.range_of(a - b))
        return None if decided is None else int(decided)

    return known


def _below(limit: int) -> Callable[[Range], bool | None]:
    """Whether a range lies at or below ``limit``."""

    def test(r: Range) -> bool | None:
        if r.high is not None and r.high <= limit:
            return True
        return False if r.low > limit else None

    return test


def _above(limit: int) -> Callable[[Range], bool | None]:
    """Whether a range lies at or above ``limit``."""

    def test(r: Range) -> bool | None:
        below = _below(limit - 1)(r)
        return None if below is None else not below

    return test


def _known_equal(symbols: SymbolTable, a: Dim, b: Dim) -> Dim | None:
    if symbols.proves_equal(a, b):
        return 1
    return 0 if symbols.refutes_equal(a, b) else None


def _numbers_only(function: Callable[[int, int], int]) -> Known:
    return lambda _, a, b: function(a, b) if isinstance(a, int) and isinstance(b, int) else None


def _power(a: Array, b: Array) -> Any:
    """Integers too: a negative exponent truncates the fraction towards zero."""
    if a.dtype.kind not in "iu":
        return np.power(a, b)
    raised = np.power(a, np.maximum(b, 0))
    odd = np.where(b % 2 == 0, 1, a)
    return np.where(b >= 0, raised, np.where(np.abs(a) == 1, odd, 0))


def _power_scalar(a: Scalar, b: Scalar) -> Scalar:
    if a.dtype.is_float or a.dtype.kind == "uint":
        return apply("pow", a, b)
    odd = select(apply("eq", apply("rem", b, 2), 0), 1, a)
    fraction = select(apply("eq", apply("abs", a), 1), odd, 0)
    return select(b >= 0, apply("pow", a, apply("max", b, 0)), fraction)


def _import_pow(i: Importer) -> Any:
    """Exponents of another dtype: computed in a float dtype that holds both, given back in the base's."""
    base, exponent = i.input(0), i.input(1)
    own, other = base.type.dtype, exponent.type.dtype
    if own == other:
        return i.emit(Pow(), base, exponent)
    if own.is_integer and other.is_float:
        wide = F64 if own.bits > 16 else other  # f32 does not hold all integers of 32 bits
        return i.emit(Cast(own), i.emit(Pow(), i.emit(Cast(wide), base), i.emit(Cast(wide), exponent)))
    return i.emit(Pow(), base, i.emit(Cast(own), exponent))


def _fold(name: str) -> Import:
    """Import of an op of any number of inputs as a chain of ``name``."""
    return lambda i: chain(i, op_class(name)())


def _import_mean(i: Importer) -> Any:
    total = chain(i, Add())
    count = np.array(len(i.inputs()), dtype=total.type.dtype.numpy)
    return i.emit(Div(), total, i.const(count))


Add = binary("Add", "``a + b``", 7, np.add, "add", known=lambda _, a, b: a + b,
             known_real=lambda _, a, b: a + b, commutative=True)  # fmt: skip
Sub = binary("Sub", "``a - b``", 7, np.subtract, "sub", known=lambda _, a, b: a - b,
             known_real=_subtract_real)  # fmt: skip
Mul = binary("Mul", "``a * b``", 7, np.multiply, "mul", known=lambda _, a, b: a * b,
             known_real=lambda _, a, b: a * b, commutative=True)  # fmt: skip


@op("Div")
class Div(Pointwise):
    """``a / b``; integers truncate towards zero, and by zero give 0. ``share`` says that ``a`` is a float of
    which ``b >= 1`` is a sum of such, none below 0, which takes fewer instructions."""

    share: bool = False
    dtypes = NUMBERS

    @quiet
    def reference(self, a: Array, b: Array) -> Array:
        return like(FUNCTIONS["div"].numpy(a, b), a)

    def expression(self, a: Scalar, b: Scalar) -> Scalar:
        return apply("share" if self.share else "div", a, b)

    def known(self, symbols: SymbolTable, *elements: Dim) -> Dim | None:
        return _divide(symbols, *elements)

    def known_real(self, symbols: SymbolTable, *elements: Dim) -> Dim | None:
        return _divide_real(symbols, *elements)


Div.onnx = {("Div", 7): simple(Div)}
Div.to_onnx = lambda e, op, a, b: e.emit("Div", a, b)
Div.samples = binary_samples(Div(), NUMBERS, divisor=True)

Pow = binary("Pow", "``a ** b``; integers truncate towards zero", {7: _import_pow}, _power, _power_scalar)
Min = binary("Min", "The smaller; NaN if either is", {6: _fold("Min")}, np.minimum, "min",
             known=lambda _, a, b: minimum_dim(a, b), known_real=lambda _, a, b: minimum_dim(a, b),
             commutative=True)  # fmt: skip
Max = binary("Max", "The larger; NaN if either is", {6: _fold("Max")}, np.maximum, "max",
             known=lambda _, a, b: maximum_dim(a, b), known_real=lambda _, a, b: maximum_dim(a, b),
             commutative=True)  # fmt: skip
And = binary("And", "Logical conjunction", 7, np.logical_and, "and", LOGICAL,
             known=lambda _, a, b: minimum_dim(a, b), commutative=True)  # fmt: skip
Or = binary("Or", "Logical disjunction", 7, np.logical_or, "or", LOGICAL,
            known=lambda _, a, b: maximum_dim(a, b), commutative=True)  # fmt: skip
Xor = binary("Xor", "Logical difference", 7, np.logical_xor, "xor", LOGICAL,
             known=_numbers_only(lambda a, b: a ^ b), commutative=True)  # fmt: skip
BitwiseAnd = binary("BitwiseAnd", "Conjunction of all bits", 18, np.bitwise_and, "and", INTEGERS,
                    known=_numbers_only(lambda a, b: a & b), commutative=True)  # fmt: skip
BitwiseOr = binary("BitwiseOr", "Disjunction of all bits", 18, np.bitwise_or, "or", INTEGERS,
                   known=_numbers_only(lambda a, b: a | b), commutative=True)  # fmt: skip
BitwiseXor = binary("BitwiseXor", "Difference of all bits", 18, np.bitwise_xor, "xor", INTEGERS,
                    known=_numbers_only(lambda a, b: a ^ b), commutative=True)  # fmt: skip
Less = binary("Less", "Whether ``a < b``", 7, np.less, "lt", gives=BOOL, known=_compare(_below(-1)))
LessOrEqual = binary("LessOrEqual", "Whether ``a <= b``", 12, np.less_equal, "le", gives=BOOL,
                     known=_compare(_below(0)))  # fmt: skip
Greater = binary("Greater", "Whether ``a > b``", 7, np.greater, lambda a, b: a > b, gives=BOOL,
                 known=_compare(_above(1)))  # fmt: skip
GreaterOrEqual = binary("GreaterOrEqual", "Whether ``a >= b``", 12, np.greater_equal, lambda a, b: a >= b,
                        gives=BOOL, known=_compare(_above(0)))  # fmt: skip
Atan2 = binary("Atan2", "The angle of the point (``b``, ``a``) in radians, from -pi to pi", None, np.arctan2,
               "atan2", FLOATS)  # fmt: skip
PRelu = binary("PRelu", "``a`` where it is at least 0, else ``b * a`` (He et al. 2015)", 7,
               lambda a, b: np.where(a < 0, a * b, a), lambda a, b: select(a < 0, a * b, a))  # fmt: skip

Add.onnx = {**Add.onnx, ("Sum", 6): _fold("Add"), ("Mean", 6): _import_mean}


@op("Equal")
class Equal(Pointwise):
    """Whether ``a == b``, of any dtype."""

    traits = Trait.ELEMENTWISE | Trait.COMMUTATIVE
    dtypes = NUMBERS | {BOOL, STRING}
    gives = BOOL

    def known(self, symbols: SymbolTable, *elements: Dim) -> Dim | None:
        return _known_equal(symbols, *elements)

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


@op("Mod")
class Mod(Pointwise):
    """The remainder of ``a / b``, with the sign of ``b``, or with ``fmod`` of ``a``; 0 by an integer 0."""

    fmod: bool = False
    dtypes = NUMBERS

    def known(self, symbols: SymbolTable, *elements: Dim) -> Dim | None:
        a, b = elements
        if not symbols.proves_at_least(b, 1) or (self.fmod and not symbols.proves_at_least(a, 0)):
            return None
        return mod(a, b)

    @quiet
    def reference(self, a: Array, b: Array) -> Array:
        return like(np.fmod(a, b) if self.fmod else np.mod(a, b), a)

    def expression(self, a: Scalar, b: Scalar) -> Scalar:
        return apply("rem" if self.fmod else "mod", a, b)


Mod.onnx = {("Mod", 10): with_attributes(Mod)}
Mod.to_onnx = as_onnx("Mod", fmod="fmod")
Mod.samples = (*binary_samples(Mod(), NUMBERS, True), *binary_samples(Mod(True), NUMBERS, True))


@op("BitShift")
class BitShift(Pointwise):
    """``a`` shifted by ``b`` bits to the ``LEFT`` or ``RIGHT``.

    A shift by less than 0 bits, or by as many as there are, leaves copies of the sign.
    """

    direction: str = "LEFT"
    dtypes = INTEGERS

    def verify(self) -> None:
        if self.direction not in ("LEFT", "RIGHT"):
            raise InferError(f"direction is {self.direction!r}, not LEFT or RIGHT")

    def reference(self, a: Array, b: Array) -> Array:
        bits = a.dtype.itemsize * 8
        inside = (b >= 0) & (b < bits)
        if self.direction == "LEFT":
            return like(np.where(inside, np.left_shift(a, np.where(inside, b, 0)), 0), a)
        return like(np.right_shift(a, like(np.where(inside, b, bits - 1), b)) * (inside | (a < 0)), a)

    def expression(self, a: Scalar, b: Scalar) -> Scalar:
        bits = a.dtype.bits
        inside = apply("lt", b, bits) if a.dtype.kind == "uint" else apply("and", b >= 0, b < bits)
        within = select(inside, b, 0)
        if self.direction == "LEFT":
            return select(inside, apply("shl", a, within), Const(0, a.dtype))
        outside = (
            select(a < 0, Const(-1, a.dtype), Const(0, a.dtype))
            if a.dtype.kind == "int"
            else Const(0, a.dtype)
        )
        return select(inside, apply("shr", a, within), outside)


BitShift.onnx = {
    ("BitShift", 11): lambda i: i.emit(BitShift(str(i.required_attr("direction"))), i.input(0), i.input(1))
}
BitShift.to_onnx = as_onnx("BitShift", direction="direction")
BitShift.samples = (
    *binary_samples(BitShift(), INTEGERS, True),
    Sample(
        BitShift("RIGHT"),
        (arg(I32, 6, values=(-8, 8, -1, 5, -5, 5)), arg(I32, 6, values=(1, 1, 40, 40, -1, -1))),
    ),
    Sample(BitShift("RIGHT"), (arg(U8, 3, values=(255, 128, 7)), arg(U8, 3, values=(3, 8, 1)))),
    Sample(BitShift("UP"), (arg(U8, 3), arg(U8, 3)), "not LEFT or RIGHT"),
)


@op("Where")
class Where(Op):
    """``a`` where ``condition`` holds, else ``b``; all three broadcast."""

    traits = Trait.ELEMENTWISE

    def infer(self, at: Inference, condition: Fact, a: Fact, b: Fact) -> TensorType | Fact:
        if condition.dtype != BOOL:
            raise at.fail(f"the condition is {condition.dtype}; it must be bool")
        if a.dtype != b.dtype:
            raise at.fail(f"operands of {a.dtype} and {b.dtype}: they must have one dtype")
        type = TensorType(a.dtype, at.broadcast(condition.shape, a.shape, b.shape))
        return elementwise_fact(type, (condition, a, b), _pick, chooses=True)

    def reference(self, condition: Array, a: Array, b: Array) -> Array:
        return like(np.where(condition, a, b), a)

    def expression(self, condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
        return select(condition, a, b)


def _pick(condition: Dim | None, a: Dim | None, b: Dim | None) -> Dim | None:
    if isinstance(condition, int):
        return a if condition else b
    return a if a == b else None


Where.onnx = {("Where", 9): simple(Where)}
Where.to_onnx = as_onnx("Where")
Where.samples = (
    *(Sample(Where(), (arg(BOOL, 3, 4), arg(t, 3, 4), arg(t, 3, 4))) for t in (F32, I64, BOOL, F16)),
    Sample(Where(), (arg(BOOL, 3, 1), arg(F32, 1, 4), arg(F32))),
    Sample(Where(), (arg(BOOL, 2), arg(STRING, 2), arg(STRING, 1))),
    Sample(Where(), (arg(BOOL, 2, values=(1, 0)), arg(I64, 2, values=(7, 8)), arg(I64, 2, values=(1, 2)))),
    Sample(Where(), (arg(I64, 2), arg(F32, 2), arg(F32, 2)), "the condition is i64"),
    Sample(Where(), (arg(BOOL, 2), arg(F32, 2), arg(F64, 2)), "one dtype"),
    Sample(Where(), (arg(BOOL, 2), arg(F32, 3), arg(F32, 3)), "2 and 3 differ"),
)


def _times_alpha(i: AtenImporter, x: Value) -> Any:
    alpha = i.attr("alpha", 1)
    return x if alpha == 1 else i.emit(Mul(), x, number(i, alpha, x))


def _sum(i: AtenImporter) -> Any:
    a, b = i.promoted(0, 1)
    if a.type.dtype == BOOL:
        i.ignore("alpha")
        return i.emit(Or(), a, b)
    return i.emit(Add(), a, _times_alpha(i, b))


def _difference(i: AtenImporter) -> Any:
    a, b = i.promoted(0, 1)
    return i.emit(Sub(), a, _times_alpha(i, b))


def _reversed_difference(i: AtenImporter) -> Any:
    a, b = i.promoted(0, 1)
    return i.emit(Sub(), b, _times_alpha(i, a))


def _quotient(i: AtenImporter) -> Any:
    """Rounded as ``rounding_mode`` says, in the dtype of the operands."""
    mode = i.attr("rounding_mode")
    if mode is None:
        return i.emit(Div(), *i.promoted(0, 1, floats=True))
    a, b = i.promoted(0, 1)
    return _floored(i, a, b) if mode == "floor" else _truncated(i, a, b)


def _floored(i: AtenImporter, a: Value, b: Value) -> Any:
    """Of floats the quotient without the remainder, so that it is right where it would round up; one less
    where the remainder and ``b`` differ in sign. Division by 0 gives what it gives without rounding.
    """
    if not a.type.dtype.is_float:
        return i.emit(Div(), i.emit(Sub(), a, i.emit(Mod(), a, b)), b)
    zero, rest = number(i, 0, b), i.emit(Mod(True), a, b)
    whole = i.emit(Round(), i.emit(Div(), i.emit(Sub(), a, rest), b))
    differ = i.emit(Xor(), i.emit(Less(), rest, zero), i.emit(Less(), b, zero))
    less = i.emit(And(), differ, i.emit(Not(), i.emit(Equal(), rest, zero)))
    floored = i.emit(Sub(), whole, i.emit(Cast(a.type.dtype), less))
    return i.emit(Where(), i.emit(Equal(), b, zero), i.emit(Div(), a, b), floored)


def _truncated(i: AtenImporter, a: Value, b: Value) -> Any:
    quotient = i.emit(Div(), a, b)
    return i.emit(Trunc(), quotient) if a.type.dtype.is_float else quotient


def _by_kind(of_numbers: Op, of_bools: Op) -> AtenImport:
    def convert(i: AtenImporter) -> Any:
        a, b = i.promoted(0, 1)
        return i.emit(of_bools if a.type.dtype == BOOL else of_numbers, a, b)

    return convert


def _logical(op: Op, operands: int = 2) -> AtenImport:
    """``op`` of whether the operands are other than 0."""

    def convert(i: AtenImporter) -> Any:
        return i.emit(op, *(_is_true(i, i.input(k)) for k in range(operands)))

    return convert


def _is_true(i: AtenImporter, x: Value) -> Any:
    if x.type.dtype == BOOL:
        return x
    return i.emit(Not(), i.emit(Equal(), x, number(i, 0, x)))


def _differ(i: AtenImporter) -> Any:
    return i.emit(Not(), i.emit(Equal(), *i.promoted(0, 1)))


def _selected(i: AtenImporter) -> Any:
    return i.emit(Where(), i.input(0), *i.promoted(1, 2))


def _ignoring_nan(made: Op) -> AtenImport:
    """``made`` of both operands; where one is NaN, the other."""

    def convert(i: AtenImporter) -> Any:
        a, b = i.promoted(0, 1)
        both = i.emit(made, a, b)
        if not a.type.dtype.is_float:
            return both
        return i.emit(Where(), i.emit(IsNaN(), a), b, i.emit(Where(), i.emit(IsNaN(), b), a, both))

    return convert


def _sign(i: AtenImporter) -> Any:
    """Of NaN 0, where :class:`Sign` gives NaN."""
    (x,) = i.promoted(0)
    if not x.type.dtype.is_float:
        return i.emit(Sign(), x)
    zero = number(i, 0, x)
    above, below = i.emit(Greater(), x, zero), i.emit(Less(), x, zero)
    return i.emit(Sub(), i.emit(Cast(x.type.dtype), above), i.emit(Cast(x.type.dtype), below))


def _angle(i: AtenImporter) -> Any:
    """Of a number: that of its sign."""
    (x,) = i.promoted(0, floats=True)
    zero = number(i, 0, x)
    turned = i.emit(Where(), i.emit(Less(), x, zero), number(i, np.pi, x), zero)
    return i.emit(Where(), i.emit(IsNaN(), x), x, turned)


def _rounded_at(i: AtenImporter) -> Any:
    """At a decimal place, or in front of the point; integers are whole already."""
    x, places = i.input(0), i.attr("decimals")
    if x.type.dtype in INTEGERS:
        if places < 0:
            raise i.fail("integers are not rounded")
        return x
    there, back = (Mul(), Div()) if places > 0 else (Div(), Mul())
    scale = number(i, 10.0 ** abs(places), x)
    return i.emit(back, i.emit(Round(), i.emit(there, x, scale)), scale)


def _power_of_two(i: AtenImporter) -> Any:
    (x,) = i.promoted(0, floats=True)
    return i.emit(Pow(), number(i, 2, x), x)


_OVERLOADS = ("Tensor", "Scalar")
_BOTH_WAYS = (*_OVERLOADS, "Scalar_Tensor")
_POWERS = ("Tensor_Tensor", "Tensor_Scalar", "Scalar")
Add.aten = by_overload("add", _sum, *_OVERLOADS)
Sub.aten = by_overload("sub", _difference, *_OVERLOADS) | by_overload(
    "rsub", _reversed_difference, *_OVERLOADS
)
Mul.aten = by_overload("mul", _by_kind(Mul(), And()), *_OVERLOADS)
Div.aten = {
    **by_overload("div", elementwise(Div(), 2, floats=True), *_OVERLOADS),
    **by_overload("div", _quotient, "Tensor_mode", "Scalar_mode"),
    "round.decimals": _rounded_at,
    "floor_divide": lambda i: _floored(i, *i.promoted(0, 1)),
}
Sign.aten = {"sign": _sign}
Atan2.aten = {"atan2": elementwise(Atan2(), 2, floats=True), "angle": _angle}
Pow.aten = {
    **by_overload("pow", elementwise(Pow(), 2), *_POWERS),
    "exp2": _power_of_two,
}
Min.aten = {"minimum": elementwise(Min(), 2), "fmin": _ignoring_nan(Min())}
Max.aten = {"maximum": elementwise(Max(), 2), "fmax": _ignoring_nan(Max())}
And.aten = {
    "logical_and": _logical(And()),
    **by_overload("bitwise_and", _by_kind(BitwiseAnd(), And()), *_BOTH_WAYS),
}
Or.aten = {
    "logical_or": _logical(Or()),
    **by_overload("bitwise_or", _by_kind(BitwiseOr(), Or()), *_BOTH_WAYS),
}
Xor.aten = {
    "logical_xor": _logical(Xor()),
    **by_overload("bitwise_xor", _by_kind(BitwiseXor(), Xor()), *_BOTH_WAYS),
}
for _cls, _name in {Less: "lt", LessOrEqual: "le", Greater: "gt", GreaterOrEqual: "ge"}.items():
    _cls.aten = by_overload(_name, elementwise(_cls(), 2), *_OVERLOADS)
Equal.aten = {
    **by_overload("eq", elementwise(Equal(), 2), *_OVERLOADS),
    **by_overload("ne", _differ, *_OVERLOADS),
    "logical_not": _logical(Not(), 1),
}
Mod.aten = {
    **by_overload("remainder", elementwise(Mod(), 2), *_BOTH_WAYS),
    **by_overload("fmod", elementwise(Mod(True), 2), *_OVERLOADS),
}
BitShift.aten = {
    name: elementwise(BitShift(direction), 2)
    for direction, side, operator in (("LEFT", "left", "lshift"), ("RIGHT", "right", "rshift"))
    for name in (
        *(f"bitwise_{side}_shift.{overload}" for overload in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")),
        *(f"__{operator}__.{overload}" for overload in _OVERLOADS),
    )
}
Where.aten = by_overload("where", _selected, "self", "ScalarOther", "ScalarSelf", "Scalar")
