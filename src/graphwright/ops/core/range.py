"""Range."""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import ceil, inf
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.bounded_form import BoundedForm
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import Array, AtenImporter, Fact, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import CannotExport, Exporter
from graphwright.ir.symbols import Dim, Expr, ceildiv
from graphwright.ir.types import BF16, F16, F32, F64, I64, DType, TensorType
from graphwright.ops.core.binary import Add, Less, Max, Mul, Sub
from graphwright.ops.core.bind_size import bind_symbol
from graphwright.ops.core.cast import Cast, as_dtype
from graphwright.ops.core.checks import same_dtype
from graphwright.ops.core.div import Div
from graphwright.ops.core.imports import simple
from graphwright.ops.core.known_elements import known_size
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.size_inference import known_dims, known_floats, new_sizes
from graphwright.ops.core.unary import Abs, Ceil
from graphwright.ops.core.where import Where

Number = Dim | float
_EXACT = 2.0**52
"""f64 represents every difference of integers below this number exactly."""


@op("Range")
class Range(BoundedForm, PaddingRule, Op):
    """The numbers ``start + k * step`` before ``limit``. ``bounds`` are (start, limit, step); if None, they
    are the operands.

    f16 and bf16 are computed in f32. The step must not be 0.
    """

    bounds: tuple[Number, Number, Number] | None = None
    dtype: DType = I64
    first_shape_operand = 0

    def verify(self) -> None:
        if self.bounds is not None and len(self.bounds) != 3:
            raise InferError(f"the bounds are {self.bounds}; they must be start, limit and step")

    def fold_operands(self, *bounds: Fact | None) -> tuple[Op, tuple[int, ...]] | None:
        if self.bounds is not None or len(bounds) != 3 or bounds[0] is None:
            return None
        dtype = bounds[0].dtype
        values = [known_floats(b) if dtype.is_float else known_dims(b) for b in bounds]
        if any(v is None or len(v) != 1 for v in values) or any(b and b.dtype != dtype for b in bounds):
            return None
        start, limit, step = (v[0] for v in values if v is not None)
        return Range((start, limit, step), dtype), ()

    def infer(self, at: Inference, *bounds: Fact) -> TensorType | Fact:
        if self.bounds is None:
            return TensorType(same_dtype(at, *bounds), new_sizes(at, 1, "range"))
        start, limit, step = self.bounds
        if step == 0:
            raise at.fail("the step is 0")
        if self.dtype.is_float:
            return TensorType(self.dtype, (self._count(),))
        if isinstance(start, float) or isinstance(limit, float) or isinstance(step, float):
            raise at.fail(f"a bound of a range of {self.dtype} is not an integer")
        if not isinstance(step, int) and not at.not_less(step, 1):
            return TensorType(self.dtype, new_sizes(at, 1, "range"))
        up = not isinstance(step, int) or step > 0
        count = at.symbols.larger(ceildiv(limit - start, step) if up else ceildiv(start - limit, -step), 0)
        type, known = TensorType(self.dtype, (count,)), known_size((count,))
        return type if known is None else Fact(type, tuple(start + step * k for k in range(known)))

    def bounded_form(
        self, b: Builder, gives: Sequence[TensorType], defined: Set[str], *inputs: Value
    ) -> Value | None:
        """Binds the size to the number of steps, and computes ``start + k * step`` for each of them."""
        if len(inputs) != 3 or gives[0].shape is None:
            return None
        (start, limit, step), size, dtype = inputs, gives[0].dims[0], gives[0].dtype.computed
        if dtype.bits < 32:
            return None
        start, limit, step = (b(Reshape(()), as_dtype(b, v, dtype)) for v in (start, limit, step))
        span, stride = (b(Cast(F64), v) for v in (b(Sub(), limit, start), step))
        # the integer difference may wrap around; a difference this large need not be exact
        if dtype.is_integer:
            wide = b(Sub(), *(b(Cast(F64), v) for v in (limit, start)))
            span = b(Where(), b(Less(), b(Abs(), wide), b.const(_EXACT, F64)), span, wide)
        bind_symbol(b, size, b(Cast(I64), b(Max(), b(Ceil(), b(Div(), span, stride)), b.const(0, F64))))
        k = as_dtype(b, b(Range((0, size, 1))), dtype)
        return as_dtype(b, b(Add(), b(Mul(), k, step), start), gives[0].dtype)

    def padding_leak(self, node: Node, padded: Padded) -> str:
        start, _, step = self.bounds or ("", "", "")
        return "its start or step is a padded size" if padded.holds(start) or padded.holds(step) else ""

    def reference(self) -> Array:
        assert self.bounds is not None
        if not self.dtype.is_float:
            return np.arange(*self.bounds, dtype=self.dtype.numpy)  # type: ignore[arg-type]  # no symbols
        start, _, step = self._wide()
        return np.asarray(start + np.arange(self._count()).astype(step.dtype) * step).astype(self.dtype.numpy)

    def _wide(self) -> tuple[Array, ...]:
        """The bounds of a range of floats, in the dtype in which it is computed."""
        wide = np.dtype(np.float32) if self.dtype in (F16, BF16) else self.dtype.numpy
        return tuple(np.asarray(b, dtype=wide) for b in self.bounds or ())

    def _count(self) -> int:
        """The number of elements of a range of floats. Raises InferError if it is not finite."""
        start, limit, step = self._wide()
        steps = float(np.float64(limit - start) / np.float64(step))
        if not steps < inf:  # also for NaN
            raise InferError("the range from {} to {} with step {} does not end".format(*self.bounds or ()))
        return 0 if steps <= 0 else ceil(steps)


