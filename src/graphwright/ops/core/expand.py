"""Expand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Node
from graphwright.ir.interfaces.padding import Padded, PaddingRule, broadcast_leak
from graphwright.ir.op import Array, AtenImporter, Fact, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, numbers, symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.checks import need_sizes
from graphwright.ops.core.imports import simple
from graphwright.ops.core.size_inference import known_dims, known_parts, with_moved_elements


@op("Expand")
class Expand(PaddingRule, Op):
    """The input, broadcast to ``shape`` (operand 1 if None). Broadcasting is bidirectional: where ``shape``
    has 1, the output has the size of the input.
    """

    shape: tuple[Dim, ...] | None = None
    traits = Trait.COPY

    def fold_operands(self, x: Fact, shape: Fact | None = None) -> tuple[Op, tuple[int, ...]] | None:
        known = known_dims(shape)
        return None if self.shape is not None or known is None else (Expand(known), (0,))

    def infer(self, at: Inference, x: Fact, shape: Fact | None = None) -> TensorType | Fact:
        if self.shape is None:
            need_sizes(at, shape, "the shape")
            return TensorType(x.dtype, _partial_broadcast(at, x.shape, known_parts(shape)))
        return with_moved_elements(self, TensorType(x.dtype, at.broadcast(x.shape, self.shape)), x)

    def forwarded_operand(self, gives: TensorType, x: Fact, *others: Fact | None) -> int | None:
        return 0 if gives == x.type else None

    def padding_leak(self, node: Node, padded: Padded) -> str:
        return broadcast_leak([node.operand(0).type.dims], node.output.type.dims, padded)

    def reference(self, x: Array) -> Array:
        assert self.shape is not None
        return np.array(np.broadcast_to(x, np.broadcast_shapes(x.shape, numbers(self.shape))))


def _partial_broadcast(at: Inference, dims: Sequence[Dim], parts: Sequence[Dim | None]) -> tuple[Dim, ...]:
    """The broadcast shape of ``dims`` and ``parts``, whose unknown sizes are None."""
    rank = max(len(dims), len(parts))
    pairs = zip(
        (1,) * (rank - len(dims)) + tuple(dims), (1,) * (rank - len(parts)) + tuple(parts), strict=True
    )
    return tuple(_expanded_size(at, have, part) for have, part in pairs)


def _expanded_size(at: Inference, have: Dim, part: Dim | None) -> Dim:
    if part is None:
        return have if isinstance(have, int) and have != 1 else at.symbols.fresh("expanded")
    return at.broadcast((have,), (part,))[0]


Expand.onnx = {("Expand", 8): simple(Expand)}
Expand.to_onnx = as_onnx("Expand", operand="shape")
Expand.samples = (
    Sample(Expand((2, 3, 4)), (arg(F32, 3, 1),)),
    Sample(Expand((1, 1)), (arg(F32, 3, symbol("N")),)),
    Sample(Expand((2, 0)), (arg(F32, 1),)),
    Sample(Expand(), (arg(F32, 3, 1), arg(I64, 2, values=(1, 4)))),
    Sample(Expand((3,)), (arg(I64, 1, values=(5,)),)),
    Sample(Expand((-3,)), (arg(I64, 1, values=(5,)),), "negative size"),
    Sample(Expand((2,)), (arg(F32, 3),), "3 and 2 differ"),
    Sample(Expand(), (arg(F32, 3, 1), arg(F32, 2)), "the shape is f32; it must be i32 or i64"),
)


def _aten_expand(i: AtenImporter) -> Any:
    i.ignore("size", "implicit")
    return i.emit(Expand(i.results[0].dims), i.input(0))


def _aten_copy(i: AtenImporter) -> Any:
    """Operand 1 in the shape and dtype of operand 0."""
    i.ignore("self")
    return i.emit(Expand(i.results[0].dims), i.result(i.input(1)))


Expand.aten = {"expand": _aten_expand, "copy": _aten_copy}
