"""Computes 16-bit floats in f32: products of bf16 sum in f32, and elementwise work rounds where it is stored.

Each product and each elementwise op becomes one of f32 with casts around it. Behind fusion, a value that is
narrowed and widened again inside a kernel is not rounded: excess precision, as C calls it. PyTorch's eager
mode rounds each result; its compiled kernels do not.

Between convolutions and poolings images stay f32, in whose channel blocks the kernels work.
"""

from __future__ import annotations

from typing import Final

from graphwright.ir.build import Builder
from graphwright.ir.constant import is_constant
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.match import Match, P, Rule, Var, constant_array, used_once
from graphwright.ir.op import Op, Trait
from graphwright.ir.types import BF16, F16, F32
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.conv import MAX_PLANAR_CHANNELS, Conv
from graphwright.ops.nn.max_pool import MaxPool
from graphwright.ops.nn.resize import Resize
from graphwright.ops.quantized.matmul_nbits import MatMulNBits
from graphwright.passes.base import Pass, Record, RulePass, graphs
from graphwright.passes.base import replace as replace_node
from graphwright.records import dataclass, replace

HALVES: Final = frozenset({F16, BF16})
IN_F32: Final = (MatMul, MaxPool, AveragePool, Resize, MatMulNBits)
"""Other ops whose kernels are those of f32."""


@dataclass(frozen=True)
class WidenHalves(Pass):
    """``in_bf16``: whether products of bf16 stay such; else their factors are widened too."""

    in_bf16: bool = True
    name: str = "widen_halves"

    def run(self, module: Module, record: Record) -> bool:
        before = record.counts.total()
        for graph in list(graphs(module)):
            for node in list(graph):
                made = self._widened(node, Builder(module, graph, node, node.sources, node.origin))
                if made is not None:
                    replace_node(node, [made])
                    record.did(f"{node.op.name} in f32")
        return record.counts.total() > before

    def _widened(self, node: Node, b: Builder) -> Value | None:
        """What takes the place of the result of ``node``; None where it stays."""
        op, dtypes = node.op, {value.type.dtype for value in node.inputs if value is not None}
        if not dtypes & HALVES or len(node.outputs) != 1:
            return None
        if isinstance(op, Cast):
            return _unrounded(b, node.operand(0)) if op.to == F32 else None
        if isinstance(op, MatMul | Conv) and op.precision is not None:
            return None
        if isinstance(op, MatMul) and self.in_bf16 and dtypes == {BF16}:
            return _narrowed(b, b(replace(op, precision=BF16), *node.inputs), node)
        if isinstance(op, Conv):
            return _convolution(b, op, node, self.in_bf16)
        if isinstance(op, IN_F32) or (_is_arithmetic(op) and not _broadcasts(node)):
            return _narrowed(b, b(op, *(_wide(b, value) for value in node.inputs)), node)
        return None


def _is_arithmetic(op: Op) -> bool:
    """Whether it computes numbers of numbers, element by element or by reducing axes."""
    if Trait.REDUCTION in op.traits:
        return True
    return Trait.ELEMENTWISE in op.traits and op.has_expression() and not isinstance(op, Cast)


def _broadcasts(node: Node) -> bool:
    """Whether it reads a smaller value that is computed: widened by itself, that would be another kernel."""
    if Trait.REDUCTION in node.op.traits:
        return False
    read = (v for v in node.inputs if v is not None and v.type.dtype in HALVES and not is_constant(v))
    return any(v.type.dims != node.output.type.dims and v.type.elements != 1 for v in read)


def _convolution(b: Builder, op: Conv, node: Node, in_bf16: bool) -> Value:
    """In bf16 where its kernel takes two channels at a time; else of f32."""
    w = node.operand(1)
    in_bf16 = in_bf16 and w.type.dtype == BF16 and is_constant(w) and op.group == 1
    in_bf16 = in_bf16 and w.type.sizes[1] > MAX_PLANAR_CHANNELS and w.type.sizes[1] % 2 == 0
    x, rest = _wide(b, node.operand(0)), [_wide_constant(b, v) for v in node.inputs[2:] if v is not None]
    if in_bf16:
        return _narrowed(b, b(replace(op, precision=BF16), x, w, *rest), node)
    return _narrowed(b, b(op, x, _wide_constant(b, w), *rest), node)


def _wide_constant(b: Builder, value: Value) -> Value:
    """``value`` in f32: another constant, where it is one."""
    array = constant_array(value, b.module)
    if array is None:
        made: Value = b(Cast(F32), value)
        return made
    return b.const(array.astype(F32.numpy))


def _wide(b: Builder, value: Value | None) -> Value | None:
    if value is None or value.type.dtype not in HALVES:
        return value
    return _unrounded(b, value) or _wide_constant(b, value)


def _unrounded(b: Builder, value: Value) -> Value | None:
    """What ``value`` was rounded from, seen through views, where it is of images or nothing else reads it."""
    source = value.producer
    if source is None or not (_is_image(value) or used_once(value)):
        return None
    if isinstance(source.op, Cast):
        return source.operand(0) if source.op.excess and source.operand(0).type.dtype == F32 else None
    if Trait.VIEW not in source.op.traits or len(source.inputs) != 1 or source.regions:
        return None
    before = _unrounded(b, source.operand(0))
    made: Value | None = None if before is None else b(source.op, before)
    return made


def _narrowed(b: Builder, wide: Value, node: Node) -> Value:
    to = node.output.type.dtype
    made: Value = wide if wide.type.dtype == to else b(Cast(to, excess=True), wide)
    return made


def _is_image(value: Value) -> bool:
    return len(value.type.dims) > 3


X = Var("x")
NARROWED = P(Cast, X, where=lambda op: op.excess)
WIDENED = P(Cast, NARROWED, where=lambda op: op.to == F32)


def _refusal(m: Match) -> str | None:
    """A kernel stores what it computes, once: neither what it reads, nor one value as two results."""
    value, graph = m[X], m.root.graph
    if value.type.dtype != F32:
        return f"it was {value.type.dtype}"
    is_result = graph is not None and m.root.output in graph.outputs
    if is_result and graph is not None and (value.producer is None or value in graph.outputs):
        return "it would be a result that the kernel does not compute"
    return None


KEEP_EXCESS_PRECISION = RulePass(
    "keep_excess_precision",
    (Rule("a rounded value that is widened again", WIDENED, _refusal, lambda b, m: m[X]),),
)
