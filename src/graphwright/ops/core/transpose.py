"""Transpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.blocked_form import CHANNELS, Blocked, BlockedForm, can_be_blocked
from graphwright.ir.interfaces.moved_axes import AxisSlice, MovesAxes
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import Array, AtenImporter, Fact, Importer, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.size_inference import with_moved_elements


@op("Transpose")
class Transpose(MovesAxes, BlockedForm, PaddingRule, Op):
    """Permutes the axes: axis ``k`` of the result is axis ``perm[k]`` of the input. ``perm`` None reverses
    them.
    """

    perm: tuple[int, ...] | None = None
    traits = Trait.COPY

    def infer(self, at: Inference, x: Fact) -> TensorType | Fact:
        perm = tuple(reversed(range(x.rank))) if self.perm is None else self.perm
        if sorted(perm) != list(range(x.rank)):
            raise at.fail(f"{list(perm)} is not a permutation of the {x.rank} axes of the input")
        return with_moved_elements(self, TensorType(x.dtype, tuple(x.shape[axis] for axis in perm)), x)

    def forwarded_operand(self, gives: TensorType, x: Fact) -> int | None:
        return 0 if self.perm == tuple(range(x.rank)) or x.rank < 2 else None

    def padding_leak(self, node: Node, padded: Padded) -> str:
        return ""  # padding stays at the end of its axis

    def moved_axes(self, node: Node) -> tuple[AxisSlice, ...] | str:
        rank = len(node.output.type.dims)
        return tuple(map(AxisSlice, reversed(range(rank)) if self.perm is None else self.perm))

    def blocked_form(self, node: Node, operands: Sequence[Value | None], lanes: int) -> Blocked | str:
        """A transpose between channels first and channels last reads or writes the channels-first side in
        blocks.
        """
        x, y = operands[0], node.output
        assert x is not None
        rank = len(y.type.dims)
        perm = tuple(reversed(range(rank))) if self.perm is None else self.perm
        to_channels_last = perm == (0, *range(2, rank), CHANNELS)
        to_channels_first = perm == (0, rank - 1, *range(1, rank - 1))
        if to_channels_last and to_channels_first:  # with one spatial axis, both permutations are the same
            to_channels_first = not _is_flat_image(x)
        image = y if to_channels_first else x
        if not (to_channels_last or to_channels_first) or not can_be_blocked(image):
            return "it does not move the channels of images"
        if image.type.dims[CHANNELS] % lanes != 0:
            return "its channels do not fill blocks"
        return Blocked(operands=frozenset()) if image is y else Blocked(results=frozenset())

    def reference(self, x: Array) -> Array:
        return np.array(np.transpose(x, self.perm), order="C")


def in_channels_first(i: Importer, x: Value, compute: Callable[[Value], Value]) -> Value:
    """``compute``, whose operand and result are channels first, applied to the channels-last image ``x``; the
    result is channels last.
    """
    rank = rank_of(x)
    channels_first = i.emit(Transpose((0, rank - 1, *range(1, rank - 1))), x)
    y: Value = i.emit(Transpose((0, *range(2, rank), 1)), compute(channels_first))
    return y


def _is_flat_image(value: Value) -> bool:
    """Whether ``value`` is a view of an image in which the two spatial axes are merged."""
    node = value.producer
    return node is not None and Trait.VIEW in node.op.traits and node.operand(0).type.rank == 4


def _import(i: Importer) -> object:
    perm = i.attr("perm")
    return i.emit(Transpose(None if perm is None else tuple(perm)), i.input(0))


Transpose.onnx = {("Transpose", 1): _import}
Transpose.to_onnx = as_onnx("Transpose", perm="perm")
Transpose.samples = (
    Sample(Transpose((0, 2, 1)), (arg(F32, symbol("N"), 3, 4),)),
    Sample(Transpose(), (arg(F32, 2, 3, 4),)),
    Sample(Transpose((0,)), (arg(I64, 3, values=(1, 2, 3)),)),
    Sample(Transpose((1, 0)), (arg(I64, 2, 2, values=(1, 2, 3, 4)),)),
    Sample(Transpose(()), (arg(F32),)),
    Sample(Transpose((0, 0)), (arg(F32, 2, 3),), "is not a permutation of the 2 axes"),
)


def _aten_transpose(i: AtenImporter) -> Any:
    x = i.input(0)
    order = list(range(rank_of(x)))
    if order:
        a, b = i.attr("dim0", 0) % len(order), i.attr("dim1", 1) % len(order)
        order[a], order[b] = order[b], order[a]
    return i.emit(Transpose(tuple(order)), x)


def _aten_permute(i: AtenImporter) -> Any:
    x = i.input(0)
    return i.emit(Transpose(tuple(axis % rank_of(x) for axis in i.attr("dims"))), x)


Transpose.aten = {
    "permute": _aten_permute,
    "transpose.int": _aten_transpose,
    "t": lambda i: i.emit(Transpose(tuple(reversed(range(rank_of(i.input(0)))))), i.input(0)),
}
