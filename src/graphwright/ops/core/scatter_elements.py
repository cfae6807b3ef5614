"""ScatterElements, and what it shares with ScatterND."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.exporter import as_onnx
from graphwright.ir.graph import Value
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
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.binary import Add
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.common import need_dtype, quiet, rank_of, same_dtype
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import INDICES
from graphwright.ops.core.gather_elements import check_elements, element_index
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unsqueeze import Unsqueeze

REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@op("ScatterElements")
class ScatterElements(Op):
    """The data with ``out[i, indices[i, j]] = updates[i, j]`` (``axis`` 1), or the ``reduction`` of both."""

    axis: int = 0
    reduction: str = "none"

    def verify(self) -> None:
        check_reduction(self.reduction)

    def infer(self, at: Inference, x: Fact, indices: Fact, updates: Fact) -> TensorType:
        need_dtype(at, indices, INDICES, "the index tensor")
        dtype = same_dtype(at, x, updates)
        check_elements(at, x, indices, self.axis)
        if updates.rank != indices.rank:
            raise at.fail(f"updates of rank {updates.rank} for indices of rank {indices.rank}")
        for axis, (a, b) in enumerate(zip(indices.shape, updates.shape, strict=True)):
            at.equal(a, b, f"axis {axis} of indices and updates")
        return TensorType(dtype, x.shape)

    @quiet
    def reference(self, x: Array, indices: Array, updates: Array) -> Array:
        return scattered(x, element_index(x, indices, self.axis), updates, self.reduction)


def check_reduction(reduction: str) -> None:
    """Refuse a reduction that is not known."""
    if reduction != "none" and reduction not in REDUCTIONS:
        raise InferError(f"reduction {reduction!r} is not one of none, {', '.join(REDUCTIONS)}")


def scattered(x: Array, where: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    """A copy of ``x`` with ``updates`` written or combined at ``where``, in order."""
    out = x.copy()
    if reduction == "none":
        out[where] = updates
    else:
        REDUCTIONS[reduction].at(out, where, updates)
    return out


def _import(i: Importer) -> object:
    scatter = ScatterElements(i.attr("axis", 0), i.attr("reduction", "none"))
    return i.emit(scatter, i.input(0), i.input(1), i.input(2))


ScatterElements.onnx = {("Scatter", 9): _import, ("ScatterElements", 11): _import}
ScatterElements.to_onnx = as_onnx("ScatterElements", axis="axis", reduction="reduction")
_TWO = arg(I64, 1, 2, values=(1, 1))
ScatterElements.samples = (
    Sample(ScatterElements(1), (arg(F32, 2, 5), arg(I64, 2, 2, values=(0, -1, 3, 1)), arg(F32, 2, 2))),
    Sample(
        ScatterElements(0, "max"),
        (arg(F32, 4, symbol("N")), arg(I64, 2, symbol("N"), fill="index"), arg(F32, 2, symbol("N"))),
    ),
    *(
        Sample(ScatterElements(1, reduction), (arg(F32, 1, 5), _TWO, arg(F32, 1, 2)))
        for reduction in REDUCTIONS
    ),
    Sample(ScatterElements(1, "mean"), (arg(F32, 1, 5), _TWO, arg(F32, 1, 2)), "reduction 'mean'"),
    Sample(ScatterElements(1), (arg(F32, 1, 5), _TWO, arg(F32, 1, 3)), "2 and 3 differ"),
    Sample(ScatterElements(1), (arg(F32, 1, 5), _TWO, arg(I64, 1, 2)), "operands of f32 and i64"),
)


def _scattered(reduction: str = "none") -> AtenImport:
    """Of ``src`` that part is taken which has the shape of the indices; a number is spread to it."""

    def convert(i: AtenImporter) -> Any:
        x, indices = i.input(0), i.input(2)
        if not rank_of(x) or not rank_of(indices):
            raise i.fail("scalars are not supported")
        updates = i.result(i.input(3))
        shape = indices.type.dims
        if not rank_of(updates):
            updates = i.emit(Expand(shape), updates)
        elif updates.type.dims != shape:
            axes = tuple(range(len(shape)))
            updates = i.emit(Slice((0,) * len(axes), shape, axes, (1,) * len(axes)), updates)
        return i.emit(ScatterElements(i.attr("dim"), reduction), x, indices, updates)

    return convert


def _combined(i: AtenImporter) -> Any:
    known = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    if i.attr("reduce") not in known or not i.attr("include_self"):
        raise i.fail(f"reduce={i.attr('reduce')} is not supported")
    return _scattered(known[i.attr("reduce")])(i)


def _copied(i: AtenImporter) -> Any:
    """Slices of ``source`` written where a vector of indices says."""
    x, indices, source = i.input(0), i.input(2), i.result(i.input(3))
    if not rank_of(x) or not rank_of(source):
        raise i.fail("scalars are not supported")
    return written_slices(i, x, i.attr("dim") % rank_of(x), indices, source)


def written_slices(
    i: AtenImporter, x: Value, axis: int, places: Value, source: Value, reduction: str = "none"
) -> Value:
    """Slices of ``source`` along ``axis`` written where a vector says: in place, where ``x`` is a state."""
    column = i.emit(Reshape((-1, *(1,) * (rank_of(x) - 1 - axis))), places)
    spread = i.emit(Expand(source.type.dims), column)
    made: Value = i.emit(ScatterElements(axis, reduction), x, spread, source)
    return made


def _slice_written(i: AtenImporter) -> Any:
    """A slice replaced by the second tensor: in place where the first is an input, or was written so."""
    x, source, step = i.input(0), i.result(i.input(1)), i.attr("step", 1)
    axis = i.attr("dim", 0) % rank_of(x)
    size, count = x.type.dims[axis], source.type.dims[axis]
    i.ignore("end")  # which follows from the size of the source
    if not isinstance(count, int):
        raise i.fail("open bounds are not supported")
    start = i.optional(3)
    known = np.zeros((), np.int64) if start is None else i.constant(3)
    if known is None or not isinstance(size, int):
        begin = i.const(np.zeros((), np.int64)) if start is None else as_dtype(i.builder, start, I64)
        places = i.emit(Add(), i.const(step * np.arange(count)), begin)
        return written_slices(i, x, axis, places, source)
    first = slice(int(known), None).indices(size)[0]
    if step != 1 or _is_kept(x):
        return written_slices(i, x, axis, i.const(first + step * np.arange(count)), source)
    before, behind = (
        i.emit(Slice((low,), (high,), (axis,), (1,)), x) for low, high in ((0, first), (first + count, size))
    )
    return i.emit(Concat(axis), before, source, behind)


def _is_kept(x: Value) -> bool:
    """Whether ``x`` is an input, or one that was written to: it may be a state."""
    while x.producer is not None and isinstance(x.producer.op, ScatterElements):
        x = x.producer.operand(0)
    return x.producer is None


def _row_written(i: AtenImporter) -> Any:
    """One slice, without its axis, replaced by the second tensor."""
    x = i.input(0)
    axis = i.attr("dim") % rank_of(x)
    place = i.emit(Reshape((1,)), as_dtype(i.builder, i.input(3), I64))
    return written_slices(i, x, axis, place, i.emit(Unsqueeze((axis,)), i.result(i.input(1))))


ScatterElements.aten = {
    "index_copy": _copied,
    "slice_scatter": _slice_written,
    "select_scatter": _row_written,
    "scatter.src": _scattered(),
    "scatter.value": _scattered(),
    "scatter_add": _scattered("add"),
    "scatter_reduce.two": _combined,
}