def _scalar(value: Any, dtype: DType = I64) -> Any:
    return arg(dtype, values=(value,))


def _export(e: Exporter, op: Range, *bounds: Value) -> Any:
    if op.dtype in (F16, BF16):
        raise CannotExport(f"ONNX has no range of {op.dtype} before opset 27")
    return e.emit("Range", *(bounds if op.bounds is None else [_bound(e, op, b) for b in op.bounds]))


def _bound(e: Exporter, op: Range, bound: Number) -> str:
    if isinstance(bound, Expr):
        return e.size(bound) if op.dtype == I64 else e.cast(e.size(bound), op.dtype)
    return e.const(np.array(bound, op.dtype.numpy))


Range.to_onnx = _export
Range.onnx = {("Range", 11): simple(Range)}
Range.samples = (
    Sample(Range((0, 5, 1)), ()),
    Sample(Range((10, 4, -2)), ()),
    Sample(Range((3, 3, 1)), ()),
    Sample(Range((0.0, 1.0, 0.3), F32), ()),
    Sample(Range((0.5, 3.0, 0.5), BF16), ()),
    Sample(Range(), (_scalar(1), _scalar(9), _scalar(3))),
    Sample(Range(), (_scalar(1.0, F32), _scalar(0.0, F32), _scalar(-0.25, F32))),
    Sample(Range((0, 5, 0)), (), "the step is 0"),
    Sample(Range((0.0, float("inf"), 1.0), F32), (), "does not end"),
    Sample(Range((0.5, 3, 1)), (), "a bound of a range of i64 is not an integer"),
    Sample(Range(), (_scalar(1), _scalar(9), _scalar(1.0, F32)), "operands of i64 and f32"),
)


def _aten_arange(i: AtenImporter) -> Any:
    """Ranges of floats are computed in f64, with the number of elements that PyTorch computed. For integer
    results, float bounds lose their fractions.
    """
    i.ignore("dtype")
    start, _, step = bounds = (i.attr("start"), i.attr("end"), i.attr("step"))
    if all(isinstance(bound, int | Expr) for bound in bounds):
        return i.result(i.emit(Range(bounds)))
    (type,) = i.results
    if isinstance(start, Expr) or isinstance(step, Expr):
        raise i.fail("ranges of floats with dynamic bounds are not supported")
    if not type.dtype.is_float:
        start, step = int(start), int(step)
        return i.result(i.emit(Range((start, start + type.dims[0] * step, step))))
    positions = i.emit(Cast(F64), i.emit(Range((0, type.dims[0], 1))))
    scaled = i.emit(Mul(), positions, i.const(np.asarray(step, np.float64)))
    return i.result(i.emit(Add(), scaled, i.const(np.asarray(start, np.float64))))


Range.aten = {"arange.start_step": _aten_arange}


def scalar_of(b: Builder, dim: Dim) -> Value:
    """``dim``, a number or symbolic size, as an i64 scalar."""
    scalar: Value = b(Reshape(()), b(Range((dim, dim + 1, 1))))
    return scalar
