"""ScatterElements, and helpers that it shares with ScatterND."""

from __future__ import annotations

from typing import Any

import numpy as np

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
from graphwright.ops.core.assign_slice import assign_slice
from graphwright.ops.core.binary import Add
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import need_dtype, rank_of, same_dtype
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import INDICES, exported_with_axis, require_sign
from graphwright.ops.core.gather_elements import check_elements, element_index
from graphwright.ops.core.references import quiet
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unsqueeze import Unsqueeze

REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@op("ScatterElements")
class ScatterElements(Op):
    """A copy of ``x`` with elements replaced along ``axis``: for ``axis`` 1, ``out[i, indices[i, j]] =
    updates[i, j]``.

    A ``reduction`` (add, mul, max or min) combines the old element with the update. Indices and updates have
    the same shape; indices follow the rules of GatherElements.
    """

    axis: int = 0
    reduction: str = "none"
    from_end: bool = True

    def verify(self) -> None:
        check_reduction(self.reduction)

    def infer(self, at: Inference, x: Fact, indices: Fact, updates: Fact) -> TensorType:
        need_dtype(at, indices, INDICES, "the index tensor")
        dtype = same_dtype(at, x, updates)
        check_elements(at, x, indices, self.axis, self.from_end)
        if updates.rank != indices.rank:
            raise at.fail(
                f"updates of rank {updates.rank} for indices of rank {indices.rank}: the ranks must be equal"
            )
        for axis, (a, b) in enumerate(zip(indices.shape, updates.shape, strict=True)):
            at.equal(a, b, f"axis {axis} of indices and updates")
        return TensorType(dtype, x.shape)

    @quiet
    def reference(self, x: Array, indices: Array, updates: Array) -> Array:
        require_sign(indices, self.from_end)
        return scattered(x, element_index(x, indices, self.axis), updates, self.reduction)


def check_reduction(reduction: str) -> None:
    """Raises InferError unless ``reduction`` is none or one of REDUCTIONS."""
    if reduction != "none" and reduction not in REDUCTIONS:
        raise InferError(f"reduction {reduction!r} is not one of none, {', '.join(REDUCTIONS)}")


def scattered(x: Array, where: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    """A copy of ``x`` with ``updates`` written or combined at the NumPy index ``where``, in order."""
    out = x.copy()
    if reduction == "none":
        out[where] = updates
    else:
        REDUCTIONS[reduction].at(out, where, updates)
    return out


def _import(i: Importer) -> object:
    op = ScatterElements(i.attr("axis", 0), i.attr("reduction", "none"))
    return i.emit(op, i.input(0), i.input(1), i.input(2))


ScatterElements.onnx = {("Scatter", 9): _import, ("ScatterElements", 11): _import}
ScatterElements.to_onnx = exported_with_axis("ScatterElements", "reduction")
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
    Sample(ScatterElements(1, from_end=False), (arg(F32, 1, 5), _TWO, arg(F32, 1, 2))),
    Sample(
        ScatterElements(1, from_end=False),
        (arg(F32, 1, 5), arg(I64, 1, 1, values=(-1,)), arg(F32, 1, 1)),
        "index -1 is outside axis 1 of 5",
    ),
    Sample(ScatterElements(1, "mean"), (arg(F32, 1, 5), _TWO, arg(F32, 1, 2)), "reduction 'mean'"),
    Sample(ScatterElements(1), (arg(F32, 1, 5), _TWO, arg(F32, 1, 3)), "2 and 3 differ"),
    Sample(ScatterElements(1), (arg(F32, 1, 5), _TWO, arg(I64, 1, 2)), "operands of f32 and i64"),
)


def _aten_scatter(reduction: str = "none") -> AtenImport:
    """The updates are the leading part of ``src`` that has the shape of the indices; a scalar is expanded to
    it.
    """

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
        return i.emit(ScatterElements(i.attr("dim"), reduction, from_end=False), x, indices, updates)

    return convert


def _aten_scatter_reduce(i: AtenImporter) -> Any:
    reductions = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    reduce, include_self = i.attr("reduce"), bool(i.attr("include_self"))
    if reduce not in reductions or not include_self:
        raise i.fail(f"reduce={reduce} with include_self={include_self} is not supported")
    return _aten_scatter(reductions[reduce])(i)


def _aten_index_copy(i: AtenImporter) -> Any:
    """Writes the slices of ``source`` at the positions in a vector of indices."""
    x, indices, source = i.input(0), i.input(2), i.result(i.input(3))
    if not rank_of(x) or not rank_of(source):
        raise i.fail("scalars are not supported")
    return write_slices(i, x, i.attr("dim") % rank_of(x), indices, source, from_end=False)


def write_slices(
    i: AtenImporter,
    x: Value,
    axis: int,
    positions: Value,
    source: Value,
    reduction: str = "none",
    from_end: bool = True,
) -> Value:
    """``x`` with the slices of ``source`` along ``axis`` written at a vector of positions. A ScatterElements,
    which runs in place if ``x`` is a state.
    """
    column = i.emit(Reshape((-1, *(1,) * (rank_of(x) - 1 - axis))), positions)
    indices = i.emit(Expand(source.type.dims), column)
    written: Value = i.emit(ScatterElements(axis, reduction, from_end), x, indices, source)
    return written


def _aten_slice_scatter(i: AtenImporter) -> Any:
    """Replaces a slice of operand 0 by operand 1: with a scatter if operand 0 may be a state, which it
    updates in place; otherwise with a concatenation.
    """
    x, source, step = i.input(0), i.result(i.input(1)), i.attr("step", 1)
    axis = i.attr("dim", 0) % rank_of(x)
    size, count = x.type.dims[axis], source.type.dims[axis]
    i.ignore("end")  # it follows from the size of the source
    if not isinstance(count, int):
        raise i.fail("slices of dynamic size are not supported")
    start = i.optional(3)
    known_start = np.zeros((), np.int64) if start is None else i.constant(3)
    if known_start is None or not isinstance(size, int):
        first = i.const(np.zeros((), np.int64)) if start is None else as_dtype(i.builder, start, I64)
        positions = i.emit(Add(), i.const(step * np.arange(count)), first)
        return write_slices(i, x, axis, positions, source)
    begin = slice(int(known_start), None).indices(size)[0]
    if step != 1 or _may_be_state(x):
        return write_slices(i, x, axis, i.const(begin + step * np.arange(count)), source)
    return assign_slice(i.builder, x, source, {axis: begin})


def _may_be_state(x: Value) -> bool:
    """Whether ``x`` is an input of the graph, possibly after scatters."""
    while x.producer is not None and isinstance(x.producer.op, ScatterElements):
        x = x.producer.operand(0)
    return x.producer is None


def _aten_select_scatter(i: AtenImporter) -> Any:
    """Replaces the slice at one index by operand 1, which does not have this axis."""
    x = i.input(0)
    axis = i.attr("dim") % rank_of(x)
    position = i.emit(Reshape((1,)), as_dtype(i.builder, i.input(3), I64))
    return write_slices(i, x, axis, position, i.emit(Unsqueeze((axis,)), i.result(i.input(1))))


ScatterElements.aten = {
    "index_copy": _aten_index_copy,
    "slice_scatter": _aten_slice_scatter,
    "select_scatter": _aten_select_scatter,
    "scatter.src": _aten_scatter(),
    "scatter.value": _aten_scatter(),
    "scatter_add": _aten_scatter("add"),
    "scatter_reduce.two": _aten_scatter_reduce,
}
