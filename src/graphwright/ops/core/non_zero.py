"""NonZero."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.interfaces.bounded_form import BoundedForm
from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import BOOL, F32, I64, TensorType
from graphwright.ops.core.bind_size import bind_size
from graphwright.ops.core.imports import simple
from graphwright.ops.core.transpose import Transpose

MAX_BUFFER = 2**31
"""The largest buffer, in bytes, that is allocated for indices before their number is known."""


@op("NonZero")
class NonZero(BoundedForm, Op):
    """The indices of the elements that are not 0, in row-major order: i64[rank, count]. The count is
    data-dependent.
    """

    def infer(self, at: Inference, x: Fact) -> TensorType:
        count = at.symbols.fresh("nonzero") if x.data is None else int(np.count_nonzero(x.data))
        return TensorType(I64, (x.rank, count))

    def reference(self, x: Array) -> Array:
        if x.ndim == 0:
            return np.zeros((0, int(x != 0)), dtype=np.int64)
        return np.array(np.nonzero(x), dtype=np.int64).reshape(x.ndim, -1)

    def bounded_form(self, b: Builder, gives: Sequence[TensorType], defined: Set[str], *inputs: Value) -> Any:
        found = bounded_non_zero(b, inputs[0])
        if found is None:
            return None
        padded_indices, count = found
        return bind_size(b, gives[0].dims[1], count, (padded_indices, (len(inputs[0].type.dims), -1)))


def bounded_non_zero(b: Builder, x: Value) -> tuple[Value, Value] | None:
    """The results of :class:`BoundedNonZero`; None if the rank of ``x`` is unknown, or the buffer would be
    too large.
    """
    if x.type.shape is None or not _fits(x.type):
        return None
    padded_indices, count = b(BoundedNonZero(), x)
    return padded_indices, count


def _fits(type: TensorType) -> bool:
    size: Dim = 8 * len(type.dims) * product(type.dims)
    return not isinstance(size, int) or size <= MAX_BUFFER


@op("BoundedNonZero")
class BoundedNonZero(Op):
    """NonZero into a buffer of static size: i64[rank * elements], and the count of elements that are not 0.

    The first ``rank * count`` elements of the buffer are the indices i64[rank, count].
    """

    outputs = 2

    def infer(self, at: Inference, x: Fact) -> tuple[TensorType, TensorType]:
        return TensorType(I64, (x.rank * product(x.shape),)), TensorType(I64, ())

    def reference(self, x: Array) -> tuple[Array, Array]:
        indices = NonZero().reference(x)
        buffer = np.zeros(x.ndim * x.size, np.int64)
        buffer[: indices.size] = indices.reshape(-1)
        return buffer, np.array(indices.shape[1])


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
