"""Splits the weights of a product instead of its result, for gated linear units with joined
weights.

``split(x @ [a b]) = x @ a, x @ b``: if something combines the parts, one kernel computes both products and
combines them (:mod:`graphwright.fusion.siblings`), and neither the whole result nor a part is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Node, Value
from graphwright.ir.hints import conflict
from graphwright.ir.match import Const, Match, P, Rule, Var
from graphwright.ir.op import Array
from graphwright.ir.refusal import Code, Refusal
from graphwright.ops.core.binary import Add
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.split import Split
from graphwright.passes.rule_pass import RulePass

FARTHEST: Final = 8
"""The most elementwise nodes between a part and the node that combines it with another part."""

X, W, BIAS = Var("x"), Const("w"), Const("bias")
PRODUCT = P(MatMul, X, W)
BIASED = P(Add, P(MatMul, X, W, once=True), BIAS)
CUT = (Split, Slice)
PARTS = P(CUT, PRODUCT)
BIASED_PARTS = P(CUT, BIASED)

_Columns = tuple[int, int]
"""The first column and the number of columns."""


def _refusal(m: Match) -> Refusal | None:
    whole, weights, bias = m.root.operand(0), m[W], m.constant(BIAS)
    if whole.type.shape is None or len(weights.type.dims) != 2:
        return Refusal(
            Code.SPLIT_COLUMNS,
            f"the rank of the product is unknown, or the weights {weights.type} are not a matrix",
        )
    columns = weights.type.sizes[1]
    if bias is not None and bias.shape != (columns,):
        return Refusal(Code.SPLIT_COLUMNS, f"a bias of shape {bias.shape} is not one number per column")
    cuts = [_columns(node) for node in whole.users]
    taken = sum(count for cut in cuts for _, count in cut or ())
    if None in cuts or taken > columns or whole.is_output:
        return Refusal(Code.SPLIT_COLUMNS, f"the readers of {whole.type} do not split it along its columns")
    if len(weights.uses) > 1:
        return Refusal(Code.SPLIT_WEIGHTS, "the weights have other readers and would be stored twice")
    parts = [part for node in whole.users for part in node.outputs]
    if len(parts) > 1 and not all(_meets_another(part, parts) for part in m.root.outputs):
        return Refusal(Code.SPLIT_APART, "no elementwise op combines the parts")
    apart = conflict(m.sources, m.module.hints)
    return None if apart is None else Refusal(Code.SPLIT_HINT, apart)


def _columns(node: Node) -> list[_Columns] | None:
    """The columns of the operand that each result of ``node`` takes; None if a result lacks rows."""
    rank = len(node.operand(0).type.dims)
    if isinstance(node.op, Split):
        sizes = [size for size in node.op.sizes or () if isinstance(size, int)]
        if node.op.axis % rank != rank - 1 or len(sizes) != len(node.outputs):
            return None
        return list(zip(accumulate(sizes, initial=0), sizes, strict=False))
    if not isinstance(node.op, Slice) or isinstance(along := node.op.moved_axes(node), str):
        return None
    *rows, last = along
    dims, count = node.operand(0).type.dims, node.output.type.dims[-1]
    has_all_rows = node.output.type.dims[:-1] == dims[:-1] and all(axis.is_identity for axis in rows)
    return [(last.start, count)] if has_all_rows and last.step == 1 and isinstance(count, int) else None


def _meets_another(part: Value, parts: list[Value]) -> bool:
    """Whether an elementwise node combines ``part`` with another of ``parts``, directly or after elementwise
    ops.
    """
    reached = frozenset(_elementwise(part))
    return any(not reached.isdisjoint(_elementwise(other)) for other in parts if other is not part)


def _elementwise(value: Value) -> Iterator[Node]:
    reached = [value]
    for _ in range(FARTHEST):
        users = dict.fromkeys(user for each in reached for user in each.users)
        nodes = [user for user in users if _keeps_size(user, value)]
        yield from nodes
        reached = [node.output for node in nodes]


def _keeps_size(node: Node, value: Value) -> bool:
    return node.op.has_expression() and node.output.type.shape == value.type.shape


def _rewrite(b: Builder, m: Match) -> list[Value]:
    """One product per part, with its columns of the weights."""
    columns = _columns(m.root)
    assert columns is not None
    return [_product(b, m, slice(first, first + count)) for first, count in columns]


def _product(b: Builder, m: Match, columns: slice) -> Value:
    weights, bias = m.array(W), m.constant(BIAS)
    product = next(node for node in m.nodes if isinstance(node.op, MatMul))
    part: Value = b(product.op, m[X], b.const(_copied(weights[:, columns])))
    if bias is not None:
        part = b(Add(), part, b.const(_copied(bias[columns])))
    return part


def _copied(array: Array) -> Array:
    return np.array(array, order="C")


SPLIT_PRODUCTS = RulePass(
    "split_products",
    (
        Rule("parts of a product", PARTS, _refusal, _rewrite, Code.REPLACED),
        Rule("parts of a product with a bias", BIASED_PARTS, _refusal, _rewrite, Code.REPLACED),
    ),
)
"""The pass."""
