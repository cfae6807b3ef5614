"""OneHot."""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import isfinite
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.interfaces.bounded_form import BoundedForm
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import Exporter, Operand
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import F32, I32, I64, TensorType
from graphwright.ops.core.bind_size import bind_symbol
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.size_inference import known_dims, known_floats, number

_MOST_F32 = 1 << 24
"""f32 has all integers up to this one."""


@op("OneHot")
class OneHot(BoundedForm, Op):
    """One-hot encoding of indices on a new axis ``axis`` of size ``depth`` (operand 1 if None).

    The last operand is a vector of two values, off and on. Negative indices count from the end. An index
    outside ``[-depth, depth)`` gives only off values.
    """

    axis: int = -1
    depth: Dim | None = None

    def fold_operands(self, indices: Fact, *rest: Fact | None) -> tuple[Op, tuple[int, ...]] | None:
        if self.depth is not None or len(rest) != 2 or rest[0] is None:
            return None
        depth = known_floats(rest[0]) if rest[0].dtype.is_float else known_dims(rest[0])
        if depth is None or len(depth) != 1 or (isinstance(depth[0], float) and not isfinite(depth[0])):
            return None
        first = depth[0]
        return OneHot(self.axis, int(first) if isinstance(first, float) else first), (0, 2)

    def infer(self, at: Inference, indices: Fact, *rest: Fact) -> TensorType:
        *_, values = rest
        depth = at.symbols.fresh("depth") if self.depth is None else self.depth
        if values.rank != 1:
            raise at.fail(f"the values are {values.type}; they must be a vector of two elements, off and on")
        at.equal(values.shape[0], 2, "elements of the values, which must be two: off and on")
        if self.depth is not None:
            at.at_least(depth, 0, "the depth")
        axis = at.axis(self.axis, indices.rank + 1)
        return TensorType(values.dtype, (*indices.shape[:axis], depth, *indices.shape[axis:]))

    def bounded_form(
        self, b: Builder, gives: Sequence[TensorType], defined: Set[str], *inputs: Value
    ) -> Value | None:
        """Binds the depth to operand 1."""
        if len(inputs) != 3 or gives[0].shape is None or str(gives[0].dims[self.axis]) not in defined:
            return None
        indices, depth, values = inputs
        size = gives[0].dims[self.axis]
        bind_symbol(b, size, b(Cast(I64), depth))
        encoded: Value = b(OneHot(self.axis, size), indices, values)
        return encoded

    def reference(self, indices: Array, values: Array) -> Array:
        depth = number(self.depth)
        positions = indices.astype(np.int64)
        positions = np.where(positions < 0, positions + depth, positions)
        axis = self.axis % (indices.ndim + 1)
        classes = np.arange(depth).reshape(-1, *[1] * (indices.ndim - axis))
        return np.asarray(np.where(np.expand_dims(positions, axis) == classes, values[1], values[0]))


def _import(i: Importer) -> object:
    return i.emit(OneHot(i.attr("axis", -1)), i.input(0), i.input(1), i.input(2))


def _export(e: Exporter, op: OneHot, indices: Value, *others: Value) -> Any:
    """ONNX Runtime has kernels for some combinations of types: a depth of f32 for values of f32 and i32."""
    given: list[Operand] = list(others)
    if isinstance(op.depth, int) and op.depth < _MOST_F32 and others[-1].type.dtype in (F32, I32):
        given.insert(0, e.const(np.array(op.depth, np.float32)))
    elif op.depth is not None:
        given.insert(0, e.size(op.depth))
    return e.emit("OneHot", indices, *given, axis=op.axis)


OneHot.to_onnx = _export
OneHot.onnx = {("OneHot", 9): _import}
_PAIR = arg(F32, 2, values=(0.0, 1.0))
OneHot.samples = (
    Sample(OneHot(depth=4), (arg(I64, 5, values=(0, 3, -1, 4, -5)), _PAIR)),
    Sample(OneHot(0, 3), (arg(I64, 2, symbol("N"), fill="index"), _PAIR)),
    Sample(OneHot(1, 3), (arg(F32, 2, 2, fill="index"), arg(I64, 2))),
    Sample(OneHot(), (arg(I64, 2, fill="index"), arg(I64, values=(3,)), _PAIR)),
    Sample(OneHot(), (arg(I64, 2, fill="index"), arg(F32, 1, values=(3.0,)), _PAIR)),
    Sample(OneHot(0), (arg(I64, 2, fill="index"), arg(I64, fill="positive"), arg(I64, 2))),
    Sample(OneHot(2, 3), (arg(I64, 4, fill="index"), _PAIR), "axis 2 is out of range"),
    Sample(OneHot(depth=0), (arg(I64, 4, fill="index"), _PAIR)),
    Sample(OneHot(depth=-1), (arg(I64, 4, fill="index"), _PAIR), "the depth: -1 is less than 0"),
    Sample(OneHot(depth=2), (arg(I64, 4, fill="index"), arg(F32, 3)), "must be two"),
    Sample(OneHot(depth=2), (arg(I64, 4, fill="index"), arg(I32, 2))),
    Sample(OneHot(depth=3), (arg(F32, 4, fill="index"), _PAIR)),
)
