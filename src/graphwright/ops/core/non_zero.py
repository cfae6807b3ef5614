"""NonZero."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from graphwright.ir.bounded_form import BoundedForm
from graphwright.ir.build import Builder
from graphwright.ir.exporter import as_onnx
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import BOOL, F32, I64, TensorType
from graphwright.ops.control.bind_size import bind_size
from graphwright.ops.core.common import simple
from graphwright.ops.core.transpose import Transpose

MAX_ROOM = 2**31
"""Bytes of indices for which room is made before it is known how many there are."""


@op("NonZero")
class NonZero(BoundedForm, Op):
    """Indices of the elements that are not 0: i64[rank, count], row-major; the count becomes a new symbol."""

    def infer(self, at: Inference, x: Fact) -> TensorType:
        count = at.symbols.fresh("nonzero") if x.data is None else int(np.count_nonzero(x.data))
        return TensorType(I64, (x.rank, count))

    def reference(self, x: Array) -> Array:
        if x.ndim == 0:
            return np.zeros((0, int(x != 0)), dtype=np.int64)
        return np.array(np.nonzero(x), dtype=np.int64).reshape(x.ndim, -1)

    def bounded_form(self, b: Builder, gives: Sequence[TensorType], made: Set[str], *inputs: Value) -> Any:
        found = found_in(b, inputs[0])
        if found is None:
            return None
        room, count = found
        return bind_size(b, gives[0].dims[1], count, (room, (len(inputs[0].type.dims), -1)))


def found_in(b: Builder, x: Value) -> tuple[Value, Value] | None:
    """What :class:`BoundedNonZero` gives; None where ``x`` is of unknown rank, or too large."""
    shape = x.type.shape
    if shape is None or not _fits(x.type):
        return None
    room, count = b(BoundedNonZero(), x)
    return room, count


def _fits(type: TensorType) -> bool:
    room: Dim = 8 * len(type.dims) * product(type.dims)
    return not isinstance(room, int) or room <= MAX_ROOM


@op("BoundedNonZero")
class BoundedNonZero(Op):
    """NonZero with room for the indices of all elements, i64[rank * elements], and how many are not 0.

    The first rank * count hold the indices, i64[rank, count].
    """

    outputs = 2

    def infer(self, at: Inference, x: Fact) -> tuple[TensorType, TensorType]:
        return TensorType(I64, (x.rank * product(x.shape),)), TensorType(I64, ())

    def reference(self, x: Array) -> tuple[Array, Array]:
        indices = NonZero().reference(x)
        room = np.zeros(x.ndim * x.size, np.int64)
        room[: indices.size] = indices.reshape(-1)
        return room, np.array(indices.shape[1])


NonZero.onnx = {("NonZero", 9): simple(NonZero)}
NonZero.to_onnx = as_onnx("NonZero")
NonZero.aten = {"nonzero": lambda i: i.emit(Transpose((1, 0)), i.emit(NonZero(), i.input(0)))}
NonZero.samples = (
    Sample(NonZero(), (arg(F32, 3, 4, fill="index"),)),
    Sample(NonZero(), (arg(BOOL, symbol("N")),)),
    Sample(NonZero(), (arg(F32),)),
)
BoundedNonZero.samples = (
    Sample(BoundedNonZero(), (arg(F32, 3, symbol("N"), fill="positive"),)),
    Sample(BoundedNonZero(), (arg(BOOL, 3, values=(True, True, True)),)),
    Sample(BoundedNonZero(), (arg(F32),)),
    Sample(BoundedNonZero(), (arg(F32, 2, 0),)),
)
