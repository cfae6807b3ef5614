"""Concat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.blocked_form import CHANNELS, Blocked, BlockedForm, can_be_blocked
from graphwright.ir.interfaces.copied_elements import CopiesElements, are_vectors
from graphwright.ir.interfaces.moved_axes import Concatenates
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import Array, AtenImporter, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, symbol, total
from graphwright.ir.types import F32, I32, I64, TensorType
from graphwright.ops.core.checks import same_dtype
from graphwright.ops.core.size_inference import with_moved_elements


@op("Concat")
class Concat(Concatenates, CopiesElements, BlockedForm, PaddingRule, Op):
    """The concatenation of the inputs along ``axis``. Dtypes, ranks and the sizes of all other axes must
    agree.
    """

    axis: int

    def infer(self, at: Inference, *xs: Fact) -> TensorType | Fact:
        if not xs:
            raise at.fail("it needs at least one input")
        dtype, rank = same_dtype(at, *xs), xs[0].rank
        if any(x.rank != rank for x in xs) or rank == 0:
            raise at.fail(f"ranks {[x.rank for x in xs]}: they must be equal and at least 1")
        axis = at.axis(self.axis, rank)
        shape = [_joined(at, xs, k, along=k == axis) for k in range(rank)]
        return with_moved_elements(self, TensorType(dtype, tuple(shape)), *xs)

    def forwarded_operand(self, gives: TensorType, *xs: Fact) -> int | None:
        return next((k for k, x in enumerate(xs) if x.type == gives), None)

    def padding_leak(self, node: Node, padded: Padded) -> str:
        early = node.inputs[:-1]
        if any(value is not None and padded.among(value, [self.axis]) for value in early):
            return "elements after a padded operand change their positions"
        return ""

    def blocked_form(self, node: Node, operands: Sequence[Value | None], lanes: int) -> Blocked | str:
        """A concatenation along channels copies whole blocks if every operand consists of whole blocks."""
        y = node.output
        if not can_be_blocked(y) or not all(v is not None and can_be_blocked(v) for v in operands):
            return f"an operand or {y.type} has no channel-blocked layout"
        if self.axis % len(y.type.dims) != CHANNELS:
            return f"it concatenates along axis {self.axis}, not along channels"
        return Blocked(operands=frozenset(range(len(operands))))

    def copied_from(
        self, node: Node, element: int | None, facts: Mapping[Value, Fact]
    ) -> tuple[int, int | None] | None:
        if element is None or not are_vectors(node):
            return None
        for index, value in enumerate(node.inputs):
            size = value.type.dims[0] if value is not None and value.type.shape else None
            if not isinstance(size, int):
                return None
            if element < size:
                return index, element
            element -= size
        return None

    def reference(self, *xs: Array) -> Array:
        return np.concatenate(xs, self.axis)


def _joined(at: Inference, xs: tuple[Fact, ...], axis: int, along: bool) -> Dim:
    if along:
        return total(x.shape[axis] for x in xs)
    dim = xs[0].shape[axis]
    for x in xs[1:]:
        dim = at.equal(dim, x.shape[axis], f"sizes of axis {axis}")
    return dim


Concat.onnx = {
    ("Concat", 4): lambda i: i.emit(
        Concat(i.required_attr("axis")), *(i.input(k) for k in range(len(i.inputs())))
    )
}
Concat.to_onnx = as_onnx("Concat", axis="axis")
Concat.samples = (
    Sample(Concat(1), (arg(F32, 2, 3), arg(F32, 2, symbol("N")), arg(F32, 2, 0))),
    Sample(Concat(-2), (arg(F32, 2, 3), arg(F32, 1, 3))),
    Sample(Concat(0), (arg(I64, 1, values=(4,)), arg(I64, 2, values=(5, 6)))),
    Sample(Concat(0), (arg(F32, 2, 3),)),
    Sample(Concat(0), (arg(F32, 2, 3), arg(F32, 2, 4)), "sizes of axis 1: 3 and 4 differ"),
    Sample(Concat(0), (arg(F32, 2), arg(I32, 2)), "operands of f32 and i32"),
    Sample(Concat(0), (arg(F32, 2), arg(F32, 2, 1)), "ranks [1, 2]"),
    Sample(Concat(2), (arg(F32, 2), arg(F32, 2)), "axis 2 is out of range"),
)


def _aten_cat(i: AtenImporter) -> Any:
    """PyTorch ignores empty vectors, also among tensors of another rank."""
    tensors = [value for value in i.listed(0) if value is not None]
    parts = [value for value in tensors if value.type.shape != (0,)] or tensors[:1]
    return i.emit(Concat(i.attr("dim", 0)), *map(i.result, parts))


Concat.aten = {"cat": _aten_cat}
