"""Replaces elementwise ops that compute bytes from bytes by a table of their 256 results.

Between the matrix multiplications and convolutions of a quantized model, each op is dequantization,
arithmetic in f32, and quantization. Where several ops are a function of one 8-bit value, as in a quantized
GELU or SiLU, a table gives the same results, and looking up an element takes a fraction of a cycle.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from graphwright.cost.operations import operations_of
from graphwright.ir.build import Builder
from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.graph import Module, Node, Value, sources_of
from graphwright.ir.hints import conflict
from graphwright.ir.inference.infer import evaluate
from graphwright.ir.match import Match, P, Rule, Var, always, constant_array
from graphwright.ir.op import Array, Trait
from graphwright.ir.op.plugin_ops import is_plugin_op
from graphwright.ir.refusal import Code, Refusal
from graphwright.ir.symbols import product
from graphwright.ops.core.cast import Cast
from graphwright.ops.quantized.byte_table import ENTRIES, ByteTable
from graphwright.ops.quantized.quantized import BYTES
from graphwright.passes.rule_pass import RulePass

FARTHEST: Final = 64
"""The most nodes on a path from the 8-bit operand to the result."""
LEAST_OPERATIONS: Final = 24
"""Simple operations per element from which on a lookup is faster, even if another kernel computes them."""
LEAST_ELEMENTS: Final = 4096
"""For fewer elements, launching one more kernel takes longer than the operations."""

RESULT = P(Cast, Var("computed"), where=lambda op: op.to in BYTES)

_Operands = dict[Value, "Value | None"]


def _looked_up(b: Builder, m: Match) -> Value | Refusal:
    result = m.root.output
    x = _operand(result, FARTHEST, {})
    if x is None or x is result:
        return Refusal(Code.TABLE_OPERANDS, Code.TABLE_OPERANDS.means)
    if x.type.shape is None or x.type.shape != result.type.shape:
        return Refusal(Code.TABLE_OPERANDS, f"{x.type} is broadcast to {result.type}")
    nodes = _nodes_between(x, result)
    operations, elements = sum(map(operations_of, nodes)), product(x.type.dims)
    if operations < LEAST_OPERATIONS:
        return Refusal(Code.TABLE_COST, f"{operations} simple operations per element cost less than a lookup")
    if isinstance(elements, int) and elements < LEAST_ELEMENTS:
        return Refusal(Code.TABLE_COST, f"{elements} elements: launching a kernel costs more")
    sources = sources_of(nodes)
    if (apart := conflict(sources, m.module.hints)) is not None:
        return Refusal(Code.TABLE_HINT, apart)
    at_root = Builder(b.module, b.graph, b.before, sources)
    looked_up: Value = at_root(ByteTable(), x, b.const(_table(x, nodes, m.module)))
    return looked_up


def _operand(value: Value, farthest: int, known: _Operands) -> Value | None:
    """The 8-bit value from which elementwise nodes and single constants compute ``value``, at most
    ``farthest`` nodes before it; None if there is no such value.
    """
    if value not in known:
        operands = _computed_operands(value.producer) if farthest else []
        found = {_operand(operand, farthest - 1, known) for operand in operands}
        x = found.pop() if len(found) == 1 else None
        known[value] = value if x is None and value.type.dtype in BYTES else x
    return known[value]


def _computed_operands(node: Node | None) -> list[Value]:
    """The operands of an elementwise node, without constants of one element; empty for other nodes."""
    if node is None or Trait.ELEMENTWISE not in node.op.traits or is_plugin_op(type(node.op)):
        return []
    return [value for value in node.inputs if value is not None and not _is_single_constant(value)]


def _is_single_constant(value: Value) -> bool:
    return is_constant(value) and product(value.type.dims) == 1


def _nodes_between(x: Value, result: Value) -> list[Node]:
    """The nodes that compute ``result`` from ``x``, operands first."""
    found: dict[Node, None] = {}

    def visit(value: Value) -> None:
        node = value.producer
        if value is x or node is None or node in found:
            return
        for operand in _computed_operands(node):
            visit(operand)
        found[node] = None

    visit(result)
    return list(found)


def _table(x: Value, nodes: Iterable[Node], module: Module) -> Array:
    """The results of ``nodes`` for all bytes."""
    shape = (1,) * (len(x.type.dims) - 1) + (ENTRIES,)
    arrays = {x: np.arange(ENTRIES, dtype=np.uint8).view(x.type.dtype.numpy).reshape(shape)}
    result = arrays[x]
    for node in nodes:
        operands = [
            None if value is None else arrays.get(value, constant_array(value, module))
            for value in node.inputs
        ]
        with np.errstate(all="ignore"):
            (result,) = evaluate(node.op, operands)
        arrays[node.output] = result
    return np.ascontiguousarray(result.reshape(ENTRIES))


BYTE_TABLES = RulePass(
    "byte_tables",
    (Rule("function of one byte", RESULT, always, _looked_up, Code.REPLACED),),
    from_end=True,
)
"""The pass. It runs after decomposition, when quantization is elementwise arithmetic, and starts at the end
of the graph, so that the longest functions become tables.
"""
