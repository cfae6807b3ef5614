"""Turns a ScatterND that assigns a slice into a concatenation. If the slice is the whole tensor, its updates
replace it.

PyTorch exports ``x[:, 1:] = y`` with an index tuple for each element: positions along each axis, expanded to
the shape of ``y`` and concatenated. Reading these takes longer than copying the slice.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Module, Value
from graphwright.ir.match import Match, P, Rule, Var, always, constant_array
from graphwright.ops.core.assign_slice import assign_slice
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.scatter_nd import ScatterND
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.passes.rule_pass import RulePass

Array = np.ndarray[Any, Any]
LEAST_SHARE: Final = 4
"""Slices with fewer than one in this many elements stay: a scatter may write them in place."""

X, INDICES, UPDATES = Var("x"), Var("indices"), Var("updates")
SCATTERED: Final = P(ScatterND, X, INDICES, UPDATES, where=lambda op: op.reduction == "none")


def _assigned(b: Builder, m: Match) -> Value | str:
    if not all(isinstance(dim, int) for key in (X, INDICES, UPDATES) for dim in m[key].type.dims):
        return "sizes are dynamic"
    if math.prod(m[UPDATES].type.sizes) * LEAST_SHARE < math.prod(m[X].type.sizes):
        return "the slice is small"
    if (starts := _starts(m)) is None:
        return "the indices do not enumerate a slice"
    return assign_slice(b, m[X], m[UPDATES], dict(enumerate(starts)))


def _starts(m: Match) -> list[int] | None:
    """The first position of the slice along each indexed axis; None if the indices do not enumerate a
    slice.
    """
    *counts, depth = m[INDICES].type.sizes
    columns = _columns(m[INDICES], m.module)
    if depth != len(counts) or len(columns) != depth:
        return None
    starts = []
    for axis, (positions, count, size) in enumerate(zip(columns, counts, m[X].type.sizes, strict=False)):
        if positions.min() < -size or positions.max() >= size:
            return None
        first = int(positions.flat[0]) % size
        wanted = (first + np.arange(count)).reshape(-1, *(1,) * (depth - 1 - axis))
        if positions.shape[axis] != count or not (positions % size == wanted).all():
            return None
        starts.append(first)
    return starts


def _columns(indices: Value, module: Module) -> list[Array]:
    """For each axis, the positions along it in the index tuples. Where an Expand repeats positions along an
    axis, the array has size 1 there. Empty if positions are computed, or if there are none.
    """
    source, last = indices.producer, len(indices.type.dims) - 1
    parts = [indices]
    if source is not None and isinstance(source.op, Concat) and source.op.axis % (last + 1) == last:
        parts = [value for value in source.inputs if value is not None]
    arrays = [_before_expand(value, module) for value in parts]
    known = [array for array in arrays if array is not None and array.size]
    if len(known) < len(arrays):
        return []
    return [column for array in known for column in np.moveaxis(array, -1, 0)]


def _before_expand(value: Value, module: Module) -> Array | None:
    """The elements of ``value`` if it is an expanded constant, with size 1 along the axes that an Expand
    repeats.
    """
    source = value.producer
    if source is None or not isinstance(source.op, Expand | Unsqueeze):
        return constant_array(value, module)
    array = _before_expand(source.operand(0), module)
    if array is None or len(source.inputs) > 1:
        return None
    if isinstance(source.op, Unsqueeze):
        return np.expand_dims(array, source.op.axes or ())
    return array.reshape(*(1,) * (len(value.type.dims) - array.ndim), *array.shape)


CANONICALIZE_SCATTERS = RulePass(
    "canonicalize_scatters", (Rule("ScatterND that assigns a slice", SCATTERED, always, _assigned),)
)
"""The pass."""
