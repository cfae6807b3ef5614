"""Fourier transforms of rows."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.ir.symbols import numbers, product
from graphwright.ir.types import F32
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, launch_of
from graphwright.kernels.signal.fft import ABI, SYMBOL, Fft, sides, table
from graphwright.ops.core.dft import DFT


def _is_fast(node: Node[DFT]) -> bool:
    """Whether the length of the rows has only small factors; other transforms are matrix products."""
    op, shape = node.op, node.operand(0).type.shape
    if node.operand(0).type.dtype != F32 or shape is None or len(node.inputs) > 1 or op.axis is None:
        return False
    length = op.full_length(shape[op.axis])
    if op.axis % len(shape) != len(shape) - 2 or (op.onesided and op.inverse):
        return False
    known = all(isinstance(size, int) for size in (length, *shape[-2:]))
    return known and isinstance(length, int) and sides(length) is not None


@candidate(DFT, serves=_is_fast)
def fast_transform(node: Node[DFT], context: Context) -> Launch | str:
    """One launch in f32; ``serves`` leaves other lengths to matrix products."""
    op, x, y = node.op, node.operand(0), node.output
    assert op.axis is not None
    *rest, dim, parts = x.type.dims
    dim, parts, length, bins = numbers((dim, parts, op.full_length(dim), y.type.dims[-2]))
    kernel = Fft(product(tuple(rest)), dim, length, parts, bins, op.inverse)
    factors = context.table(table(length, op.inverse), "factors")
    operands = ABI.ordered(x=x, table=factors, y=y)
    return launch_of(kernel, SYMBOL, operands, ABI.positions("y"), context.isa)
