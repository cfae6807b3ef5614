"""Reductions over axes. Most are a :class:`Fold`: a function of each element, a combiner, and a function of
the result.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.loops.functions import FUNCTIONS
from graphwright.ir.loops.nodes import Position, Scalar, apply, cast
from graphwright.ir.op import (
    Array,
    Fact,
    Import,
    Importer,
    Inference,
    Op,
    Sample,
    Trait,
    UnknownRank,
    arg,
    family,
    is_known,
    op,
)
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, maximum, minimum, symbol
from graphwright.ir.types import BOOL, F16, F32, F64, I32, I64, STRING, U8, DType, TensorType, dtype_of
from graphwright.ops.core.checks import NUMBERS, need_dtype, resolve_axes
from graphwright.ops.core.references import like, positive_axes, quiet, widened
from graphwright.records import dataclass, replace


@family
class Reduction(Op):
    """Base class of reductions.

    ``axes`` None means all axes, () no axis. With operand 1, this operand holds the axes; an empty one means
    all axes, or with ``noop`` no axis. ``keepdims``: reduced axes stay, with size 1.
    """

    axes: tuple[int, ...] | None = None
    keepdims: bool = True
    noop: bool = False
    dtypes: ClassVar[frozenset[DType]] = NUMBERS
    optional_inputs = frozenset({1})

    def fold_operands(self, x: Fact, axes: Fact | None = None) -> tuple[Op, tuple[int, ...]] | None:
        if axes is None or not is_known(axes.elements):
            return None
        return replace(self, axes=axes.elements or (() if self.noop else None), noop=False), (0,)

    def infer(self, at: Inference, x: Fact, axes: Fact | None = None) -> TensorType | Fact:
        need_dtype(at, x, self.dtypes)
        if axes is not None:
            raise UnknownRank
        return TensorType(x.dtype, reduced_shape(x.shape, resolve_axes(at, self.axes, x.rank), self.keepdims))

    def resolved(self, rank: int) -> tuple[int, ...]:
        """The reduced axes of an operand of ``rank``, non-negative and sorted; none of a scalar, of which
        axis 0 or -1 may be named.
        """
        return tuple(sorted(positive_axes(self.axes, rank))) if rank else ()

    def with_axes(self, axes: tuple[int, ...]) -> Op:
        """The same reduction over ``axes``."""
        return replace(self, axes=axes)


def reduced_shape(shape: Sequence[Dim], axes: Sequence[int], keepdims: bool) -> tuple[Dim, ...]:
    """``shape`` after a reduction over ``axes``."""
    if keepdims:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


@family
class Fold(Reduction):
    """A reduction that computes ``finish(combine(prepare(x), ...), count)``.

    ``combiner`` is ``add``, ``mul``, ``max`` or ``min``; ``count`` is the number of elements that one result
    combines. 16-bit floats are accumulated in f32.
    """

    traits = Trait.REDUCTION
    combiner: ClassVar[str]
    functions: ClassVar[FoldFunctions]

    def infer(self, at: Inference, x: Fact, axes: Fact | None = None) -> TensorType | Fact:
        type = super().infer(at, x, axes)
        combine = _COMBINE_SIZES[self.combiner]
        if x.elements is None or not x.dtype.is_integer or x.rank != 1 or not self.functions.plain:
            return type
        if self.axes == () or not x.elements:
            return type
        assert isinstance(type, TensorType)
        return Fact(type, (functools.reduce(combine, x.elements),))

    def forwarded_operand(self, gives: TensorType, x: Fact, axes: Fact | None = None) -> int | None:
        """A reduction over single elements forwards its operand. Float sums do not: they start from 0.0, and
        0.0 plus -0.0 is 0.0.
        """
        exact = self.combiner != "add" or x.dtype.is_integer
        return 0 if self.functions.plain and exact and gives == x.type else None

    def identity(self, dtype: DType) -> float | int | bool:
        """The initial value of the accumulator."""
        if self.combiner in ("add", "mul"):
            return int(self.combiner == "mul")
        lowest = self.combiner == "max"
        if dtype == BOOL:
            return not lowest
        if dtype.is_float:
            return -math.inf if lowest else math.inf
        info = np.iinfo(dtype.numpy)
        return int(info.min if lowest else info.max)

    def prepare(self, x: Scalar) -> Scalar:
        """The value that is combined, computed from one element."""
        return self.functions.prepare[1](x)

    def finish(self, acc: Scalar, count: Dim) -> Scalar:
        """The result, computed from the accumulator of ``count`` elements."""
        return self.functions.finish[1](acc, count)

    @quiet
    def reference(self, x: Array) -> Array:
        axes = positive_axes(self.axes, x.ndim)
        prepared = np.asarray(self.functions.prepare[0](widened(x)))
        start = self.identity(dtype_of(prepared))
        acc = _UFUNCS[self.combiner].reduce(
            prepared, axis=axes, dtype=prepared.dtype, keepdims=self.keepdims, initial=start
        )
        count = math.prod(x.shape[axis] for axis in axes)
        return like(self.functions.finish[0](np.asarray(acc), count), x)


@dataclass(frozen=True)
class FoldFunctions:
    """The functions ``prepare`` and ``finish`` of a fold, each in NumPy and as a scalar expression."""

    prepare: tuple[Callable[[Array], Any], Callable[[Scalar], Scalar]] = (lambda x: x, lambda x: x)
    finish: tuple[Callable[[Array, int], Any], Callable[[Scalar, Dim], Scalar]] = (
        lambda acc, count: acc,
        lambda acc, count: acc,
    )
    plain: bool = False
    """Whether both functions are the identity."""


_UFUNCS: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
_COMBINE_SIZES: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": operator.add,
    "mul": operator.mul,
    "max": maximum,
    "min": minimum,
}


def _in_float(function: str) -> Callable[[Scalar], Scalar]:
    """A float function of the loop IR; an integer operand is computed in f64 and cast back."""

    def scalar(x: Scalar) -> Scalar:
        return apply(function, x) if x.dtype.is_float else cast(apply(function, cast(x, F64)), x.dtype)

    return scalar


def _mean(acc: Scalar, count: Dim) -> Scalar:
    return acc / (count if isinstance(count, int) else cast(Position(count), acc.dtype))


_SQUARE = (lambda x: x * x, lambda x: x * x)
_ABS = (np.abs, lambda x: apply("abs", x))
_ROOT = (lambda acc, count: np.sqrt(acc), lambda acc, count: _in_float("sqrt")(acc))
_LOG = (lambda acc, count: np.log(acc), lambda acc, count: _in_float("log")(acc))
_MEAN = (lambda acc, count: FUNCTIONS["div"].numpy(acc, like(count, acc)), _mean)


def _import(cls: type[Reduction]) -> Import:
    """Before opset 18 (ReduceSum: 13) the axes are an attribute."""

    def convert(i: Importer) -> Any:
        axes = i.attr("axes")
        return i.emit(cls(None if not axes else tuple(axes), bool(i.attr("keepdims", 1))), i.input(0))

    return convert


def _import_operand(cls: type[Reduction]) -> Import:
    """From opset 18 (ReduceSum: 13) on, the axes are operand 1, and ``noop_with_empty_axes`` defines the
    meaning of an empty or absent operand.
    """

    def convert(i: Importer) -> Any:
        keepdims, noop = bool(i.attr("keepdims", 1)), bool(i.attr("noop_with_empty_axes", 0))
        if i.optional(1) is None:
            return i.emit(cls(() if noop else None, keepdims), i.input(0))
        return i.emit(cls(None, keepdims, noop), i.input(0), i.input(1))

    return convert


def _export(e: Exporter, op: Reduction, x: Value, axes: Value | None = None) -> Any:
    """Writes the axes as an operand; ``noop_with_empty_axes`` defines whether empty axes mean none or all."""
    given: Any = e.sizes(op.axes) if axes is None and op.axes is not None else axes
    noop = op.axes == () or (axes is not None and op.noop)
    return e.emit(op.name, x, given, keepdims=op.keepdims, noop_with_empty_axes=noop)


def set_onnx_and_samples(cls: type[Reduction], fill: str = "normal", operand_since: int = 18) -> None:
    """Sets imports, export and samples; they are alike for all reductions. From opset ``operand_since`` on,
    the axes are an operand.
    """
    cls.onnx = {(cls.name, 1): _import(cls), (cls.name, operand_since): _import_operand(cls)}
    cls.to_onnx = _export
    n, m = symbol("N"), symbol("M")
    cls.samples = (
        *(Sample(cls((1,)), (arg(t, 3, 5, 2, fill=fill),)) for t in (F32, F16, F64, I32) if t in cls.dtypes),
        Sample(cls((-1, 0), keepdims=False), (arg(F32, 3, 5, 2, fill=fill),)),
        Sample(cls(), (arg(F32, 3, 4, fill=fill),)),
        Sample(cls(None, keepdims=False), (arg(F32, 3, 4, fill=fill),)),
        Sample(cls(), (arg(F32, fill=fill),)),
        Sample(cls(()), (arg(F32, 2, 3, fill=fill),)),
        Sample(cls((1,), keepdims=False), (arg(F32, n, m, fill=fill),)),
        Sample(cls((0,)), (arg(F32, 0, 3),)),
        Sample(cls((1,)), (arg(F32, 0, 3),)),
        Sample(cls(None, keepdims=False), (arg(F32, 2, 3, fill=fill), arg(I64, 1, values=(1,)))),
        Sample(cls(), (arg(F32, 2, 3, fill=fill), arg(I64, 0, values=()))),
        Sample(cls(noop=True), (arg(F32, 2, 3, fill=fill), arg(I64, 0, values=()))),
        Sample(cls((2,)), (arg(F32, 2, 3),), "axis 2 is out of range for rank 2"),
        Sample(cls((0, -2)), (arg(F32, 2, 3),), "name an axis twice"),
        Sample(cls(), (arg(STRING, 2),), "the input is string"),
    )


def fold(
    name: str,
    doc: str,
    combiner: str,
    functions: FoldFunctions,
    dtypes: frozenset[DType] = NUMBERS,
    traits: Trait = Trait.NONE,
) -> type[Fold]:
    """Defines and registers one reduction."""
    body = {
        "__doc__": doc,
        "__module__": __name__,
        "combiner": combiner,
        "functions": functions,
        "dtypes": dtypes,
        "traits": Trait.REDUCTION | traits,
    }
    return op(name)(type(name, (Fold,), body))


_PLAIN = FoldFunctions(plain=True)
ReduceSum = fold("ReduceSum", "The sum over ``axes``", "add", _PLAIN, traits=Trait.KEEPS_NONNEGATIVE)
ReduceProd = fold("ReduceProd", "The product over ``axes``", "mul", _PLAIN)
ReduceMax = fold(
    "ReduceMax",
    "The maximum over ``axes``; NaN if an element is NaN. The maximum of no elements is the smallest value of"
    " the dtype",
    "max",
    _PLAIN,
    NUMBERS | {BOOL},
)
ReduceMin = fold(
    "ReduceMin",
    "The minimum over ``axes``; NaN if an element is NaN. The minimum of no elements is the largest value of"
    " the dtype",
    "min",
    _PLAIN,
    NUMBERS | {BOOL},
)
ReduceMean = fold(
    "ReduceMean",
    "The mean over ``axes``; for integers, truncated towards zero",
    "add",
    FoldFunctions(finish=_MEAN),
    traits=Trait.KEEPS_NONNEGATIVE,
)
ReduceSumSquare = fold(
    "ReduceSumSquare",
    "The sum of squares over ``axes``",
    "add",
    FoldFunctions(prepare=_SQUARE),
    traits=Trait.NONNEGATIVE,
)
ReduceL1 = fold("ReduceL1", "The sum of absolute values over ``axes``", "add", FoldFunctions(prepare=_ABS))
ReduceL2 = fold(
    "ReduceL2",
    "The square root of the sum of squares over ``axes``",
    "add",
    FoldFunctions(prepare=_SQUARE, finish=_ROOT),
)
ReduceLogSum = fold(
    "ReduceLogSum", "The logarithm of the sum over ``axes``", "add", FoldFunctions(finish=_LOG)
)


set_onnx_and_samples(ReduceSum, operand_since=13)
set_onnx_and_samples(ReduceLogSum, "positive")
for _cls in (ReduceProd, ReduceMax, ReduceMin, ReduceMean, ReduceSumSquare, ReduceL1, ReduceL2):
    set_onnx_and_samples(_cls)

_SIZES = (arg(I64, 3, values=(2, 3, 4)),)
ReduceSum.samples += (Sample(ReduceSum((0,)), _SIZES),)
ReduceProd.samples += (Sample(ReduceProd(None, keepdims=False), _SIZES),)
ReduceMax.samples += (Sample(ReduceMax(), _SIZES), Sample(ReduceMax((1,)), (arg(BOOL, 3, 4),)))
ReduceMin.samples += (Sample(ReduceMin(), _SIZES), Sample(ReduceMin((1,)), (arg(U8, 3, 4),)))
