"""Attention in one launch, for any axis order of the operands."""

from __future__ import annotations

from graphwright.ir.graph import Node, Value
from graphwright.ir.symbols import Dim
from graphwright.ir.types import F32
from graphwright.kernels.attention.attention import ABI, BF16_SYMBOL, SYMBOL, Attention, Four, Guard
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch
from graphwright.kernels.ref import KernelRef
from graphwright.kernels.strides import row_major_strides
from graphwright.ops.nn.attention import Axes, ScaledDotProductAttention


@candidate(ScaledDotProductAttention)
def scaled_dot_product_attention(node: Node[ScaledDotProductAttention], context: Context) -> Launch | str:
    """One launch in f32, for any axis order."""
    op, mask = node.op, node.inputs[3] if len(node.inputs) > 3 else None
    q, k, v = (node.operand(position) for position in range(3))
    batch, heads, queries, depth = _ordered(q.type.dims, op.q_axes)
    _, kv_heads, keys, _ = _ordered(k.type.dims, op.k_axes)
    if heads != kv_heads and not isinstance(kv_heads, int):
        return "the heads of queries and keys may differ, and are not known"
    y_axes = tuple(op.y_axes.index(axis) for axis in range(4))
    attention = Attention(
        batch, heads, kv_heads, queries, keys, depth,
        width=v.type.dims[op.v_axes[3]],
        q_strides=_strides(q, op.q_axes), k_strides=_strides(k, op.k_axes), v_strides=_strides(v, op.v_axes),
        y_strides=_strides(node.output, y_axes), mask_strides=_mask_strides(mask),
        scale=op.scale, softcap=op.softcap, causal=op.causal, offset=op.offset, guard=Guard[op.guard.upper()],
        fill=op.fill,
    )  # fmt: skip
    isa, in_bf16 = context.isa, op.precision is not None
    flags = tuple(int(x.type.dtype == F32) for x in (k, v)) if in_bf16 else ()
    costs = (
        (*attention.args, *flags),
        attention.grid(isa),
        attention.scratch_bytes(isa),
        attention.work_ns(isa, in_bf16),
    )
    operands = ABI.ordered(q=q, k=k, v=v, mask=mask, y=node.output)
    kernel = KernelRef(BF16_SYMBOL if in_bf16 else SYMBOL)
    return Launch(kernel, operands, ABI.positions("y"), *costs)


def _ordered(dims: tuple[Dim, ...], axes: Axes) -> Four:
    first, second, third, fourth = (dims[axis] for axis in axes)
    return first, second, third, fourth


def _strides(value: Value, axes: Axes) -> Four:
    return _ordered(row_major_strides(value.type.dims), axes)


def _mask_strides(mask: Value | None) -> Four:
    """The strides of the mask, ordered batch, head, query, key; 0 where it is broadcast."""
    if mask is None:
        return (0, 0, 0, 0)
    dims = mask.type.dims
    strides = [0 if d == 1 else s for d, s in zip(dims, row_major_strides(dims), strict=True)]
    return _ordered((*[0] * (4 - len(dims)), *strides), (0, 1, 2, 3))
