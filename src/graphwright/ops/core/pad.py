"""Pad."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import (
    Array,
    AtenImport,
    AtenImporter,
    Fact,
    Importer,
    Inference,
    InferError,
    Op,
    Sample,
    arg,
    op,
)
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import F32, I64, STRING, TensorType
from graphwright.ops.core.aten_imports import number
from graphwright.ops.core.checks import need_sizes, rank_of, same_dtype
from graphwright.ops.core.references import zero_of
from graphwright.ops.core.size_inference import known_dims, known_ints, new_sizes, with_moved_elements

MODES = ("constant", "reflect", "edge", "wrap")


@op("Pad")
class Pad(PaddingRule, Op):
    """The input, padded by ``pads`` elements: the numbers for the begin of each axis, then those for each
    end.

    A negative number crops. ``mode`` is that of NumPy's ``pad``: constant, reflect, edge or wrap. The
    constant is the optional operand 1, by default 0 or an empty string. If ``pads`` is None, operand 1 are
    the pads, operand 2 the constant, and operand 3 the axes that are padded.
    """

    pads: tuple[Dim, ...] | None = None
    mode: str = "constant"
    optional_inputs = frozenset({1, 2, 3})

    def verify(self) -> None:
        if self.mode not in MODES:
            raise InferError(f"mode {self.mode!r} is not one of {', '.join(MODES)}")

    def fold_operands(self, x: Fact, *operands: Fact | None) -> tuple[Op, tuple[int, ...]] | None:
        if self.pads is not None or x.type.shape is None or not operands:
            return None
        pads = known_dims(operands[0])
        if pads is None:
            return None
        if len(operands) > 2 and operands[2] is not None:
            axes = known_ints(operands[2])
            if axes is None or len(pads) != 2 * len(axes):
                return None
            for axis in axes:
                if not -x.rank <= axis < x.rank:
                    raise InferError(f"axis {axis} is out of range for rank {x.rank}")
            pads = _all_axes(pads, axes, x.rank)
        has_constant = len(operands) > 1 and operands[1] is not None and self.mode == "constant"
        return Pad(pads, self.mode), (0, 2) if has_constant else (0,)

    def infer(self, at: Inference, x: Fact, *operands: Fact | None) -> TensorType | Fact:
        if self.pads is None:
            for what, fact in zip(("pads", "axes"), operands[::2], strict=False):
                need_sizes(at, fact, f"the vector of {what}")
            return TensorType(x.dtype, new_sizes(at, x.rank, "padded"))
        if len(self.pads) != 2 * x.rank:
            raise at.fail(f"{len(self.pads)} pads for {x.rank} axes: each axis needs a begin and an end")
        value = operands[0] if operands else None
        if value is not None:
            same_dtype(at, x, value)
        begins, ends = self.pads[: x.rank], self.pads[x.rank :]
        shape = tuple(d + b + e for d, b, e in zip(x.shape, begins, ends, strict=True))
        for axis, (dim, size, begin, end) in enumerate(zip(x.shape, shape, begins, ends, strict=True)):
            at.at_least(size, 0, f"size of axis {axis} of {dim} elements after padding")
            if self.mode != "constant" and (begin, end) != (0, 0):
                kept = dim + at.symbols.smaller(begin, 0) + at.symbols.smaller(end, 0)
                at.at_least(kept, 1, f"axis {axis}, whose elements mode {self.mode} repeats")
        type = TensorType(x.dtype, shape)
        return (
            type
            if value is not None
            else with_moved_elements(self, type, x, move=lambda elements: self._filled(elements, 0))
        )

    def forwarded_operand(self, gives: TensorType, x: Fact, *others: Fact | None) -> int | None:
        return 0 if self.pads is not None and not any(self.pads) else None

    def padding_leak(self, node: Node, padded: Padded) -> str:
        x = node.operand(0)
        rank = len(x.type.dims)
        for axis in range(rank):
            begin, end = (self.pads or (0,) * 2 * rank)[axis :: rank or 1]
            if padded.among(x, [axis]) and (end != 0 or self.mode not in ("constant", "edge")):
                return f"it pads the end of axis {axis}"
            if padded.holds(begin) or (padded.holds(end) and not padded.among(x, [axis])):
                return "a padding depends on sizes"
        return ""

    def reference(self, x: Array, value: Array | None = None) -> Array:
        return self._filled(x, zero_of(x) if value is None else value.reshape(()))

    def _filled(self, x: Array, value: Any) -> Array:
        assert self.pads is not None
        if x.ndim == 0:
            return np.array(x)
        pads = np.array(self.pads, dtype=object).reshape(2, x.ndim).tolist()
        begins, ends = pads
        if self.mode != "constant":
            kept = x[
                tuple(slice(max(0, -b), n + min(e, 0)) for b, e, n in zip(begins, ends, x.shape, strict=True))
            ]
            widths = [(max(b, 0), max(e, 0)) for b, e in zip(begins, ends, strict=True)]
            return np.asarray(np.pad(kept, widths, mode=self.mode))  # type: ignore[call-overload]  # one of MODES
        shape = [n + b + e for b, e, n in zip(begins, ends, x.shape, strict=True)]
        out = np.full(shape, value, x.dtype)
        starts = [max(0, -b) for b in begins]  # [start, stop) are the elements that are not cropped
        stops = [max(a, min(n, n + e)) for a, e, n in zip(starts, ends, x.shape, strict=True)]
        source = tuple(map(slice, starts, stops))
        if all(a < z for a, z in zip(starts, stops, strict=True)):
            out[tuple(slice(a + b, z + b) for a, z, b in zip(starts, stops, begins, strict=True))] = x[source]
        return out


def _all_axes(pads: tuple[Dim, ...], axes: tuple[int, ...], rank: int) -> tuple[Dim, ...]:
    """The pads of all axes, given those of ``axes``; others are 0."""
    full: list[Dim] = [0] * (2 * rank)
    for k, axis in enumerate(axes):
        full[axis % rank], full[axis % rank + rank] = pads[k], pads[k + len(axes)]
    return tuple(full)


def _from_attributes(i: Importer) -> Any:
    x, mode, value = i.input(0), i.attr("mode", "constant"), i.attr("value", 0.0)
    padding = Pad(tuple(i.required_attr("pads")), mode)
    if value == 0 or mode != "constant":
        return i.emit(padding, x)
    return i.emit(padding, x, i.const(np.array(value, dtype=x.type.dtype.numpy)))


def _export(e: Exporter, op: Pad, x: Value, *operands: Value | None) -> Any:
    given: Any = operands if op.pads is None else (e.sizes(op.pads), *operands)
    return e.emit("Pad", x, *given, mode=op.mode)


Pad.to_onnx = _export
Pad.onnx = {
    ("Pad", 2): _from_attributes,
    ("Pad", 11): lambda i: i.emit(Pad(mode=i.attr("mode", "constant")), *i.inputs()),
}
_PADS = arg(I64, 2, values=(1, 2))
Pad.samples = (
    Sample(Pad((1, 0, 2, 3)), (arg(F32, symbol("N"), 3),)),
    Sample(Pad((1, -1, 2, -1)), (arg(F32, 2, 3), arg(F32))),
    *(Sample(Pad((2, 1, 1, 1), mode), (arg(F32, 3, 4),)) for mode in MODES),
    Sample(Pad((0, 4, -1, 0), "wrap"), (arg(F32, 3, 3),)),
    Sample(Pad(), (arg(F32, 2, 3), _PADS, None, arg(I64, 1, values=(-1,)))),
    Sample(Pad(), (arg(F32, 2), _PADS, arg(F32))),
    Sample(Pad((1, 0)), (arg(I64, 2, values=(4, 5)),)),
    Sample(Pad((1, 0)), (arg(STRING, 2),)),
    Sample(Pad((1, 1)), (arg(F32, 2, 3),), "2 pads for 2 axes"),
    Sample(Pad((-1, -2)), (arg(F32, 2),), "after padding: -1 is less than 0"),
    Sample(Pad((1, 1), "mirror"), (arg(F32, 2),), "mode 'mirror'"),
    Sample(Pad((1, 1), "edge"), (arg(F32, 0),), "whose elements mode edge repeats"),
    Sample(Pad((1, 1)), (arg(F32, 2), arg(I64)), "operands of f32 and i64"),
    Sample(Pad(), (arg(F32, 4, 3), arg(F32, 4)), "the vector of pads is f32; it must be i32 or i64"),
)


def _aten_pad(mode: str) -> AtenImport:
    """PyTorch's pads are pairs of begin and end, the last axis first."""

    def convert(i: AtenImporter) -> Any:
        x, pairs = i.input(0), i.attr("pad" if mode == "constant" else "padding")
        pads: list[Dim] = [0] * (2 * rank_of(x))
        for k in range(len(pairs) // 2):
            pads[rank_of(x) - 1 - k], pads[-1 - k] = pairs[2 * k], pairs[2 * k + 1]
        value = i.attr("value") if mode == "constant" else 0
        filler = [number(i, value, x)] if value else []
        return i.emit(Pad(tuple(pads), mode), x, *filler)

    return convert


Pad.aten = {
    "constant_pad_nd": _aten_pad("constant"),
    **{f"reflection_pad{n}d": _aten_pad("reflect") for n in (1, 2, 3)},
    **{f"replication_pad{n}d": _aten_pad("edge") for n in (1, 2, 3)},
}
