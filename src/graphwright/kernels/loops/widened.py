"""Computes ops on small dtypes with f32 kernels: operands are widened, and results narrowed."""

from __future__ import annotations

from typing import Any

from graphwright.ir.graph import Node, Value
from graphwright.ir.loops.nodes import Load, Store, cast
from graphwright.ir.op import Op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, HALVES, I8, I16, U8, U16, DType, TensorType
from graphwright.kernels.candidates.choose import choose
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.loops.kernel_builder import KernelBuilder, nest
from graphwright.ops.core.grouped_matmul import GroupedMatMul
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.gru import GRU
from graphwright.ops.nn.lp_pool import LpPool
from graphwright.ops.nn.lstm import LSTM
from graphwright.ops.nn.max_pool import MaxPool
from graphwright.ops.nn.resize import Resize
from graphwright.ops.nn.rnn import RNN
from graphwright.ops.quantized.grouped_matmul_nbits import GroupedMatMulNBits
from graphwright.ops.quantized.matmul_nbits import MatMulNBits
from graphwright.records import replace

_EXACT = HALVES | {I8, U8, I16, U16}
"""The dtypes that f32 represents exactly."""

_WIDENED: dict[type[Op], frozenset[DType]] = {
    **dict.fromkeys(
        (MatMul, GroupedMatMul, MatMulNBits, GroupedMatMulNBits, Conv, ConvTranspose, LSTM, GRU, RNN), HALVES
    ),
    **dict.fromkeys((AveragePool, LpPool, Resize), HALVES),
    MaxPool: _EXACT,
}
"""For each op, the dtypes whose results are those of f32, rounded."""


@candidate(MatMul, GroupedMatMul, Conv)
def through_rounded_f32(node: Node[Any], context: Context) -> Run | str:
    """Rounds the factors to the precision of the product, and uses the f32 kernel."""
    precision = node.op.precision
    if precision is None:
        return "no lower precision is requested"
    factors = [_rounded(node.operand(p), precision, node, context) for p in (0, 1)]
    inputs = [*factors, *node.inputs[2:]]
    wide = Node(replace(node.op, precision=None), inputs, [node.output.type], name=node.name)
    wide.sources, wide.outputs = node.sources, node.outputs
    return _chosen(wide, context) or f"{node.op.name} has no kernel for f32 either"


def _chosen(wide: Node, context: Context) -> Run | None:
    """The kernels chosen for ``wide``; None if it has none."""
    choice = choose(wide, context)
    context.weighed += choice.others
    return choice.action if isinstance(choice.action, Run) else None


def _rounded(value: Value, precision: DType, node: Node, context: Context) -> Value:
    """``value`` in f32, rounded to ``precision``."""
    if value.type.dtype != F32:
        return _widened(value, node, context)
    narrow = context.temporary(TensorType(precision, value.type.dims), "rounded")
    context.prepare(_cast(value, narrow, node, context))
    return _widened(narrow, node, context)


@candidate(*_WIDENED)
def through_f32(node: Node, context: Context) -> Run | str:
    """Casts to f32, the f32 kernel of the op, and a cast back, for float dtypes without a kernel."""
    dtype = node.operand(0).type.dtype
    if dtype not in _WIDENED[type(node.op)] or getattr(node.op, "precision", None) is not None:
        return f"no kernel for {dtype}"
    inputs = [
        _widened(v, node, context) if v is not None and v.type.dtype == dtype else v for v in node.inputs
    ]
    outputs = [_narrow_later(v, context) if v.type.dtype == dtype else v for v in node.outputs]
    wide = Node(node.op, inputs, [v.type for v in outputs], name=node.name, sources=node.sources)
    wide.outputs = tuple(outputs)
    found = _chosen(wide, context)
    if found is None:
        return f"{node.op.name} has no kernel for f32 either"
    pairs = zip(outputs, node.outputs, strict=True)
    narrowed = (_cast(source, target, node, context) for source, target in pairs if source is not target)
    return Run((*found.launches, *narrowed), temporaries=found.temporaries)


def _widened(value: Value, node: Node, context: Context) -> Value:
    """``value`` in f32: a new constant, or a temporary."""
    array = context.constant(value)
    if array is not None:
        return context.table(array.astype(F32.numpy), value.name)
    target = context.temporary(TensorType(F32, value.type.dims), "widened")
    context.prepare(_cast(value, target, node, context))
    return target


def _narrow_later(value: Value, context: Context) -> Value:
    return context.temporary(TensorType(F32, value.type.dims), "wide")


def _cast(source: Value, target: Value, node: Node, context: Context) -> Launch:
    builder, count, i = KernelBuilder(node, context, "cast"), source.type.elements, symbol("i")
    element = Load(builder.input(source, (count,)), (i,))
    store = Store(builder.output(target, (count,)), (i,), cast(element, target.type.dtype))
    return builder.launch(nest((("i", builder.size(count)),), store))
