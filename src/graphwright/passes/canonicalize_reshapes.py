"""Merges a view of a view into one Reshape of the original value."""

from __future__ import annotations

from graphwright.ir.build import Builder
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Value
from graphwright.ir.match import Match, P, Rest, Rule, Var
from graphwright.ir.op import Op, Trait
from graphwright.ir.symbols import product
from graphwright.ops.core.reshape import reshaped
from graphwright.passes.rule_pass import RulePass

X = Var("x")


def _is_view(op: Op) -> bool:
    return Trait.VIEW in op.traits


OUTER = P(Op, INNER := P(Op, X, Rest(), where=_is_view), Rest(), where=_is_view)


def _same_bytes(m: Match) -> str | None:
    """None if one Reshape with a known target shape can replace both views."""
    source, target = m[X].type, m.root.output.type
    if source.shape is None or target.shape is None:
        return "a rank is not known"
    between = m.node(INNER).output.type
    if not source.dtype == between.dtype == target.dtype:
        return "the dtype changes in between"
    computed = symbols_in(view.output.type for view in (m.root, m.node(INNER)) if len(view.inputs) > 1)
    if not symbols_in([target]).isdisjoint(computed - symbols_in([source])):
        return "the elements of an operand determine sizes of the result"
    if len(m.root.outputs) > 1 or len(m.node(INNER).outputs) > 1:
        return "a view has several outputs"
    if source != target and not m.module.symbols.proves_equal(product(source.shape), product(target.shape)):
        return f"{source} and {target} are not proved to have the same number of elements"
    return None


def _one_view(b: Builder, m: Match) -> Value:
    return reshaped(b, m[X], m.root.output.type.dims)


CANONICALIZE_RESHAPES = RulePass(
    "canonicalize_reshapes", (Rule("view of a view", OUTER, _same_bytes, _one_view),)
)
"""The pass."""
