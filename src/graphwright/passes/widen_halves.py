"""Computes 16-bit floats in f32: products of bf16 accumulate in f32, and elementwise ops round only what is
stored.

Each product and elementwise op becomes an f32 op with casts around it. After fusion, a value that is narrowed
and widened again inside a kernel is not rounded (excess precision, as C calls it). PyTorch's eager mode
rounds each result; its compiled kernels do not.

Images between convolutions, pooling, Concat and Split stay f32, the type of the blocked kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphwright.ir.build import Builder
from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.builtin.fused import Fused, region_of
from graphwright.ir.clone import inline_region
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.interfaces.blocked_form import CHANNELS
from graphwright.ir.match import Match, P, Rule, Var, constant_array, used_once
from graphwright.ir.op import Op, Trait
from graphwright.ir.types import BF16, F32, HALVES
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.grouped_matmul import GroupedMatMul
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.split import Split
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.conv import MAX_PLANAR_CHANNELS, Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.conv_weight_gradient import ConvWeightGradient
from graphwright.ops.nn.max_pool import MaxPool
from graphwright.ops.nn.resize import Resize
from graphwright.ops.quantized.grouped_matmul_nbits import GroupedMatMulNBits
from graphwright.ops.quantized.matmul_nbits import MatMulNBits
from graphwright.passes.base import Pass, Record
from graphwright.passes.node_removal import replace_and_prune
from graphwright.passes.rule_pass import RulePass
from graphwright.passes.traversal import graphs, nodes_of
from graphwright.records import dataclass, replace

IN_F32: Final = (
    MatMul, GroupedMatMul, MatMulNBits, GroupedMatMulNBits, ConvTranspose, ConvWeightGradient, MaxPool,
    AveragePool, Resize,
)  # fmt: skip
"""Ops, other than arithmetic, whose kernels compute in f32."""


@dataclass(frozen=True)
class WidenHalves(Pass):
    """``in_bf16``: whether matrix products of bf16 stay in bf16; otherwise their operands are widened too.
    ``convolutions``: the same for convolutions.
    """

    in_bf16: bool = True
    convolutions: bool = True
    name: str = "widen_halves"

    def run(self, module: Module, record: Record) -> bool:
        before = record.counts.total()
        for graph in list(graphs(module)):
            for node in list(graph):
                b = Builder(module, graph, node, node.sources, node.origin)
                if wide := self._widened(node, b):
                    replace_and_prune(
                        node, [_narrowed(b, *pair) for pair in zip(wide, node.outputs, strict=True)]
                    )
                    record.did(f"{node.op.name} in f32")
        return record.counts.total() > before

    def _widened(self, node: Node, b: Builder) -> Sequence[Value]:
        """The results of ``node`` in f32; empty if it stays."""
        op, dtypes = node.op, {value.type.dtype for value in node.inputs if value is not None}
        if not dtypes & HALVES:
            return ()
        if any(value is not None and value.type.shape is None for value in (*node.inputs, *node.outputs)):
            return ()
        if isinstance(op, Concat | Split):
            return _moved_channels(b, op, node)
        if len(node.outputs) != 1:
            return ()
        if isinstance(op, Cast):
            before = _unrounded(b, node.operand(0)) if op.to == F32 else None
            return () if before is None else (before,)
        if isinstance(op, MatMul | GroupedMatMul | Conv) and op.precision is not None:
            return ()
        if isinstance(op, MatMul | GroupedMatMul) and self.in_bf16 and BF16 in dtypes:
            return b.node(replace(op, precision=BF16), *node.inputs).outputs
        if isinstance(op, Conv):
            return (_convolution(b, op, node, self.convolutions),)
        if isinstance(op, IN_F32) or (_is_arithmetic(op) and not _broadcasts(node)):
            return b.node(op, *(_wide(b, value) for value in node.inputs)).outputs
        return ()


def _is_arithmetic(op: Op) -> bool:
    """Whether the op computes elementwise or reduces axes."""
    if Trait.REDUCTION in op.traits:
        return True
    return Trait.ELEMENTWISE in op.traits and op.has_expression() and not isinstance(op, Cast)


def _broadcasts(node: Node) -> bool:
    """Whether the node broadcasts a computed operand that is stored in 16 bits: widening that would take a
    kernel of its own.
    """
    if Trait.REDUCTION in node.op.traits:
        return False
    read = (v for v in node.inputs if v is not None and v.type.dtype in HALVES and not is_constant(v))
    small = (v for v in read if v.type.dims != node.output.type.dims and v.type.elements != 1)
    return not all(_is_rounded(v) for v in small)


def _moved_channels(b: Builder, op: Concat | Split, node: Node) -> Sequence[Value]:
    """The results in f32 of a Concat or Split of the channels of images that were rounded from f32."""
    images = [value for value in node.inputs if value is not None]
    if not all(map(_is_image, images)) or op.axis % len(images[0].type.dims) != CHANNELS:
        return ()
    if not all(is_constant(image) or _is_rounded(image) for image in images):
        return ()
    return b.node(op, *(_wide(b, value) for value in images)).outputs


def _convolution(b: Builder, op: Conv, node: Node, in_bf16: bool) -> Value:
    """A convolution with a result in f32. It multiplies in bf16 if its kernel supports it, which processes
    channels in pairs.
    """
    w = node.operand(1)
    in_bf16 = in_bf16 and w.type.dtype == BF16 and is_constant(w) and op.group == 1
    in_bf16 = in_bf16 and w.type.sizes[1] > MAX_PLANAR_CHANNELS and w.type.sizes[1] % 2 == 0
    x, rest = _wide(b, node.operand(0)), [_wide_constant(b, v) for v in node.inputs[2:] if v is not None]
    op, w = (replace(op, precision=BF16), w) if in_bf16 else (op, _wide_constant(b, w))
    wide: Value = b(op, x, w, *rest)
    return wide


def _wide_constant(b: Builder, value: Value) -> Value:
    """``value`` in f32; a constant is converted at compile time."""
    array = constant_array(value, b.module)
    if array is None:
        wide: Value = b(Cast(F32), value)
        return wide
    return b.const(array.astype(F32.numpy))


def _wide(b: Builder, value: Value | None) -> Value | None:
    if value is None or value.type.dtype not in HALVES:
        return value
    return _unrounded(b, value) or _wide_constant(b, value)


def _is_rounded(value: Value) -> bool:
    """Whether ``value`` was rounded from an f32 value, also through views; only for images, or if nothing
    else reads it.
    """
    source = value.producer
    if source is None or not (_is_image(value) or used_once(value)):
        return False
    if isinstance(source.op, Cast):
        return source.op.excess and source.operand(0).type.dtype == F32
    is_view = Trait.VIEW in source.op.traits and len(source.inputs) == 1 and not source.regions
    return is_view and _is_rounded(source.operand(0))


def _unrounded(b: Builder, value: Value) -> Value | None:
    """The f32 value that ``value`` was rounded from; None if there is none."""
    return _before_rounding(b, value) if _is_rounded(value) else None


def _before_rounding(b: Builder, value: Value) -> Value:
    source = value.producer
    assert source is not None
    before = source.operand(0)
    if isinstance(source.op, Cast):
        return before
    result: Value = b(source.op, _before_rounding(b, before))
    return result


def _narrowed(b: Builder, wide: Value, result: Value) -> Value:
    to = result.type.dtype
    narrow: Value = wide if wide.type.dtype == to else b(Cast(to, excess=True), wide)
    return narrow


def _is_image(value: Value) -> bool:
    return len(value.type.dims) > 3


X = Var("x")
NARROWED = P(Cast, X, where=lambda op: op.excess)
WIDENED = P(Cast, NARROWED, where=lambda op: op.to == F32)


def _refusal(m: Match) -> str | None:
    """A kernel stores each value that it computes once: a result must not be an input of the kernel, or
    stored twice.
    """
    value = m[X]
    if value.type.dtype != F32:
        return f"the original value has type {value.type.dtype}"
    if m.root.output.is_output and (value.producer is None or value.is_output):
        return "the kernel would return an input, or one value twice"
    return None


@dataclass(frozen=True)
class KeepExcessPrecision(Pass):
    """Removes casts to 16 bits and back inside a kernel. A contraction with only such casts after it becomes
    a node without a region: an epilogue has at least one node.
    """

    rules: RulePass = RulePass(
        "keep_excess_precision",
        (Rule("narrowing and widening casts", WIDENED, _refusal, lambda b, m: m[X]),),
    )
    name: str = "keep_excess_precision"

    def run(self, module: Module, record: Record) -> bool:
        if not self.rules.run(module, record):
            return False
        for _, node, _ in list(nodes_of(module, Fused)):
            if _is_contraction(region_of(node)):
                inline_region(node, region_of(node), [v for v in node.inputs if v is not None])
                record.did("epilogues without nodes removed")
        return True


def _is_contraction(region: Graph) -> bool:
    """Whether ``region`` computes nothing after its contraction."""
    ops = [node.op for node in region if not node.is_constant]
    return len(ops) == 1 and Trait.CONTRACTION in ops[0].traits


KEEP_EXCESS_PRECISION = KeepExcessPrecision()
