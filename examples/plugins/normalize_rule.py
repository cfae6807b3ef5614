"""A rewrite rule: x / ReduceL2(x) along the last axis becomes L2Normalize, one pass instead of two."""

from l2_normalize import L2Normalize

import graphwright.plugins as gp
from graphwright.ops.core.div import Div
from graphwright.ops.core.reductions import ReduceL2

X = gp.Var("x")
NORM = gp.P(ReduceL2, X, once=True)  # once: nothing else reads it, so it disappears


def check(m: gp.Match) -> str | None:
    """The reason against the rewrite, which the report shows, or None."""
    x, norm = m[X].type, m.op(NORM)
    if x.dtype is not gp.F32:
        return f"L2Normalize has a kernel for f32, not for {x.dtype}"
    if x.rank is None or norm.resolved(x.rank) != (x.rank - 1,):
        return "the norm is not along the last axis alone"
    return None if norm.keepdims else "the norm's axis is dropped"


def rewrite(b: gp.Builder, m: gp.Match) -> gp.Value:
    """The replacement of the match's root, here the division."""
    made: gp.Value = b(L2Normalize(epsilon=0.0), m[X])
    return made


gp.register(gp.Rule("normalize", gp.P(Div, X, NORM), check, rewrite), at="imported")
