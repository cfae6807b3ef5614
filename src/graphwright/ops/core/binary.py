"""Elementwise ops with two operands, which are broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.loops.nodes import Scalar, apply, select
from graphwright.ir.op import Array, Import, Importer, Inference, Op, Trait, op, op_class
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, Range
from graphwright.ir.types import BOOL, DType
from graphwright.ops.core.checks import FLOATS, INTEGERS, LOGICAL, NUMBERS
from graphwright.ops.core.div import Div
from graphwright.ops.core.elementwise_samples import binary_samples
from graphwright.ops.core.imports import chain, simple
from graphwright.ops.core.pointwise import Pointwise
from graphwright.ops.core.references import like, quiet

ElementRule = Callable[[Inference, Dim, Dim], Dim | None]
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
    traits: Trait = Trait.NONE,
) -> type[Op]:
    """Defines and registers an elementwise op with two operands.

    ``onnx`` is the opset in which ONNX has an op of the same name and meaning, or a dict from opset to import
    function; None if ONNX does not have the op. ``gives`` is the output dtype if it differs from the
    operands'. ``known`` and ``known_real``: see :class:`Pointwise`.
    """

    def compute(self: Op, a: Array, b: Array) -> Array:
        result = quiet(reference)(a, b)
        return np.asarray(result) if gives else like(result, a)

    def scalar(self: Op, a: Scalar, b: Scalar) -> Scalar:
        return apply(expression, a, b) if isinstance(expression, str) else expression(a, b)

    body: dict[str, Any] = {
        "__doc__": doc, "__module__": __name__, "dtypes": dtypes, "gives": gives,
        "reference": compute, "expression": scalar,
        "traits": Trait.ELEMENTWISE | traits,
    }  # fmt: skip
    if known is not None:
        body["known"] = lambda self, at, a, b: known(at, a, b)
    if known_real is not None:
        body["known_real"] = lambda self, at, a, b: known_real(at, a, b)
    cls: type[Op] = op(name)(type(name, (Pointwise,), body))
    imports = {onnx: simple(cls)} if isinstance(onnx, int) else onnx or {}
    cls.onnx = {(name, since): convert for since, convert in imports.items()}
    cls.to_onnx = as_onnx(name) if imports else None
    cls.samples = binary_samples(cls(), dtypes)
    return cls


def _subtract_real(at: Inference, a: Dim, b: Dim) -> Dim | None:
    return a - b if at.symbols.proves_at_least(a - b, 0) else None


def _smaller(at: Inference, a: Dim, b: Dim) -> Dim:
    return at.symbols.smaller(a, b)


def _larger(at: Inference, a: Dim, b: Dim) -> Dim:
    return at.symbols.larger(a, b)


def _compare(test: Callable[[Range], bool | None]) -> ElementRule:
    """A comparison of ``a`` and ``b``, decided by ``test`` of the range of ``a - b``."""

    def known(at: Inference, a: Dim, b: Dim) -> Dim | None:
        decided = test(at.symbols.range_of(a - b))
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


def _numbers_only(function: Callable[[int, int], int]) -> ElementRule:
    """``function`` of two numbers; None for symbolic operands."""
    return lambda _, a, b: function(a, b) if isinstance(a, int) and isinstance(b, int) else None


def added(i: Importer, x: Value, *terms: Value | None) -> Value:
    """``x`` plus each of ``terms`` that is not None."""
    for term in terms:
        if term is not None:
            x = i.emit(Add(), x, term)
    return x


def _variadic(name: str) -> Import:
    """Import of an op with any number of inputs as a chain of binary ops ``name``."""
    return lambda i: chain(i, op_class(name)())


def _import_mean(i: Importer) -> Any:
    total = chain(i, Add())
    count = np.array(len(i.inputs()), dtype=total.type.dtype.numpy)
    return i.emit(Div(), total, i.const(count))


Add = binary("Add", "``a + b``", 7, np.add, "add",
             known=lambda _, a, b: a + b, known_real=lambda _, a, b: a + b,
             traits=Trait.COMMUTATIVE | Trait.KEEPS_NONNEGATIVE)  # fmt: skip
Sub = binary("Sub", "``a - b``", 7, np.subtract, "sub", known=lambda _, a, b: a - b,
             known_real=_subtract_real)  # fmt: skip
Mul = binary("Mul", "``a * b``", 7, np.multiply, "mul",
             known=lambda _, a, b: a * b, known_real=lambda _, a, b: a * b,
             traits=Trait.COMMUTATIVE | Trait.KEEPS_NONNEGATIVE)  # fmt: skip
Min = binary("Min", "The smaller operand; NaN if either is NaN", {6: _variadic("Min")}, np.minimum, "min",
             known=_smaller, known_real=_smaller,
             traits=Trait.COMMUTATIVE)  # fmt: skip
Max = binary("Max", "The larger operand; NaN if either is NaN", {6: _variadic("Max")}, np.maximum, "max",
             known=_larger, known_real=_larger,
             traits=Trait.COMMUTATIVE | Trait.KEEPS_NONNEGATIVE)  # fmt: skip
And = binary("And", "Logical and", 7, np.logical_and, "and", LOGICAL,
             known=_smaller, traits=Trait.COMMUTATIVE)  # fmt: skip
Or = binary("Or", "Logical or", 7, np.logical_or, "or", LOGICAL,
            known=_larger, traits=Trait.COMMUTATIVE)  # fmt: skip
Xor = binary("Xor", "Logical exclusive or", 7, np.logical_xor, "xor", LOGICAL,
             known=_numbers_only(lambda a, b: a ^ b), traits=Trait.COMMUTATIVE)  # fmt: skip
BitwiseAnd = binary("BitwiseAnd", "Bitwise and", 18, np.bitwise_and, "and", INTEGERS,
                    known=_numbers_only(lambda a, b: a & b), traits=Trait.COMMUTATIVE)  # fmt: skip
BitwiseOr = binary("BitwiseOr", "Bitwise or", 18, np.bitwise_or, "or", INTEGERS,
                   known=_numbers_only(lambda a, b: a | b), traits=Trait.COMMUTATIVE)  # fmt: skip
BitwiseXor = binary("BitwiseXor", "Bitwise exclusive or", 18, np.bitwise_xor, "xor", INTEGERS,
                    known=_numbers_only(lambda a, b: a ^ b), traits=Trait.COMMUTATIVE)  # fmt: skip
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
