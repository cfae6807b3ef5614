"""Computes 16-bit floats in f32: products of bf16 sum in f32, and elementwise work rounds where it is stored.

Each product and each elementwise op becomes one of f32 with casts around it. Behind fusion, a value that is
narrowed and widened again inside a kernel is not rounded: excess precision, as C calls it. PyTorch's eager
mode rounds each result; its compiled kernels do not.
"""

from __future__ import annotations

from typing import Final

from graphwright.ir.build import Builder
from graphwright.ir.constant import is_constant
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.match import Match, P, Rule, Var, constant_array
from graphwright.ir.op import Op, Trait
from graphwright.ir.types import BF16, F16, F32
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.matmul import MatMul
from graphwright.passes.base import Pass, Record, RulePass, graphs
from graphwright.passes.base import replace as replace_node
from graphwright.records import dataclass, replace

HALVES: Final = frozenset({F16, BF16})


@dataclass(frozen=True)
class WidenHalves(Pass):
    """See the module."""

    name: str = "widen_halves"

    def run(self, module: Module, record: Record) -> bool:
        before = record.counts.total()
        for graph in list(graphs(module)):
            for node in list(graph):
                made = _widened(node, Builder(module, graph, node, node.sources))
                if made is not None:
                    replace_node(node, [made])
                    record.did(f"{node.op.name} in f32")
        return record.counts.total() > before


def _widened(node: Node, b: Builder) -> Value | None:
    """What takes the place of the result of ``node``; None where it stays."""
    dtypes = {value.type.dtype for value in node.inputs if value is not None}
    if isinstance(node.op, MatMul):
        narrow = node.op.precision is None and dtypes == {BF16}
        return _product(b, node.op, node) if narrow else None
    if not dtypes & HALVES or not _is_arithmetic(node):
        return None
    return _narrowed(b, b(node.op, *(_wide(b, value) for value in node.inputs)), node)


def _is_arithmetic(node: Node) -> bool:
    op: Op = node.op
    return Trait.ELEMENTWISE in op.traits and op.has_expression() and not isinstance(op, Cast)


def _product(b: Builder, op: MatMul, node: Node) -> Value:
    return _narrowed(b, b(replace(op, precision=BF16), *node.inputs), node)


def _wide(b: Builder, value: Value | None) -> Value | None:
    if value is None or value.type.dtype not in HALVES:
        return value
    if is_constant(value) and value.type.elements == 1:
        array = constant_array(value, b.module)
        assert array is not None
        return b.const(array.astype(F32.numpy))
    made: Value = b(Cast(F32), value)
    return made


def _narrowed(b: Builder, wide: Value, node: Node) -> Value:
    to = node.output.type.dtype
    made: Value = wide if wide.type.dtype == to else b(Cast(to, excess=True), wide)
    return made


X = Var("x")
NARROWED = P(Cast, X, where=lambda op: op.excess)
WIDENED = P(Cast, NARROWED, where=lambda op: op.to == F32)


def _refusal(m: Match) -> str | None:
    return None if m[X].type.dtype == F32 else f"it was {m[X].type.dtype}"


WIDEN_HALVES = WidenHalves()
KEEP_EXCESS_PRECISION = RulePass(
    "keep_excess_precision",
    (Rule("a rounded value that is widened again", WIDENED, _refusal, lambda b, m: m[X]),),
)
