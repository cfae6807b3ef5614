"""Rules that let an attention node read its operands and write its result without the ops around it.

They absorb transposes of heads, scales of queries and keys, and repeated heads (grouped-query attention).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.match import Match, P, Rest, Rule, Var, always, constant_array
from graphwright.ir.op import Trait
from graphwright.ir.refusal import Code, Refusal
from graphwright.ir.types import Shape
from graphwright.ops.core.binary import Mul
from graphwright.ops.core.cast import Cast, as_dtype
from graphwright.ops.core.div import Div
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.reshape import Reshape, reshaped
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.attention import Axes, ScaledDotProductAttention
from graphwright.passes.canonicalize_transposes import composed, permutation
from graphwright.records import dataclass, replace

MOST_SCALE: Final = 2.0**32
"""Outside [1 / MOST_SCALE, MOST_SCALE], scaling queries instead of scores could overflow or underflow."""

Q, K, V = Var("q"), Var("k"), Var("v")
ATTENTION = P(ScaledDotProductAttention, Q, K, V, Rest("mask"))
ATTENDED = P(ScaledDotProductAttention, Q, K, V, Rest("mask"), once=True)
TRANSPOSED = P(Transpose, ATTENDED)


def without_scale(value: Value, module: Module) -> tuple[Value, float]:
    """``value`` before multiplications and divisions by constants, and their combined factor."""
    scale = 1.0
    while (found := _scaled(value, module)) is not None and _is_moderate(scale * found[1]):
        value, factor = found
        scale *= factor
    return value, scale


def _is_moderate(scale: float) -> bool:
    """Whether scaling queries instead of scores by ``scale`` is safe from overflow and underflow."""
    return 1 / MOST_SCALE <= abs(scale) <= MOST_SCALE


def _scaled(value: Value, module: Module) -> tuple[Value, float] | None:
    """The operand of a Mul or Div by one finite constant, and the factor; None for other nodes."""
    node = value.producer
    if node is None or not isinstance(node.op, Mul | Div):
        return None
    sides = ((0, 1), (1, 0)) if isinstance(node.op, Mul) else ((0, 1),)
    for kept, other in sides:
        number, operand = constant_array(node.operand(other), module), node.operand(kept)
        if number is None or number.size != 1 or operand.type != value.type:
            continue
        factor = float(number.item())
        if np.isfinite(factor) and factor != 0:
            return operand, factor if isinstance(node.op, Mul) else 1 / factor
    return None


@dataclass(frozen=True)
class _Change:
    """A rewrite of an attention node: its new op, and new operands by position, each with the dims that it is
    viewed as.
    """

    op: ScaledDotProductAttention
    operands: dict[int, tuple[Value, Shape]]


def _transposed(m: Match, op: ScaledDotProductAttention, position: int) -> _Change | None:
    """Absorbs a Transpose into the axis order of the operand."""
    producer = m.root.operand(position).producer
    perm = None if producer is None else permutation(producer)
    if producer is None or perm is None:
        return None
    return _renamed(op, position, perm, producer.operand(0), producer.operand(0).type.dims)


def _regrouped(m: Match, op: ScaledDotProductAttention, position: int) -> _Change | None:
    """Absorbs [B * H, S, D] -> [B * H, D, S] -> [B, H, D, S], which is a Transpose too."""
    value = m.root.operand(position)
    chain = _chain(value, Reshape, Transpose)
    if not chain or permutation(chain[1]) != (0, 2, 1):
        return None
    source, (batch, heads, *matrix) = chain[1].operand(0), value.type.dims
    if list(source.type.dims[:0:-1]) != matrix:
        return None
    return _renamed(op, position, (0, 1, 3, 2), source, (batch, heads, *matrix[::-1]))


def _renamed(op: ScaledDotProductAttention, position: int, perm: Axes, source: Value, dims: Shape) -> _Change:
    axes = composed((op.q_axes, op.k_axes, op.v_axes)[position], perm)
    renamed = (replace(op, q_axes=axes), replace(op, k_axes=axes), replace(op, v_axes=axes))[position]
    return _Change(renamed, {position: (source, dims)})


def _scaled_operand(m: Match, op: ScaledDotProductAttention, position: int) -> _Change | None:
    """Absorbs a constant factor of queries or keys into the scale."""
    found = _scaled(m.root.operand(position), m.module) if position < 2 else None
    if found is None:
        return None
    source, factor = found
    if not _is_moderate(op.scale * factor):
        return None
    return _Change(replace(op, scale=op.scale * factor), {position: (source, source.type.dims)})


def _repeated(m: Match, op: ScaledDotProductAttention, position: int) -> _Change | None:
    """Absorbs repeated heads of keys and values, [B, G, 1, S, D] -> [B, G, n, S, D] -> [B, G * n, S, D]: the
    kernel reads each head n times, and a Cast runs once.
    """
    keys, values = (_unrepeated(m.root.operand(p)) for p in (1, 2))
    if position != 1 or op.k_axes[1] != 1 or op.v_axes[1] != 1 or keys is None or values is None:
        return None
    if keys[1][1] != values[1][1]:
        return None
    return _Change(op, {1: keys, 2: values})


def _unrepeated(value: Value) -> tuple[Value, Shape] | None:
    if casts := _chain(value, Cast):
        value = casts[0].operand(0)
    chain = _chain(value, Reshape, Expand)
    if not chain:
        return None
    source, expanded, dims = chain[1].operand(0), chain[1].output.type.dims, value.type.dims
    if len(expanded) != 5 or source.type.dims != (*expanded[:2], 1, *expanded[3:]):
        return None
    if dims != (expanded[0], expanded[1] * expanded[2], *expanded[3:]):
        return None
    return source, (*expanded[:2], *expanded[3:])


def _chain(value: Value, *ops: type) -> list[Node]:
    """The nodes that compute ``value``, last first, if their ops are ``ops``; empty otherwise."""
    found: list[Node] = []
    for op in ops:
        node = value.producer
        if node is None or not isinstance(node.op, op):
            return []
        found.append(node)
        value = node.operand(0)
    return found


def _change(m: Match) -> _Change | None:
    op = m.op(ATTENTION)
    ways = (_transposed, _scaled_operand, _regrouped, _repeated)
    found = (way(m, op, position) for position in range(3) for way in ways)
    return next((change for change in found if change is not None), None)


def _changed(b: Builder, m: Match) -> Value | Refusal:
    change = _change(m)
    if change is None:
        return Refusal(Code.ATTENTION_LAYOUT, "no operand has a transpose, scale or repeat to absorb")
    operands = list(m.root.inputs)
    for position, (value, dims) in change.operands.items():
        operands[position] = as_dtype(b, _viewed(b, value, dims), m.root.operand(position).type.dtype)
    result: Value = b(change.op, *operands)
    return result


def _viewed(b: Builder, value: Value, dims: Shape) -> Value:
    """``value`` viewed with ``dims``: the value itself or one that it is a view of, or a new view."""
    source = value
    while source.type.shape != dims:
        node = source.producer
        if node is None or Trait.VIEW not in node.op.traits or len(node.outputs) > 1:
            return reshaped(b, source, dims)
        source = node.operand(0)
    return source


def _result(b: Builder, m: Match) -> Value | Refusal:
    perm, attended = permutation(m.root), m.node(ATTENDED)
    if perm is None:
        return Refusal(Code.ATTENTION_RANK, "the rank is not known")
    op = m.op(ATTENDED)
    result: Value = b(replace(op, y_axes=composed(perm, op.y_axes)), *attended.inputs)
    return result


OPERANDS: Final = Rule("operands of attention", ATTENTION, always, _changed)
RESULT: Final = Rule("result of attention", TRANSPOSED, always, _result)
