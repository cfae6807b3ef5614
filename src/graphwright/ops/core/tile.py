"""Tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.op import Array, AtenImporter, Fact, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, numbers, symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.checks import need_sizes, rank_of
from graphwright.ops.core.imports import simple
from graphwright.ops.core.size_inference import known_dims, known_parts, with_moved_elements
from graphwright.ops.core.unsqueeze import Unsqueeze


@op("Tile")
class Tile(Op):
    """The input repeated ``repeats[k]`` times along each axis ``k``. ``repeats`` None is operand 1."""

    repeats: tuple[Dim, ...] | None = None
    traits = Trait.COPY

    def fold_operands(self, x: Fact, repeats: Fact | None = None) -> tuple[Op, tuple[int, ...]] | None:
        known = known_dims(repeats)
        return None if self.repeats is not None or known is None else (Tile(known), (0,))

    def infer(self, at: Inference, x: Fact, repeats: Fact | None = None) -> TensorType | Fact:
        if self.repeats is None:
            need_sizes(at, repeats, "the vector of repeats")
            return TensorType(x.dtype, _open_copies(at, x.shape, known_parts(repeats)))
        if len(self.repeats) != x.rank:
            raise at.fail(f"{len(self.repeats)} repeats for {x.rank} axes")
        shape = tuple(d * r for d, r in zip(x.shape, self.repeats, strict=True))
        return with_moved_elements(self, TensorType(x.dtype, shape), x)

    def forwarded_operand(self, gives: TensorType, x: Fact, *others: Fact | None) -> int | None:
        return 0 if gives == x.type else None

    def reference(self, x: Array) -> Array:
        repeats = numbers(self.repeats or ())
        if 0 in (*repeats, *x.shape):  # np.tile would first repeat the other axes, and need memory
            return np.zeros([n * r for n, r in zip(x.shape, repeats, strict=True)], x.dtype)
        return np.array(np.tile(x, repeats))


def _open_copies(at: Inference, dims: Sequence[Dim], parts: Sequence[Dim | None]) -> tuple[Dim, ...]:
    """The sizes of the result, with a new symbol for each axis whose number of repetitions is unknown."""
    if len(parts) != len(dims):
        raise at.fail(f"{len(parts)} repeats for {len(dims)} axes")
    return tuple(
        at.symbols.fresh("tiled") if n is None else dim * n for dim, n in zip(dims, parts, strict=True)
    )


Tile.onnx = {("Tile", 6): simple(Tile)}
Tile.to_onnx = as_onnx("Tile", operand="repeats")
Tile.samples = (
    Sample(Tile((2, 3)), (arg(F32, 2, symbol("N")),)),
    Sample(Tile((0, 1)), (arg(F32, 2, 3),)),
    Sample(Tile(), (arg(F32, 2, 3), arg(I64, 2, values=(1, 2)))),
    Sample(Tile((3,)), (arg(I64, 2, values=(4, 5)),)),
    Sample(Tile((2,)), (arg(F32, 2, 3),), "1 repeats for 2 axes"),
    Sample(Tile((-1,)), (arg(F32, 2),), "negative size"),
    Sample(Tile((-1,)), (arg(I64, 2, values=(4, 5)),), "negative size"),
    Sample(Tile(), (arg(F32, 2, 3), arg(F32, 2)), "the vector of repeats is f32; it must be i32 or i64"),
)


def _aten_repeat(i: AtenImporter) -> Any:
    """``repeats`` may be longer than the shape, which then gets leading axes of size 1."""
    x, repeats = i.input(0), tuple(i.attr("repeats"))
    new = len(repeats) - rank_of(x)
    return i.emit(Tile(repeats), i.emit(Unsqueeze(tuple(range(new))), x) if new else x)


Tile.aten = {"repeat": _aten_repeat}
