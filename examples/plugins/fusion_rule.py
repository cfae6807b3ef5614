"""A fusion rule: keeps tanh out of the epilogues of matrix multiplications and convolutions."""

import graphwright.plugins as gp
from graphwright.ops.core.unary import Tanh


def is_about(candidate: gp.Candidate) -> bool:
    """Whether a contraction would compute a tanh in its epilogue."""
    has_tanh = any(isinstance(node.op, Tanh) for node in candidate.consumer.nodes)
    return candidate.anchor is not None and has_tanh


def check(candidate: gp.Candidate) -> str | None:
    """The reason against the merge, or None to allow it."""
    return "tanh is computed in a loop of its own" if len(candidate.nodes) > 1 else None


gp.register_fusion_rules(gp.FusionRule("tanh_apart", "keeps tanh out of epilogues", is_about, check))
