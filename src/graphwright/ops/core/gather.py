"""Gather."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.interfaces.copied_elements import CopiesElements, are_vectors
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import Array, AtenImporter, Fact, Inference, Op, Sample, Trait, arg, is_known, op
from graphwright.ir.op.exporter import Export, as_onnx
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import F32, I32, I64, TensorType
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.size_inference import known_ints, with_moved_elements
from graphwright.ops.core.transpose import Transpose
from graphwright.records import replace

INDICES = frozenset({I32, I64})


@op("Gather")
class Gather(CopiesElements, PaddingRule, Op):
    """The slices of ``x`` along ``axis`` at the indices in operand 1; negative indices count from the end.

    The output has the shape of ``x`` with ``axis`` replaced by the axes of the indices. An index outside the
    axis is an error. Without ``from_end``, negative indices are errors as well.
    """

    axis: int = 0
    from_end: bool = True

    def infer(self, at: Inference, x: Fact, indices: Fact) -> TensorType | Fact:
        need_dtype(at, indices, INDICES, "the index tensor")
        if x.rank == 0:
            raise at.fail("a scalar has no axis to gather along")
        axis = at.axis(self.axis, x.rank)
        check_bounds(at, indices, x.shape[axis], axis, self.from_end)
        shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
        type = TensorType(x.dtype, shape)
        if not indices.type.is_static or not is_known(indices.elements):
            return type
        positions = np.array(indices.elements, np.int64).reshape(indices.type.sizes)
        return with_moved_elements(self, type, x, move=lambda data: self.reference(data, positions))

    def padding_leak(self, node: Node, padded: Padded) -> str:
        data, indices = node.operand(0), node.operand(1)
        if padded.among(data, [self.axis]):
            return "its indices may count from the end of a padded axis"
        valid = not padded.axes(indices) or _is_model_input(indices, padded.main)
        return "" if valid else "its indices in the padding may have any value"

    def copied_from(
        self, node: Node, element: int | None, facts: Mapping[Value, Fact]
    ) -> tuple[int, int | None] | None:
        indices = facts.get(node.operand(1))
        if element is None or not are_vectors(node) or indices is None or indices.elements is None:
            return None
        index = indices.elements[element]
        return (0, index) if isinstance(index, int) and index >= 0 else None

    def reference(self, x: Array, indices: Array) -> Array:
        require_sign(indices, self.from_end)
        return np.asarray(np.take(x, indices, self.axis), dtype=x.dtype)


def _is_model_input(value: Value, main: Graph) -> bool:
    """Whether ``value`` is an input of ``main``, possibly reshaped, transposed or cast: its padding is 0,
    which is a valid index.
    """
    while value.producer is not None:
        op = value.producer.op
        if not isinstance(op, Cast | Transpose) and Trait.VIEW not in op.traits:
            return False
        value = value.producer.operand(0)
    return value.owner is main


def check_bounds(at: Inference, indices: Fact, dim: Dim, axis: int, from_end: bool = True) -> None:
    """Raises InferError for a known index outside ``[-dim, dim)``, or outside ``[0, dim)`` without
    ``from_end``.
    """
    known = known_ints(indices)
    if known is None or not isinstance(dim, int):
        return
    least = -dim if from_end else 0
    invalid = [k for k in known if not least <= k < dim]
    if invalid:
        raise at.fail(f"index {invalid[0]} is outside axis {axis} of {dim} elements")


def require_sign(indices: Array, from_end: bool) -> None:
    """Raises IndexError for a negative index, unless these count ``from_end``."""
    if not from_end and indices.size and indices.min() < 0:
        raise IndexError(f"index {indices.min()} is negative")


def exported_with_axis(op_type: str, *fields: str) -> Export:
    """The export as ``op_type``, in which negative indices count from the end: whether they are errors here
    makes no difference to valid ones.
    """
    export = as_onnx(op_type, {name: name for name in ("axis", *fields)})
    return lambda e, op, *inputs: export(e, replace(op, from_end=True), *inputs)


Gather.onnx = {("Gather", 1): lambda i: i.emit(Gather(i.attr("axis", 0)), i.input(0), i.input(1))}
Gather.to_onnx = exported_with_axis("Gather")
Gather.samples = (
    Sample(Gather(), (arg(F32, 5, 3), arg(I64, 2, 2, values=(0, 4, -1, 2)))),
    Sample(Gather(-1), (arg(F32, symbol("N"), 5), arg(I64, 3, fill="index"))),
    Sample(Gather(1), (arg(F32, 2, 5), arg(I32, values=(3,)))),
    Sample(Gather(), (arg(I64, 3, values=(7, 8, 9)), arg(I64, values=(-1,)))),
    Sample(Gather(2), (arg(F32, 5, 3), arg(I64, 2, fill="index")), "axis 2 is out of range"),
    Sample(Gather(), (arg(F32, 5, 3), arg(I64, 1, values=(5,))), "index 5 is outside axis 0 of 5"),
    Sample(Gather(from_end=False), (arg(F32, 5, 3), arg(I64, 2, 2, values=(0, 4, 1, 2)))),
    Sample(Gather(1, from_end=False), (arg(F32, 5, symbol("N")), arg(I32, 3, fill="index"))),
    Sample(
        Gather(from_end=False), (arg(F32, 5, 3), arg(I64, 1, values=(-1,))), "index -1 is outside axis 0 of 5"
    ),
    Sample(Gather(), (arg(F32, 5, 3), arg(F32, 1)), "the index tensor is f32"),
    Sample(Gather(), (arg(F32), arg(I64, 1, fill="index")), "a scalar has no axis"),
)


def _aten_embedding(i: AtenImporter) -> Any:
    """The ignored arguments only affect gradients."""
    i.ignore("padding_idx", "scale_grad_by_freq", "sparse")
    return i.emit(Gather(from_end=False), i.input(0), i.input(1))


def _aten_as_strided(i: AtenImporter) -> Any:
    """Gathers the elements of a dense tensor at their offsets in its memory."""
    x, sizes, strides = i.input(0), i.attr("size"), i.attr("stride")
    if i.is_contiguous(0) and i.attr("storage_offset") is None and _is_contiguous(x, sizes, strides):
        return x
    if not x.type.is_static or not all(isinstance(n, int) for n in (*sizes, *strides)):
        raise i.fail("only tensors of static shape are supported")
    order = i.memory_order(0)
    if order is None:
        raise i.fail("only dense tensors that fill their memory are supported")
    offsets = np.full(sizes, i.attr("storage_offset", 0), np.int64)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        offsets += (np.arange(size) * stride).reshape(-1, *[1] * (len(sizes) - 1 - axis))
    memory = reshaped(i.builder, i.emit(Transpose(order), x), (x.type.elements,))
    return i.emit(Gather(), memory, i.const(offsets))


def _is_contiguous(x: Value, sizes: Sequence[Dim], strides: Sequence[Dim]) -> bool:
    """Whether ``sizes`` are those of ``x``, and ``strides`` those of a contiguous tensor. Axes of size 1 have
    any stride: pooling to one element gives them the strides of channels_last.
    """
    contiguous = [product(tuple(sizes[axis + 1 :])) for axis in range(len(sizes))]
    counted = [axis for axis, size in enumerate(sizes) if size != 1]
    return tuple(sizes) == x.type.dims and all(strides[axis] == contiguous[axis] for axis in counted)


Gather.aten = {
    "embedding": _aten_embedding,
    "index_select": lambda i: i.emit(Gather(i.attr("dim"), from_end=False), i.input(0), i.input(2)),
    "as_strided": _aten_as_strided,
}
