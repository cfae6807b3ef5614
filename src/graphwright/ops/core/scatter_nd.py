"""ScatterND."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, AtenImporter, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.common import need_dtype, quiet, rank_of, same_dtype
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import INDICES
from graphwright.ops.core.gather_nd import index_depth, indexed_axes, refuse_no_indices
from graphwright.ops.core.scatter_elements import REDUCTIONS, check_reduction, scattered


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
    """Values are spread over what the indices name, and added to it if they are to be accumulated."""
    x, indices, values = i.input(0), i.listed(1), i.input(2)
    place, axes = indexed_axes(i, indices)
    rest = [axis for axis in range(rank_of(x)) if axis not in axes]
    if axes != list(range(len(axes))):
        raise i.fail("indices behind a whole axis are not supported")
    shape = (*place.type.dims[:-1], *(x.type.dims[axis] for axis in rest))
    spread = i.emit(Expand(shape), i.result(values))
    return i.emit(ScatterND("add" if i.attr("accumulate") else "none"), x, place, spread)


ScatterND.aten = {"index_put": _written}
