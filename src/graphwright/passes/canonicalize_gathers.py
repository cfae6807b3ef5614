"""A Gather whose constant indices go around an axis is a Roll, which loads of other nodes can take over."""

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


def _goes_around(m: Match) -> str | None:
    """None where the indices are all of an axis, in order, from one that is not the first."""
    indices, dims = m.array(INDICES), m[X].type.shape
    size = None if dims is None else dims[_axis(m)]
    if size != indices.size:
        return "the indices are not as many as the elements of the axis"
    first = int(indices[0]) + (size if indices[0] < 0 else 0)
    wanted = (first + np.arange(size)) % size
    given = np.where(indices < 0, indices + size, indices)
    return None if first > 0 and np.array_equal(given, wanted) else "the indices do not go around the axis"


def _rolled(b: Builder, m: Match) -> Value:
    indices = m.array(INDICES)
    made: Value = b(Roll(_axis(m), int(indices[0]) % indices.size), m[X])
    return made


def _axis(m: Match) -> int:
    axis: int = m.op(GATHERED).axis
    return axis % len(m[X].type.dims)


CANONICALIZE_GATHERS = RulePass(
    "canonicalize_gathers", (Rule("Gather around an axis", GATHERED, _goes_around, _rolled),)
)
"""The pass."""
