"""Turns a Gather whose constant indices rotate an axis into a Roll, which fused loads can absorb."""

from __future__ import annotations

from typing import Final

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, P, Rule, Var
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.roll import Roll
from graphwright.passes.base import RulePass

X: Final = Var("x")
INDICES: Final = Const("indices", where=lambda array: array.ndim == 1 and array.size > 1)
GATHERED: Final = P(Gather, X, INDICES)


def _rotates(m: Match) -> str | None:
    """None if the indices enumerate the whole axis in order, starting after the first element."""
    indices, dims = m.array(INDICES), m[X].type.shape
    size = None if dims is None else dims[_axis(m)]
    if size != indices.size:
        return "the number of indices is not the size of the axis"
    first = int(indices[0]) + (size if indices[0] < 0 else 0)
    wanted = (first + np.arange(size)) % size
    given = np.where(indices < 0, indices + size, indices)
    return None if first > 0 and np.array_equal(given, wanted) else "the indices do not rotate the axis"


def _rolled(b: Builder, m: Match) -> Value:
    indices = m.array(INDICES)
    rolled: Value = b(Roll(_axis(m), int(indices[0]) % indices.size), m[X])
    return rolled


def _axis(m: Match) -> int:
    axis: int = m.op(GATHERED).axis
    return axis % len(m[X].type.dims)


CANONICALIZE_GATHERS = RulePass(
    "canonicalize_gathers", (Rule("Gather that rotates an axis", GATHERED, _rotates, _rolled),)
)
"""The pass."""
