"""Recognizes attention: a product of queries and keys, a Softmax, a product with values, and the ops around
them.

The first two rules replace the core by one node, with scale, soft cap and mask. The kernel stores no matrix
of scores (T. Dao et al., "FlashAttention", 2022). The others let that node absorb the ops around the core
(:mod:`~graphwright.passes.attention_operands`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.hints import conflict
from graphwright.ir.match import Const, Match, P, Rule, Var, always, constant_array
from graphwright.ir.op import Array
from graphwright.ir.refusal import Code, Refusal
from graphwright.ir.types import F32
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.div import Div
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.unary import IsNaN, Tanh
from graphwright.ops.core.where import Where
from graphwright.ops.nn.attention import ScaledDotProductAttention
from graphwright.ops.nn.softmax import Softmax
from graphwright.passes.attention_operands import OPERANDS, RESULT, without_scale
from graphwright.passes.rule_pass import RulePass
from graphwright.records import dataclass

HIDDEN: Final = -1e31
"""Mask values at or below this hide a score completely: adding them to it rounds to the mask value."""


@dataclass(frozen=True)
class _Scores:
    """The parts of the operand of the Softmax."""

    q: Value
    keys: Value
    """[..., depth, keys]"""
    scale: float = 1.0
    softcap: float = 0.0
    mask: Value | None = None
    choice: Node | None = None
    """The Where that keeps some scores and replaces others by a constant other than 0."""


def _read_scores(value: Value, module: Module) -> _Scores | Refusal:
    """Takes apart what the Softmax reads, back to the product of queries and keys; or says why it is not
    attention.
    """
    mask = choice = None
    node = value.producer
    if node is not None and isinstance(node.op, Where):
        if (kept := _scores_position(node, module)) is None:
            return _no_scores("the Where does not replace scores by one constant other than 0")
        choice, value = node, node.operand(kept)
        if value.type != node.output.type:
            return _no_scores(f"the Where broadcasts scores of {value.type} to {node.output.type}")
    elif node is not None and isinstance(node.op, Add):
        sides = [(node.operand(0), node.operand(1)), (node.operand(1), node.operand(0))]
        found = next(((s, m) for s, m in sides if s.type == value.type and _leads_to_product(s)), None)
        if found is None:
            return _no_scores("the input of the Softmax is not the sum of a matrix product and a mask")
        value, mask = found
    softcap = 0.0
    value, scale = without_scale(value, module)
    tanh = value.producer
    if tanh is not None and isinstance(tanh.op, Tanh):
        softcap, (value, inner) = scale, without_scale(tanh.operand(0), module)
        scale = inner * softcap  # tanh(inner * x) * softcap: the op divides by softcap
        if softcap <= 0:
            return _no_scores("the soft cap is not positive")
    product = value.producer
    if product is None or not isinstance(product.op, MatMul):
        return _no_scores("the input of the Softmax does not come from a matrix product")
    return _Scores(product.operand(0), product.operand(1), scale, softcap, mask, choice)


def _no_scores(why: str) -> Refusal:
    return Refusal(Code.ATTENTION_SCORES, why)


def _scores_position(choice: Node, module: Module) -> int | None:
    """Position of the scores among the operands of a Where whose other choice is a constant other than 0;
    None for other nodes.
    """
    for kept, other in ((1, 2), (2, 1)):
        filler = constant_array(choice.operand(other), module)
        if filler is not None and filler.size == 1 and filler.item() != 0:
            return kept
    return None


def _leads_to_product(value: Value) -> bool:
    """Whether ``value`` is a matrix product, possibly scaled or soft-capped."""
    node = value.producer
    while node is not None and isinstance(node.op, Mul | Div | Tanh):
        others = [v for v in node.inputs if v is not None and v.type == node.output.type]
        node = others[0].producer if others else None
    return node is not None and isinstance(node.op, MatMul)


SOFTMAX = P(Softmax, SCORES := Var("scores"))
PLAIN = P(MatMul, SOFTMAX, VALUES := Var("values"))
ZERO = Const("zero", where=lambda array: array.size == 1 and array.item() == 0)
GUARDED = P(MatMul, P(Where, P(IsNaN, SOFTMAX), ZERO, SOFTMAX, once=True), VALUES)


def _scores(m: Match, users: int) -> _Scores | Refusal:
    """The scores of attention whose probabilities have this many ``users``; or why it cannot be replaced."""
    softmax = m.node(SOFTMAX)
    output, values = softmax.output.type, m[VALUES].type
    if output.shape is None or values.shape is None:
        return Refusal(Code.ATTENTION_RANK, "the rank of the scores or values is not known")
    if output.dtype != F32:
        return Refusal(Code.ATTENTION_DTYPE, f"scores have type {output.dtype}")
    if m.op(SOFTMAX).axes(len(output.dims)) != (len(output.dims) - 1,):
        return Refusal(Code.ATTENTION_AXIS, "the Softmax does not reduce the last axis")
    if len(softmax.output.uses) != users or softmax.output.is_output:
        return Refusal(Code.ATTENTION_READ, "the probabilities have other readers")
    scores = _read_scores(m[SCORES], m.module)
    if isinstance(scores, Refusal):
        return scores
    if (kept_apart := conflict((*_sources(m[SCORES], scores), *m.sources), m.module.hints)) is not None:
        return Refusal(Code.ATTENTION_HINT, kept_apart)
    why = _shape_fault(m, scores)
    return scores if why is None else Refusal(Code.ATTENTION_SHAPES, why)


def _shape_fault(m: Match, scores: _Scores) -> str | None:
    output, q, keys, v = m.node(SOFTMAX).output.type, scores.q.type, scores.keys.type, m[VALUES].type
    rank = len(output.dims)
    if rank not in (3, 4) or not q.rank == keys.rank == v.rank == rank:
        return f"queries {q}, keys {keys} and values {v} do not all have 3 or 4 axes"
    proves = m.module.symbols.proves_equal
    for type in (q, keys, v):
        if not all(map(proves, type.dims[:-2], output.dims[:-2])):
            return f"the batch axes of {type} are broadcast"
    condition = None if scores.choice is None else scores.choice.operand(0)
    for mask in (scores.mask, condition):
        if mask is None:
            continue
        if mask.type.shape is None or len(mask.type.shape) > rank:
            return f"the mask has type {mask.type}"
        pairs = zip(mask.type.shape[::-1], output.dims[::-1], strict=False)
        if not all(dim == 1 or proves(dim, wanted) for dim, wanted in pairs):
            return f"a mask of {mask.type} broadcasts the scores"
    return None


def _attention(b: Builder, m: Match, users: int, guard: str) -> Value | Refusal:
    scores = _scores(m, users)
    if isinstance(scores, Refusal):
        return scores
    mask, causal = scores.mask, False
    if scores.choice is not None:
        mask = _fill(b, scores.choice)
    array = constant_array(mask, m.module)
    if array is not None and not array.any():
        mask = None
    elif array is not None and _is_causal(array, m.node(SOFTMAX).output.type.dims[-2:]):
        mask, causal = None, True
    operands = [_four_axes(b, value) for value in (scores.q, scores.keys, m[VALUES])]
    if mask is not None:
        operands.append(_four_axes(b, mask) if scores.q.type.rank == 3 else mask)
    sources = dict.fromkeys((*_sources(m[SCORES], scores), *b.sources))
    inner = Builder(b.module, b.graph, b.before, tuple(sources))
    op = ScaledDotProductAttention(
        scores.scale, scores.softcap, causal, guard=guard, k_axes=(0, 1, 3, 2), fill=scores.choice is not None
    )  # fmt: skip
    result: Value = inner(op, *operands)
    return reshaped(b, result, m.root.output.type.dims) if scores.q.type.rank == 3 else result


def _fill(b: Builder, choice: Node) -> Value:
    """A mask that is 0 where ``choice`` keeps the scores, and elsewhere the value that replaces them."""
    operands = list(choice.inputs)
    kept = _scores_position(choice, b.module)
    assert kept is not None
    operands[kept] = b.const(np.zeros((), np.float32))
    result: Value = b(Where(), *operands)
    return result


def _sources(value: Value, scores: _Scores) -> Iterator[str]:
    """Source nodes between the product of queries and keys and ``value``; the pattern only
    matches the end.
    """
    node = value.producer
    if node is None:
        return
    if node.inputs[0] is not scores.q or node.inputs[1] is not scores.keys:
        for operand in node.inputs:
            if operand is not None and operand.type == value.type and operand is not scores.mask:
                yield from _sources(operand, scores)
    yield from node.sources


def _four_axes(b: Builder, value: Value) -> Value:
    """A [batch, rows, columns] value as one with a head axis of 1. A mask without batch axes broadcasts as it
    is.
    """
    dims = value.type.dims
    if len(dims) != 3:
        return value
    return reshaped(b, value, (dims[0], 1, *dims[1:]))


def _is_causal(mask: Array, sizes: tuple[object, ...]) -> bool:
    """Whether the mask hides exactly the keys after each query."""
    if mask.shape[-2:] != sizes or mask.size != mask.shape[-1] * mask.shape[-2] or sizes[0] != sizes[1]:
        return False
    rows = mask.reshape(mask.shape[-2:])
    after = np.triu(np.ones(rows.shape, bool), 1)
    return bool((rows[~after] == 0).all() and (rows[after] <= HIDDEN).all())


FUSE_ATTENTION = RulePass(
    "fuse_attention",
    (
        Rule("attention", PLAIN, always, lambda b, m: _attention(b, m, 1, "none"), Code.REPLACED),
        Rule(
            "attention with a NaN guard",
            GUARDED,
            always,
            lambda b, m: _attention(b, m, 2, "nan"),
            Code.REPLACED,
        ),
        OPERANDS,
        RESULT,
    ),
)
"""The pass."""
