"""ScatterND."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.exporter import as_onnx
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, AtenImporter, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F32, I64, TensorType
from graphwright.ops.core.binary import Where
from graphwright.ops.core.common import need_dtype, quiet, rank_of, same_dtype
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import INDICES
from graphwright.ops.core.gather_nd import index_depth, indexed_axes, refuse_no_indices
from graphwright.ops.core.scatter_elements import REDUCTIONS, check_reduction, scattered, written_slices
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unsqueeze import Unsqueeze


@op("ScatterND")
class ScatterND(Op):
    """The data with slices, one for each row of the indices, replaced or combined by ``reduction``."""

    reduction: str = "none"

    def verify(self) -> None:
        check_reduction(self.reduction)

    def infer(self, at: Inference, x: Fact, indices: Fact, updates: Fact) -> TensorType:
        need_dtype(at, indices, INDICES, "the index tensor")
        dtype = same_dtype(at, x, updates)
        depth = index_depth(at, indices, x.rank)
        wanted = (*indices.shape[:-1], *x.shape[depth:])
        if updates.rank != len(wanted):
            raise at.fail(
                f"updates of rank {updates.rank}; with these indices the rank must be {len(wanted)}"
            )
        for axis, (a, b) in enumerate(zip(wanted, updates.shape, strict=True)):
            at.equal(a, b, f"axis {axis} of the updates")
        return TensorType(dtype, x.shape)

    @quiet
    def reference(self, x: Array, indices: Array, updates: Array) -> Array:
        refuse_no_indices(indices)
        return scattered(x, tuple(np.moveaxis(indices, -1, 0)), updates, self.reduction)


def _import(i: Importer) -> object:
    return i.emit(ScatterND(i.attr("reduction", "none")), i.input(0), i.input(1), i.input(2))


ScatterND.onnx = {("ScatterND", 11): _import}
ScatterND.to_onnx = as_onnx("ScatterND", reduction="reduction")
_ROWS = arg(I64, 2, 1, values=(1, -1))
ScatterND.samples = (
    Sample(ScatterND(), (arg(F32, 4, 3), _ROWS, arg(F32, 2, 3))),
    Sample(ScatterND(), (arg(F32, 4, symbol("N")), _ROWS, arg(F32, 2, symbol("N")))),
    Sample(ScatterND(), (arg(F32, 4, 3), arg(I64, 1, 2, 2, values=(0, 1, 2, 2)), arg(F32, 1, 2))),
    *(
        Sample(ScatterND(reduction), (arg(F32, 3), arg(I64, 3, 1, values=(1, 1, 0)), arg(F32, 3)))
        for reduction in REDUCTIONS
    ),
    Sample(ScatterND(), (arg(F32, 4, 3), _ROWS, arg(F32, 2, 4)), "axis 1 of the updates: 3 and 4 differ"),
    Sample(ScatterND(), (arg(F32, 4, 3), _ROWS, arg(F32, 2)), "with these indices the rank must be 2"),
    Sample(ScatterND("sum"), (arg(F32, 4, 3), _ROWS, arg(F32, 2, 3)), "reduction 'sum'"),
)


def _written(i: AtenImporter) -> Any:
    """Values are spread over what the indices name, and added to it if they are to be accumulated. Axes of
    the index tensors stand in the values as in a result of ``index``.
    """
    x, indices, reduction = i.input(0), i.listed(1), "add" if i.attr("accumulate") else "none"
    given = [index for index in indices if index is not None]
    values = i.result(i.input(2))
    if len(given) == 1 and given[0].type.dtype == BOOL and not values.type.rank and reduction == "none":
        return _filled(i, x, indices, given[0], values)
    if len(given) == 1 and given[0].type.rank == 1 and given[0].type.dtype in INDICES:
        return _written_slices(i, x, len(indices) - 1, given[0], values, reduction)
    place, axes = indexed_axes(i, indices)
    rest = [axis for axis in range(rank_of(x)) if axis not in axes]
    new, whole = list(place.type.dims[:-1]), [x.type.dims[axis] for axis in rest]
    at = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    spread = i.emit(Expand((*whole[:at], *new, *whole[at:])), values)
    moved = (*range(at, at + len(new)), *range(at), *range(at + len(new), len(new) + len(whole)))
    order = (*axes, *rest)
    front = i.emit(Transpose(order), x)
    made = i.emit(ScatterND(reduction), front, place, i.emit(Transpose(moved), spread))
    return i.emit(Transpose(tuple(map(int, np.argsort(order)))), made)


def _filled(i: AtenImporter, x: Value, indices: Sequence[Value | None], mask: Value, number: Value) -> Any:
    """One number where a mask holds, which stands for as many axes as it has."""
    behind = rank_of(x) - (len(indices) - 1) - rank_of(mask)
    axes = tuple(range(rank_of(mask), rank_of(mask) + behind))
    return i.emit(Where(), i.emit(Unsqueeze(axes), mask) if axes else mask, number, x)


def _written_slices(
    i: AtenImporter, x: Value, axis: int, places: Value, values: Value, reduction: str
) -> Any:
    """Slices along ``axis`` written where a vector says."""
    dims = x.type.dims
    spread = i.emit(Expand((*dims[:axis], places.type.dims[0], *dims[axis + 1 :])), values)
    return written_slices(i, x, axis, places, spread, reduction)


ScatterND.aten = {"index_put": _written}
