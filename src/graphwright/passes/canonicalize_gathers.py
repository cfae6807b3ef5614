"""Turns a Gather whose constant indices rotate an axis into a Roll, which fused loads can absorb."""

from __future__ import annotations

from typing import Final

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, P, Rule, Var, always
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.roll import Roll
from graphwright.passes.rule_pass import RulePass

X: Final = Var("x")
INDICES: Final = Const("indices", where=lambda array: array.ndim == 1 and array.size > 1)
GATHERED: Final = P(Gather, X, INDICES)


def _rolled(b: Builder, m: Match) -> Value | str:
    """The Roll, if the indices enumerate the whole axis in order, starting after the first element."""
    indices, dims = m.array(INDICES), m[X].type.dims
    axis = m.op(GATHERED).axis % len(dims)
    size = dims[axis]
    if size != indices.size:
        return "the number of indices is not the size of the axis"
    first = int(indices[0]) + (size if indices[0] < 0 else 0)
    given = np.where(indices < 0, indices + size, indices)
    if first <= 0 or not np.array_equal(given, (first + np.arange(size)) % size):
        return "the indices do not rotate the axis"
    rolled: Value = b(Roll(axis, first), m[X])
    return rolled


CANONICALIZE_GATHERS = RulePass(
    "canonicalize_gathers", (Rule("Gather that rotates an axis", GATHERED, always, _rolled),)
)
"""The pass."""
