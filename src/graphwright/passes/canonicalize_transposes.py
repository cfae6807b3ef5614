"""Removes transposes: merges chains, cancels pairs around elementwise ops, and turns moves of size-1 axes
into reshapes.
"""

from __future__ import annotations

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.match import Match, P, Rule, Var, always, constant_array, used_once
from graphwright.ir.op import Trait
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.transpose import Transpose
from graphwright.passes.rule_pass import RulePass

Permutation = tuple[int, ...]
X = Var("x")
ALONE = P(Transpose, X)
OUTER = P(Transpose, INNER := P(Transpose, X))
MAX_DEPTH = 16
"""The most elementwise nodes that one rewrite moves a transpose across."""


def permutation(node: Node) -> Permutation | None:
    """The permutation of a Transpose, with a default made explicit; None for other nodes, or if the rank is
    unknown.
    """
    rank = node.output.type.rank if isinstance(node.op, Transpose) else None
    if not isinstance(node.op, Transpose) or rank is None:
        return None
    return tuple(reversed(range(rank))) if node.op.perm is None else node.op.perm


def composed(outer: Permutation, inner: Permutation) -> Permutation:
    """The permutation of ``Transpose[outer](Transpose[inner](x))``."""
    return tuple(inner[axis] for axis in outer)


def _transposed(b: Builder, value: Value, perm: Permutation) -> Value:
    if perm == tuple(range(len(perm))):
        return value
    transposed: Value = b(Transpose(perm), value)
    return transposed


# ---- chains


def _merge(b: Builder, m: Match) -> Value | str:
    outer, inner = permutation(m.root), permutation(m.node(INNER))
    if outer is None or inner is None:
        return "the rank is not known"
    return _transposed(b, m[X], composed(outer, inner))


# ---- axes of size 1


def _moves_only_ones(m: Match) -> str | None:
    perm, dims = permutation(m.root), m[X].type.shape
    if perm is None or dims is None:
        return "the rank is not known"
    moved = [axis for axis in perm if dims[axis] != 1]
    return None if moved == sorted(moved) else "it moves axes that are not of size 1"


def _as_reshape(b: Builder, m: Match) -> Value:
    return reshaped(b, m[X], m.root.output.type.dims)


# ---- through elementwise nodes


def _hoist(b: Builder, m: Match) -> Value | str:
    perm = permutation(m.root)
    if perm is None:
        return "the rank is not known"
    producer = m[X].producer
    if producer is None or Trait.ELEMENTWISE not in producer.op.traits:
        return "no elementwise node precedes it"
    gain = _gain(m[X], perm, m.module, MAX_DEPTH)
    if gain is None:
        return "an operand has other readers or another rank"
    if gain < 0:
        return f"moving it forward would add {-gain} transposes"
    return _permuted(b, m[X], perm, MAX_DEPTH)


def _gain(value: Value, perm: Permutation, module: Module, depth: int) -> int | None:
    """Transposes removed minus transposes added if ``value`` is computed in the axis order
    ``perm``.

    The Transpose that starts the move is not counted. None if it cannot move.
    """
    if _is_scalar(value) or constant_array(value, module) is not None:
        return 0
    if value.type.rank != len(perm):
        return None
    node = value.producer
    inner = None if node is None else permutation(node)
    if inner is not None and composed(perm, inner) == tuple(range(len(perm))):
        return 1 if used_once(value) else 0
    passes = node is not None and Trait.ELEMENTWISE in node.op.traits and len(node.outputs) == 1
    if node is None or not passes or not used_once(value) or depth == 0:
        return -1
    total = 0
    for operand in node.inputs:
        gain = 0 if operand is None else _gain(operand, perm, module, depth - 1)
        if gain is None:
            return -1
        total += gain
    return max(total, -1)


def _is_scalar(value: Value) -> bool:
    """Whether ``value`` broadcasts the same in every axis order: one element, rank 0 or 1."""
    return value.type.shape in ((), (1,))


def _permuted(b: Builder, value: Value, perm: Permutation, depth: int) -> Value:
    """``value`` in the axis order ``perm``, rewritten as :func:`_gain` assumed."""
    if _is_scalar(value):
        return value
    array = constant_array(value, b.module)
    if array is not None:
        full = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
        return b.const(np.ascontiguousarray(np.transpose(full, perm)))
    node = value.producer
    inner = None if node is None else permutation(node)
    if node is not None and inner is not None and composed(perm, inner) == tuple(range(len(perm))):
        return node.operand(0)
    if node is None or _gain(value, perm, b.module, depth) == -1:
        return _transposed(b, value, perm)
    operands = [None if v is None else _permuted(b, v, perm, depth - 1) for v in node.inputs]
    inner_builder = Builder(b.module, b.graph, b.before, (*node.sources, *b.sources))
    result: Value = inner_builder(node.op, *operands)
    return result


CANONICALIZE_TRANSPOSES = RulePass(
    "canonicalize_transposes",
    (
        Rule("Transpose of Transpose", OUTER, always, _merge),
        Rule("Transpose of size-1 axes", ALONE, _moves_only_ones, _as_reshape),
        Rule("Transpose through elementwise", ALONE, always, _hoist),
    ),
)
"""The pass."""
