"""Algebraic simplification, only where every bit of the result stays the same, also for NaN, infinities and
-0.0.

So ``x * 0`` stays (NaN, -0.0), ``x + 0.0`` stays (-0.0 would become 0.0), ``x ** 0.5`` becomes a square root
only for bases that are never negative, and a division becomes a product only for powers of two.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, P, Rule, Var, always
from graphwright.ir.op import Array, Op, Trait
from graphwright.ir.types import STRING, DType
from graphwright.ops.core.binary import Add, And, BitwiseAnd, BitwiseOr, BitwiseXor, Max, Min, Mul, Or, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.div import Div
from graphwright.ops.core.pow import Pow
from graphwright.ops.core.unary import Abs, Ceil, Floor, Neg, Not, Relu, Round, Sign, Sqrt
from graphwright.ops.core.where import Where
from graphwright.passes.rule_pass import RulePass

X, C, D, Y = Var("x"), Const("c"), Const("d"), Var("y")
Check = Callable[[Match], str | None]


def _all(number: float) -> Callable[[Array], bool]:
    return lambda array: bool((array == number).all())


ONE, ZERO, TRUE, FALSE = (Const(str(n), _all(n)) for n in (1, 0, True, False))
TWO, HALF = Const("2", _all(2)), Const("0.5", _all(0.5))


def _neutral(name: str, cls: type[Op], c: Const, extra: Check = always) -> Rule:
    """A rule ``x op c`` -> ``x``, for ``c`` that does not broadcast ``x``, if ``extra`` has no objection."""
    return Rule(name, P(cls, X, c), lambda m: extra(m) or _same_type(m, X), lambda b, m: m[X])


def _absorbing(name: str, cls: type[Op], c: Const) -> Rule:
    """A rule ``x op c`` -> ``c``, for ``c`` that ``x`` does not broadcast."""
    return Rule(name, P(cls, X, c), lambda m: _same_type(m, c), lambda b, m: m[c])


def _same_type(m: Match, wildcard: Var) -> str | None:
    have, want = m[wildcard].type, m.root.output.type
    return (
        None if have == want and have.shape is not None else f"the result has type {want}, the operand {have}"
    )


def _keeps_sums(m: Match) -> str | None:
    """Adding -0.0 keeps every number, but adding 0.0 turns -0.0 into 0.0."""
    zero = m.array(ZERO)
    if zero.dtype.kind in "iu" or bool(np.signbit(zero.astype(np.float64)).all()):
        return None
    return "x + 0.0 turns -0.0 into 0.0"


def _keeps_differences(m: Match) -> str | None:
    zero = m.array(ZERO)
    if zero.dtype.kind in "iu" or not bool(np.signbit(zero.astype(np.float64)).any()):
        return None
    return "x - -0.0 turns -0.0 into 0.0"


def _idempotent(cls: type[Op]) -> Rule:
    return Rule(
        f"{cls.name} of {cls.name}", P(cls, INNER := P(cls, X)), always, lambda b, m: m.node(INNER).output
    )


def _involution(cls: type[Op]) -> Rule:
    return Rule(f"{cls.name} of {cls.name}", P(cls, P(cls, X)), always, lambda b, m: m[X])


def _twice_the_same(cls: type[Op]) -> Rule:
    return Rule(f"{cls.name} of x and x", P(cls, X, X), always, lambda b, m: m[X])


# ---- powers


def _is_root(m: Match) -> str | None:
    if not m[X].type.dtype.is_float:
        return "the base is an integer"
    if not never_negative(m[X]):
        return "the base may be negative, and (-inf) ** 0.5 and (-0.0) ** 0.5 differ from a square root"
    return _same_type(m, X)


def never_negative(value: Value, depth: int = 8) -> bool:
    """Whether no element is negative or -0.0 (NaN is possible), as far as the producers show."""
    node = value.producer
    if node is None or depth == 0:
        return False
    is_square = isinstance(node.op, Mul) and node.inputs[0] == node.inputs[1]
    if is_square or Trait.NONNEGATIVE in node.op.traits:
        return True
    if Trait.KEEPS_NONNEGATIVE not in node.op.traits:
        return False
    return all(value is not None and never_negative(value, depth - 1) for value in node.inputs)


# ---- constants


def _constants_chain(cls: type[Op], combine: Callable[[Array, Array], Array], exact: Check) -> Rule:
    """A rule ``(x op c) op d`` -> ``x op (c op d)``."""
    pattern = P(cls, P(cls, X, C, once=True), D)

    def rewrite(b: Builder, m: Match) -> Value:
        result: Value = b(m.op(pattern), m[X], b.const(combine(m.array(C), m.array(D))))
        return result

    return Rule(f"{cls.name} of {cls.name} by constants", pattern, exact, rewrite)


def _wraps(m: Match) -> str | None:
    """Integers wrap around, so that sums and products are associative; floats round."""
    return None if m.root.output.type.dtype.is_integer else "float arithmetic is not associative"


def _sums_chain(inner: tuple[P[Op], int, int], outer: tuple[type[Op], bool, int, int], name: str) -> Rule:
    """A rule that merges two integer sums or differences with constants: ``sign * x + (sign * c + sign *
    d)``.

    ``inner``: the pattern, and the signs of x and c in it. ``outer``: its class, whether d is the left
    operand, and the signs of the inner value and of d in it.
    """
    pattern, x_sign, c_sign = inner
    cls, d_first, inner_sign, d_sign = outer
    whole = P(cls, D, pattern) if d_first else P(cls, pattern, D)

    def rewrite(b: Builder, m: Match) -> Value:
        c, d = (
            array if sign > 0 else np.negative(array)
            for array, sign in ((m.array(C), inner_sign * c_sign), (m.array(D), d_sign))
        )
        constant = b.const(np.add(c, d))
        result: Value = b(Add(), m[X], constant) if inner_sign * x_sign > 0 else b(Sub(), constant, m[X])
        return result

    return Rule(name, whole, _wraps, rewrite)


_INNER = {
    "x + c": (P(Add, X, C, once=True), 1, 1),
    "x - c": (P(Sub, X, C, once=True), 1, -1),
    "c - x": (P(Sub, C, X, once=True), -1, 1),
}
_OUTER = {
    "({}) + d": (Add, False, 1, 1),
    "({}) - d": (Sub, False, 1, -1),
    "d - ({})": (Sub, True, -1, 1),
}


def _orders_zeros(m: Match) -> str | None:
    """Min and Max of 0.0 and -0.0 depend on the order of the operands."""
    if not m.root.output.type.dtype.is_float:
        return None
    wide = [m.array(wildcard).astype(np.float64) for wildcard in (C, D)]
    signs = {bool(sign) for array in wide for sign in np.signbit(array[array == 0])}
    return "the bounds are 0.0 and -0.0" if len(signs) > 1 else None


def _divides(m: Match) -> str | None:
    """Two truncating divisions equal one by the product of the divisors."""
    if _wraps(m) is not None:
        return "float division rounds"
    c, d = m.array(C), m.array(D)
    if not (bool((c > 0).all()) and bool((d > 0).all())):
        return "a divisor is not positive"
    fits = int(c.max(initial=1)) * int(d.max(initial=1)) <= np.iinfo(c.dtype).max
    return None if fits else "the product of the divisors overflows"


def _grows(m: Match) -> str | None:
    """Products with powers of two of at least 1 are exact until they overflow, and overflow in any order."""
    if _wraps(m) is None:
        return None
    c, d = m.array(C), m.array(D)
    if not all(bool((_powers_of_two(a) & (np.abs(a) >= 1)).all()) for a in (c, d)):
        return "float products round, unless both constants are powers of two of at least 1"
    with np.errstate(all="ignore"):
        return None if bool(np.isfinite(np.multiply(c, d)).all()) else "the product overflows"


def _powers_of_two(array: Array) -> Array:
    """A mask of the elements that are powers of two, of either sign."""
    mantissa = np.frexp(np.abs(array.astype(np.float64)))[0]
    return np.asarray(mantissa == 0.5)


def _times_reciprocal(b: Builder, m: Match) -> Value | str:
    c = m.array(C)
    if not m.root.output.type.dtype.is_float:
        return "integer division truncates"
    if not bool(_powers_of_two(c).all()):
        return "the divisor is not a power of two"
    with np.errstate(over="ignore", under="ignore"):
        reciprocal = (1.0 / c.astype(np.float64)).astype(c.dtype)
    if not bool((reciprocal.astype(np.float64) * c.astype(np.float64) == 1).all()):
        return "its reciprocal is not exact in this dtype"
    product: Value = b(Mul(), m[X], b.const(reciprocal))
    return product


# ---- Clip, Where, Cast


OUTER_CLIP = P(Clip, INNER_CLIP := P(Clip, X))
LOSSLESS = P(Cast, FIRST_CAST := P(Cast, X))


def _one_clip(b: Builder, m: Match) -> Value | str:
    outer, inner = m.op(OUTER_CLIP), m.op(INNER_CLIP)
    low, high = _tighter(outer.low, inner.low, max), _tighter(outer.high, inner.high, min)
    if low is not None and high is not None and not low <= high:
        return f"the ranges do not overlap: [{outer.low}, {outer.high}] and [{inner.low}, {inner.high}]"
    for clip in (outer, inner):
        if 0 in (clip.low, clip.high) and outer != inner:
            zeros = {str(bound) for bound in (outer.low, outer.high, inner.low, inner.high) if bound == 0}
            if len(zeros) > 1:
                return "the bounds are 0.0 and -0.0"
    result: Value = b(Clip(low, high), m[X])
    return result


def _tighter(a: float | None, b: float | None, choose: Callable[[float, float], float]) -> float | None:
    if a is None or b is None:
        return b if a is None else a
    return choose(a, b)


def _chosen(name: str, condition: Const, wildcard: Var) -> Rule:
    return Rule(name, P(Where, condition, X, Y), lambda m: _same_type(m, wildcard), lambda b, m: m[wildcard])


def _first_cast_is_lossless(m: Match) -> str | None:
    have, between, to = m[X].type.dtype, m.op(FIRST_CAST).to, m.op(LOSSLESS).to
    if to == STRING:
        return "1 and 1.0 differ as text"
    if have.is_integer and between.is_float and to.is_integer and not holds_all(to, have):
        return f"{to} cannot represent every {have}: integers wrap around, floats out of range do not"
    return None if holds_all(between, have) else f"{between} cannot represent every {have}"


def _one_cast(b: Builder, m: Match) -> Value:
    cast: Value = b(m.op(LOSSLESS), m[X])
    return cast


_MANTISSA = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
_EXPONENT = {"f16": 5, "bf16": 8, "f32": 8, "f64": 11}


def holds_all(wide: DType, narrow: DType) -> bool:
    """Whether ``wide`` can represent every number of ``narrow``."""
    if wide == narrow:
        return True
    if narrow.kind == "bool":
        return wide.is_integer or wide.name in _MANTISSA
    if narrow.is_integer:
        if wide.name in _MANTISSA:
            return narrow.bits - (narrow.kind == "int") <= _MANTISSA[wide.name] and wide.name != "f16"
        if not wide.is_integer or (narrow.kind == "int" and wide.kind == "uint"):
            return False
        return wide.bits - (wide.kind == "int") >= narrow.bits - (narrow.kind == "int")
    if narrow.name in _MANTISSA and wide.name in _MANTISSA:
        larger = _MANTISSA[wide.name] >= _MANTISSA[narrow.name]
        return larger and _EXPONENT[wide.name] >= _EXPONENT[narrow.name]
    return False


RULES: tuple[Rule, ...] = (
    _neutral("x * 1", Mul, ONE),
    _neutral("x / 1", Div, ONE),
    _neutral("x + 0", Add, ZERO, _keeps_sums),
    _neutral("x - 0", Sub, ZERO, _keeps_differences),
    _neutral("x and true", And, TRUE),
    _neutral("x or false", Or, FALSE),
    _absorbing("x and false", And, FALSE),
    _absorbing("x or true", Or, TRUE),
    _neutral("x ** 1", Pow, ONE),
    Rule("x ** 2", P(Pow, X, TWO), lambda m: _same_type(m, X), lambda b, m: b(Mul(), m[X], m[X])),
    Rule("x ** 0.5", P(Pow, X, HALF), _is_root, lambda b, m: b(Sqrt(), m[X])),
    Rule("x / 2**k", P(Div, X, C), always, _times_reciprocal),
    _constants_chain(Mul, np.multiply, _grows),
    *(_sums_chain(i, o, outer.format(inner)) for inner, i in _INNER.items() for outer, o in _OUTER.items()),
    _constants_chain(Div, np.multiply, _divides),
    _constants_chain(Min, np.minimum, _orders_zeros),
    _constants_chain(Max, np.maximum, _orders_zeros),
    _constants_chain(BitwiseAnd, np.bitwise_and, always),
    _constants_chain(BitwiseOr, np.bitwise_or, always),
    _constants_chain(BitwiseXor, np.bitwise_xor, always),
    *(_involution(cls) for cls in (Neg, Not)),
    *(_idempotent(cls) for cls in (Relu, Abs, Floor, Ceil, Round, Sign)),
    *(_twice_the_same(cls) for cls in (And, Or, Min, Max)),
    Rule("Clip of Clip", OUTER_CLIP, always, _one_clip),
    Rule("Cast of a lossless Cast", LOSSLESS, _first_cast_is_lossless, _one_cast),
    _chosen("Where true", TRUE, X),
    _chosen("Where false", FALSE, Y),
)

ALGEBRAIC = RulePass("algebraic", RULES)
"""The pass."""
