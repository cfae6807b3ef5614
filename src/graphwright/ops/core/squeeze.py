"""Squeeze."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import (
    Array,
    AtenImporter,
    Fact,
    Importer,
    Inference,
    Op,
    Sample,
    Trait,
    UnknownRank,
    arg,
    op,
)
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.checks import rank_of, resolve_axes
from graphwright.ops.core.references import positive_axes
from graphwright.ops.core.size_inference import known_ints, with_moved_elements


@op("Squeeze")
class Squeeze(Op):
    """Removes axes of size 1: ``axes`` (operand 1 if None), or with ``every`` all axes of size 1."""

    axes: tuple[int, ...] | None = None
    every: bool = False
    traits = Trait.VIEW

    def fold_operands(self, x: Fact, axes: Fact | None = None) -> tuple[Op, tuple[int, ...]] | None:
        if self.every:
            return (Squeeze(_ones(x.shape)), (0,)) if x.type.is_static else None
        known = known_ints(axes)
        return None if self.axes is not None or known is None else (Squeeze(known), (0,))

    def infer(self, at: Inference, x: Fact, axes: Fact | None = None) -> TensorType | Fact:
        if self.every:
            return self._infer_every(at, x)
        if self.axes is None:
            raise UnknownRank
        if self.axes and not x.rank:
            raise at.fail("a scalar has no axis to squeeze")
        removed = resolve_axes(at, self.axes, x.rank)
        for axis in removed:
            at.equal(x.shape[axis], 1, f"axis {axis} is squeezed")
        kept = tuple(d for axis, d in enumerate(x.shape) if axis not in removed)
        return with_moved_elements(self, TensorType(x.dtype, kept), x)

    def _infer_every(self, at: Inference, x: Fact) -> TensorType | Fact:
        """A symbolic size is constrained to differ from 1; if that is not possible, the rank is unknown."""
        removed = _ones(x.shape)
        kept = tuple(dim for axis, dim in enumerate(x.shape) if axis not in removed)
        if not all([at.differs(dim, 1) for dim in kept]):
            return TensorType(x.dtype, None)
        return with_moved_elements(Squeeze(removed), TensorType(x.dtype, kept), x)

    def reference(self, x: Array) -> Array:
        return np.squeeze(x, _ones(x.shape) if self.every else positive_axes(self.axes, x.ndim))


def _ones(shape: Sequence[Dim]) -> tuple[int, ...]:
    """The axes of size 1."""
    return tuple(axis for axis, dim in enumerate(shape) if dim == 1)


def _from_attribute(i: Importer) -> Any:
    axes = i.attr("axes")
    return i.emit(Squeeze(every=True) if axes is None else Squeeze(tuple(axes)), i.input(0))


def _from_operand(i: Importer) -> Any:
    axes = i.optional(1)
    return i.emit(Squeeze(every=True), i.input(0)) if axes is None else i.emit(Squeeze(), i.input(0), axes)


Squeeze.onnx = {("Squeeze", 1): _from_attribute, ("Squeeze", 13): _from_operand}


def _export(e: Exporter, op: Squeeze, x: Value, *axes: Value) -> Any:
    """No axes are exported as Identity: engines differ on the meaning of an empty list of axes."""
    if op.axes == ():
        return e.emit("Identity", x)
    given: Any = axes if op.axes is None else (e.sizes(op.axes),)
    return e.emit("Squeeze", x, *given)


Squeeze.to_onnx = _export
Squeeze.samples = (
    Sample(Squeeze((0, -1)), (arg(F32, 1, 3, 1),)),
    Sample(Squeeze(every=True), (arg(F32, 1, 3, 1, symbol("N")),)),
    Sample(Squeeze(), (arg(F32, 1, 3), arg(I64, 1, values=(0,)))),
    Sample(Squeeze((0,)), (arg(I64, 1, values=(7,)),)),
    Sample(Squeeze(()), (arg(F32, 1, 3),)),
    Sample(Squeeze((1,)), (arg(F32, 1, 3),), "axis 1 is squeezed: 3 and 1 differ"),
    Sample(Squeeze((2,)), (arg(F32, 1, 3),), "axis 2 is out of range for rank 2"),
)


def _aten_squeeze(i: AtenImporter, axes: Sequence[int]) -> Any:
    """Removes those of ``axes`` whose size PyTorch proves to be 1, which it can for more symbolic sizes than
    this algebra.
    """
    x = i.input(0)
    dims = x.type.dims
    counted = {axis % len(dims) for axis in axes} if dims else set()
    ones = sorted(axis for axis in counted if dims[axis] == 1)
    if len(dims) - len(ones) > len(i.results[0].dims):
        ones = sorted(axis for axis in counted if dims[axis] == 1 or not isinstance(dims[axis], int))
    return i.emit(Squeeze(tuple(ones)), x) if ones else x


Squeeze.aten = {
    "squeeze": lambda i: _aten_squeeze(i, range(rank_of(i.input(0)))),
    "squeeze.dim": lambda i: _aten_squeeze(i, (i.attr("dim"),)),
    "squeeze.dims": lambda i: _aten_squeeze(i, i.attr("dim")),
}
