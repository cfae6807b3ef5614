"""Transpose."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.exporter import as_onnx
from graphwright.ir.graph import Node
from graphwright.ir.moved_axes import Along, MovesAxes
from graphwright.ir.op import Array, AtenImporter, Fact, Importer, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.padding import Padded, PaddingRule
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.common import rank_of
from graphwright.ops.core.shaping import carried


@op("Transpose")
class Transpose(MovesAxes, PaddingRule, Op):
    """Axis ``k`` of the result is axis ``perm[k]`` of the input; None reverses the axes."""

    perm: tuple[int, ...] | None = None
    traits = Trait.COPY

    def infer(self, at: Inference, x: Fact) -> TensorType | Fact:
        perm = tuple(reversed(range(x.rank))) if self.perm is None else self.perm
        if sorted(perm) != list(range(x.rank)):
            raise at.fail(f"{list(perm)} is not a permutation of the {x.rank} axes of the input")
        return carried(self, TensorType(x.dtype, tuple(x.shape[axis] for axis in perm)), x)

    def forwarded_operand(self, gives: TensorType, x: Fact) -> int | None:
        return 0 if self.perm == tuple(range(x.rank)) or x.rank < 2 else None

    def padding_leak(self, node: Node, padded: Padded) -> str:
        return ""  # elements behind the true ones stay behind them

    def moved_axes(self, node: Node) -> tuple[Along, ...] | str:
        rank = len(node.output.type.dims)
        return tuple(map(Along, reversed(range(rank)) if self.perm is None else self.perm))

    def reference(self, x: Array) -> Array:
        return np.array(np.transpose(x, self.perm), order="C")


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


def _swapped(i: AtenImporter) -> Any:
    x = i.input(0)
    order = list(range(rank_of(x)))
    if order:
        a, b = i.attr("dim0", 0) % len(order), i.attr("dim1", 1) % len(order)
        order[a], order[b] = order[b], order[a]
    return i.emit(Transpose(tuple(order)), x)


def _permuted(i: AtenImporter) -> Any:
    x = i.input(0)
    return i.emit(Transpose(tuple(axis % rank_of(x) for axis in i.attr("dims"))), x)


Transpose.aten = {
    "permute": _permuted,
    "transpose.int": _swapped,
    "t": lambda i: i.emit(Transpose(tuple(reversed(range(rank_of(i.input(0)))))), i.input(0)),
}
