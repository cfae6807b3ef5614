"""ScatterElements, and what it shares with ScatterND."""

from __future__ import annotations

from typing import Any

import numpy as np

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
from graphwright.ops.core.common import need_dtype, quiet, rank_of, same_dtype
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import INDICES
from graphwright.ops.core.gather_elements import check_elements, element_index
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.slice import Slice

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
    axis = i.attr("dim") % rank_of(x)
    column = i.emit(Reshape((-1, *(1,) * (rank_of(x) - 1 - axis))), indices)
    return i.emit(ScatterElements(axis), x, i.emit(Expand(source.type.dims), column), source)


ScatterElements.aten = {
    "index_copy": _copied,
    "scatter.src": _scattered(),
    "scatter.value": _scattered(),
    "scatter_add": _scattered("add"),
    "scatter_reduce.two": _combined,
}
