"""A rewrite rule: x / ReduceL2(x) along the last axis becomes L2Normalize, one pass instead of two."""

from l2_normalize import L2Normalize

from graphwright.ops.binary import Div
from graphwright.ops.reductions import ReduceL2
from graphwright.plugins import F32, Builder, Match, P, Rule, Value, Var, register

X = Var("x")
NORM = P(ReduceL2, X, once=True)  # once: nothing else reads it, so that it goes away


def check(m: Match) -> str | None:
    """The reason why a match is left alone, which the report shows; None where there is none."""
    x, norm = m[X].type, m.op(NORM)
    if x.dtype is not F32:
        return f"L2Normalize has a kernel for f32, not for {x.dtype}"
    if x.rank is None or norm.resolved(x.rank) != (x.rank - 1,):
        return "the norm is not along the last axis alone"
    return None if norm.keepdims else "the norm's axis is dropped"


def rewrite(b: Builder, m: Match) -> Value:
    made: Value = b(L2Normalize(epsilon=0.0), m[X])
    return made


register(Rule("normalize", P(Div, X, NORM), check, rewrite), at="imported")
