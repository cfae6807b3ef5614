"""Elementwise ops with two operands, which are broadcast, and Where with three."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphwright.ir.exporter import Exporter, Operand, as_onnx
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

ElementRule = Callable[[SymbolTable, Dim, Dim], Dim | None]
"""Computes an output element from the elements of the operands, which may be symbolic; None if unknown."""


def binary(
    name: str,
    doc: str,
    onnx: dict[int, Import] | int | None,
    reference: Callable[[Array, Array], Any],
    expression: Callable[[Scalar, Scalar], Scalar] | str,
    dtypes: frozenset[DType] = NUMBERS,
    gives: DType | None = None,
    known: ElementRule | None = None,
    known_real: ElementRule | None = None,
    commutative: bool = False,
    divisor: bool = False,
) -> type[Op]:
    """Define and register an elementwise op with two operands.

    ``onnx`` is the opset in which ONNX has an op of the same name and meaning, or a dict from opset to import
    function; None if ONNX does not have the op. ``gives`` is the output dtype if it differs from the
    operands'. ``known`` and ``known_real``: see :class:`Pointwise`. ``divisor``: operand 1 of the samples is
    positive.
    """

    def compute(self: Op, a: Array, b: Array) -> Array:
        result = quiet(reference)(a, b)
        return np.asarray(result) if gives else like(result, a)

    def scalar(self: Op, a: Scalar, b: Scalar) -> Scalar:
        return apply(expression, a, b) if isinstance(expression, str) else expression(a, b)

    body: dict[str, Any] = {
        "__doc__": doc, "__module__": __name__, "dtypes": dtypes, "gives": gives,
        "reference": compute, "expression": scalar,
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


def binary_samples(op: Op, dtypes: frozenset[DType], divisor: bool = False) -> tuple[Sample, ...]:
    """Samples of ``op``: each kind of dtype, broadcasting of either operand, symbolic sizes, scalars, empty
    tensors, and operands that are errors.
    """
    first, *others = sorted(dtypes & {F32, F16, I64, I32, U8, BOOL}, key=str, reverse=True)
    fill = "positive" if divisor else "normal"
    n, m = symbol("N"), symbol("M")
    other = F32 if first != F32 else F64
    return (
        *(Sample(op, (arg(t, 4, 5), arg(t, 4, 5, fill=fill))) for t in (first, *others)),
        Sample(op, (arg(first, 3, 1, 5), arg(first, 4, 1, fill=fill))),
        Sample(op, (arg(first), arg(first, 2, 3, fill=fill))),
        Sample(op, (arg(first, n, m), arg(first, n, 1, fill=fill))),
        Sample(op, (arg(first, 0, 3), arg(first, 3, fill=fill))),
        Sample(op, (arg(first, 2, 3), arg(first, 4, fill=fill)), "3 and 4 differ"),
        Sample(op, (arg(first, 2), arg(other, 2, fill=fill)), "one dtype"),
        Sample(op, (arg(STRING, 2), arg(STRING, 2)), "the operand is string"),
        *(
            Sample(op, (arg(I64, 4, values=(7, -7, 0, 2)), arg(I64, values=(3,))))
            for _ in range(I64 in dtypes)
        ),
    )


def _divide(symbols: SymbolTable, a: Dim, b: Dim) -> Dim | None:
    """The quotient, truncated towards zero; for symbolic operands that are not negative, this is floordiv."""
    if isinstance(a, int) and isinstance(b, int) and b:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if symbols.proves_at_least(a, 0) and symbols.proves_at_least(b, 1):
        return floordiv(a, b)
    return None


def _divide_real(symbols: SymbolTable, a: Dim, b: Dim) -> Dim | None:
    """The quotient if there is no remainder."""
    return floordiv(a, b) if symbols.proves_at_least(b, 1) and mod(a, b) == 0 else None


def _subtract_real(symbols: SymbolTable, a: Dim, b: Dim) -> Dim | None:
    return a - b if symbols.proves_at_least(a - b, 0) else None


def _compare(test: Callable[[Range], bool | None]) -> ElementRule:
    """A comparison of ``a`` and ``b``, decided by ``test`` of the range of ``a - b``."""

    def known(symbols: SymbolTable, a: Dim, b: Dim) -> Dim | None:
        decided = test(symbols.range_of(a - b))
        return None if decided is None else int(decided)

    return known


def _below(limit: int) -> Callable[[Range], bool | None]:
    """Test whether a range is at or below ``limit``; None if only a part of it is."""

    def test(r: Range) -> bool | None:
        if r.high is not None and r.high <= limit:
            return True
        return False if r.low > limit else None

    return test


def _above(limit: int) -> Callable[[Range], bool | None]:
    """Test whether a range is at or above ``limit``; None if only a part of it is."""

    def test(r: Range) -> bool | None:
        below = _below(limit - 1)(r)
        return None if below is None else not below

    return test


def _known_equal(symbols: SymbolTable, a: Dim, b: Dim) -> Dim | None:
    if symbols.proves_equal(a, b):
        return 1
    return 0 if symbols.refutes_equal(a, b) else None


def _numbers_only(function: Callable[[int, int], int]) -> ElementRule:
    """``function`` of two numbers; None for symbolic operands."""
    return lambda _, a, b: function(a, b) if isinstance(a, int) and isinstance(b, int) else None


def _power(a: Array, b: Array) -> Any:
    """``a ** b``. For integers with a negative exponent, the fraction is truncated towards zero."""
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
    """Exponents of another dtype are cast to that of the base. An integer base with a float exponent is
    computed in a float dtype that can represent both.
    """
    base, exponent = i.input(0), i.input(1)
    own, other = base.type.dtype, exponent.type.dtype
    if own == other:
        return i.emit(Pow(), base, exponent)
    if own.is_integer and other.is_float:
        wide = F64 if own.bits > 16 else other  # f32 cannot represent all 32-bit integers
        return i.emit(Cast(own), i.emit(Pow(), i.emit(Cast(wide), base), i.emit(Cast(wide), exponent)))
    return i.emit(Pow(), base, i.emit(Cast(own), exponent))


def _variadic(name: str) -> Import:
    """Import of an op with any number of inputs as a chain of binary ops ``name``."""
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
    """``a / b``. Integers are truncated towards zero; the quotient of an integer and 0 is 0.

    ``share``: the operands are floats, ``b >= 1`` is a sum of numbers that are not negative, and ``a`` is one
    of them, as in softmax. The kernel then needs fewer instructions.
    """

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

Pow = binary(
    "Pow", "``a ** b``; integers are truncated towards zero", {7: _import_pow}, _power, _power_scalar
)
Min = binary("Min", "The smaller operand; NaN if either is NaN", {6: _variadic("Min")}, np.minimum, "min",
             known=lambda _, a, b: minimum_dim(a, b), known_real=lambda _, a, b: minimum_dim(a, b),
             commutative=True)  # fmt: skip
Max = binary("Max", "The larger operand; NaN if either is NaN", {6: _variadic("Max")}, np.maximum, "max",
             known=lambda _, a, b: maximum_dim(a, b), known_real=lambda _, a, b: maximum_dim(a, b),
             commutative=True)  # fmt: skip
And = binary("And", "Logical and", 7, np.logical_and, "and", LOGICAL,
             known=lambda _, a, b: minimum_dim(a, b), commutative=True)  # fmt: skip
Or = binary("Or", "Logical or", 7, np.logical_or, "or", LOGICAL,
            known=lambda _, a, b: maximum_dim(a, b), commutative=True)  # fmt: skip
Xor = binary("Xor", "Logical exclusive or", 7, np.logical_xor, "xor", LOGICAL,
             known=_numbers_only(lambda a, b: a ^ b), commutative=True)  # fmt: skip
BitwiseAnd = binary("BitwiseAnd", "Bitwise and", 18, np.bitwise_and, "and", INTEGERS,
                    known=_numbers_only(lambda a, b: a & b), commutative=True)  # fmt: skip
BitwiseOr = binary("BitwiseOr", "Bitwise or", 18, np.bitwise_or, "or", INTEGERS,
                   known=_numbers_only(lambda a, b: a | b), commutative=True)  # fmt: skip
BitwiseXor = binary("BitwiseXor", "Bitwise exclusive or", 18, np.bitwise_xor, "xor", INTEGERS,
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
PRelu = binary("PRelu", "``a`` if it is at least 0, else ``b * a`` (He et al. 2015)", 7,
               lambda a, b: np.where(a < 0, a * b, a), lambda a, b: select(a < 0, a * b, a))  # fmt: skip

Add.onnx = {**Add.onnx, ("Sum", 6): _variadic("Add"), ("Mean", 6): _import_mean}


@op("Equal")
class Equal(Pointwise):
    """Whether ``a == b``, for any dtype."""

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
    """The remainder of ``a / b``. It has the sign of ``b``, with ``fmod`` that of ``a``. The remainder of a
    division by the integer 0 is 0.
    """

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


def _export_mod(e: Exporter, op: Mod, a: Operand, b: Operand) -> Any:
    """Before opset 28, floats required ``fmod``."""
    floats = isinstance(a, Value) and a.type.dtype.is_float
    return e.emit("Mod", a, b, since=28 if floats and not op.fmod else 1, fmod=op.fmod)


Mod.to_onnx = _export_mod
Mod.samples = (*binary_samples(Mod(), NUMBERS, True), *binary_samples(Mod(True), NUMBERS, True))


@op("BitShift")
class BitShift(Pointwise):
    """``a`` shifted by ``b`` bits to the ``LEFT`` or ``RIGHT``.

    If ``b`` is negative, or at least the number of bits of the dtype, the result is 0; a right shift of a
    negative number then is -1.
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
    """``a`` where ``condition`` is true, else ``b``; the three operands are broadcast."""

    traits = Trait.ELEMENTWISE

    def infer(self, at: Inference, condition: Fact, a: Fact, b: Fact) -> TensorType | Fact:
        if condition.dtype != BOOL:
            raise at.fail(f"the condition is {condition.dtype}; it must be bool")
        if a.dtype != b.dtype:
            raise at.fail(f"operands of {a.dtype} and {b.dtype}: they must have one dtype")
        type = TensorType(a.dtype, at.broadcast(condition.shape, a.shape, b.shape))
        return elementwise_fact(type, (condition, a, b), _select_element, may_be_unknown=True)

    def reference(self, condition: Array, a: Array, b: Array) -> Array:
        return like(np.where(condition, a, b), a)

    def expression(self, condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
        return select(condition, a, b)


def _select_element(condition: Dim | None, a: Dim | None, b: Dim | None) -> Dim | None:
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


def _aten_add(i: AtenImporter) -> Any:
    a, b = i.promoted(0, 1)
    if a.type.dtype == BOOL:
        i.ignore("alpha")
        return i.emit(Or(), a, b)
    return i.emit(Add(), a, _times_alpha(i, b))


def _aten_sub(i: AtenImporter) -> Any:
    a, b = i.promoted(0, 1)
    return i.emit(Sub(), a, _times_alpha(i, b))


def _aten_rsub(i: AtenImporter) -> Any:
    a, b = i.promoted(0, 1)
    return i.emit(Sub(), b, _times_alpha(i, a))


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
    zero, rest = number(i, 0, b), i.emit(Mod(True), a, b)
    whole = i.emit(Round(), i.emit(Div(), i.emit(Sub(), a, rest), b))
    differ = i.emit(Xor(), i.emit(Less(), rest, zero), i.emit(Less(), b, zero))
    less = i.emit(And(), differ, i.emit(Not(), i.emit(Equal(), rest, zero)))
    floored = i.emit(Sub(), whole, i.emit(Cast(a.type.dtype), less))
    return i.emit(Where(), i.emit(Equal(), b, zero), i.emit(Div(), a, b), floored)


def _truncate_divide(i: AtenImporter, a: Value, b: Value) -> Any:
    quotient = i.emit(Div(), a, b)
    return i.emit(Trunc(), quotient) if a.type.dtype.is_float else quotient


def _aten_by_dtype(number_op: Op, bool_op: Op) -> AtenImport:
    """Import as ``bool_op`` for bool operands, else as ``number_op``."""

    def convert(i: AtenImporter) -> Any:
        a, b = i.promoted(0, 1)
        return i.emit(bool_op if a.type.dtype == BOOL else number_op, a, b)

    return convert


def _aten_logical(op: Op, operands: int = 2) -> AtenImport:
    """Import as ``op`` of the operands as bools: an element is true if it is not 0."""

    def convert(i: AtenImporter) -> Any:
        return i.emit(op, *(_is_true(i, i.input(k)) for k in range(operands)))

    return convert


def _is_true(i: AtenImporter, x: Value) -> Any:
    if x.type.dtype == BOOL:
        return x
    return i.emit(Not(), i.emit(Equal(), x, number(i, 0, x)))


def _aten_ne(i: AtenImporter) -> Any:
    return i.emit(Not(), i.emit(Equal(), *i.promoted(0, 1)))


def _aten_where(i: AtenImporter) -> Any:
    return i.emit(Where(), i.input(0), *i.promoted(1, 2))


def _aten_ignoring_nan(op: Op) -> AtenImport:
    """Import as ``op``; where one operand is NaN, the result is the other operand."""

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


def _aten_exp2(i: AtenImporter) -> Any:
    (x,) = i.promoted(0, floats=True)
    return i.emit(Pow(), number(i, 2, x), x)


_OVERLOADS = ("Tensor", "Scalar")
_BOTH_WAYS = (*_OVERLOADS, "Scalar_Tensor")
_POWERS = ("Tensor_Tensor", "Tensor_Scalar", "Scalar")
Add.aten = by_overload("add", _aten_add, *_OVERLOADS)
Sub.aten = by_overload("sub", _aten_sub, *_OVERLOADS) | by_overload("rsub", _aten_rsub, *_OVERLOADS)
Mul.aten = by_overload("mul", _aten_by_dtype(Mul(), And()), *_OVERLOADS)
Div.aten = {
    **by_overload("div", elementwise(Div(), 2, floats=True), *_OVERLOADS),
    **by_overload("div", _aten_div_mode, "Tensor_mode", "Scalar_mode"),
    "round.decimals": _aten_round_decimals,
    "floor_divide": lambda i: _floor_divide(i, *i.promoted(0, 1)),
}
Sign.aten = {"sign": _aten_sign}
Atan2.aten = {"atan2": elementwise(Atan2(), 2, floats=True), "angle": _aten_angle}
Pow.aten = {
    **by_overload("pow", elementwise(Pow(), 2), *_POWERS),
    "exp2": _aten_exp2,
}
Min.aten = {"minimum": elementwise(Min(), 2), "fmin": _aten_ignoring_nan(Min())}
Max.aten = {"maximum": elementwise(Max(), 2), "fmax": _aten_ignoring_nan(Max())}
And.aten = {
    "logical_and": _aten_logical(And()),
    **by_overload("bitwise_and", _aten_by_dtype(BitwiseAnd(), And()), *_BOTH_WAYS),
}
Or.aten = {
    "logical_or": _aten_logical(Or()),
    **by_overload("bitwise_or", _aten_by_dtype(BitwiseOr(), Or()), *_BOTH_WAYS),
}
Xor.aten = {
    "logical_xor": _aten_logical(Xor()),
    **by_overload("bitwise_xor", _aten_by_dtype(BitwiseXor(), Xor()), *_BOTH_WAYS),
}
for _cls, _name in {Less: "lt", LessOrEqual: "le", Greater: "gt", GreaterOrEqual: "ge"}.items():
    _cls.aten = by_overload(_name, elementwise(_cls(), 2), *_OVERLOADS)
Equal.aten = {
    **by_overload("eq", elementwise(Equal(), 2), *_OVERLOADS),
    **by_overload("ne", _aten_ne, *_OVERLOADS),
    "logical_not": _aten_logical(Not(), 1),
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
Where.aten = by_overload("where", _aten_where, "self", "ScalarOther", "ScalarSelf", "Scalar")
