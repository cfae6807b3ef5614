"""Generated matrix multiplications, for dtypes and broadcasts of batches that the
library does not support.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.graph import Node, Value
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Buffer,
    Call,
    Kind,
    Level,
    Load,
    Loop,
    Statement,
    Store,
    Tile,
    cast,
)
from graphwright.ir.symbols import Dim, minimum, symbol
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch
from graphwright.kernels.loops.kernel_builder import KernelBuilder, nest
from graphwright.kernels.strides import row_major_strides
from graphwright.ops.core.matmul import MatMul

_ROWS, _COLUMNS = 48, 128
"""The tile of the result per unit; its accumulators stay in the L1 cache."""


@candidate(MatMul)
def product_of_matrices(node: Node[MatMul], context: Context) -> Launch | str:
    """Generated loops, for dtypes that the library does not multiply."""
    if node.op.precision is not None:
        return f"its operands are rounded to {node.op.precision}"
    dtype, a, b = node.output.type.dtype, node.operand(0), node.operand(1)
    if not context.target.has_code(dtype) or dtype.computed != dtype:
        return f"no kernel that multiplies {dtype}"
    builder = KernelBuilder(node, context)
    a_shape = a.type.dims if len(a.type.dims) > 1 else (1, *a.type.dims)
    b_shape = b.type.dims if len(b.type.dims) > 1 else (*b.type.dims, 1)
    (m, k), n = a_shape[-2:], b_shape[-1]
    rank = max(len(a_shape), len(b_shape)) - 2
    batch = _broadcast(a_shape[:-2], b_shape[:-2], rank)
    names = [f"b{axis}" for axis in range(rank)]
    left = _operand(builder, a, a_shape, batch)
    right = _operand(builder, b, b_shape, batch)
    result = builder.output(node.output, (*batch, m, n))
    sizes = builder.size(m), builder.size(n), builder.size(k)
    make = _tiled if dtype.bytes >= 4 else _columns_at_once
    loops = make(left, right, result, tuple(symbol(name) for name in names), sizes)
    axes = tuple(zip(names, map(builder.size, batch), strict=True))
    body = nest(axes, loops, innermost=Kind.PARALLEL) if axes else loops
    return builder.launch(body)


def _operand(builder: KernelBuilder, value: Value, shape: Sequence[Dim], batch: Sequence[Dim]) -> Buffer:
    """``value`` viewed over all of ``batch``; broadcast axes have stride 0."""
    missing = len(batch) + 2 - len(shape)
    steps = [
        0 if size == 1 else step
        for size, step in zip(shape[:-2], row_major_strides(tuple(shape)), strict=False)
    ]
    strides = (*[0] * missing, *steps, shape[-1], 1)
    return builder.input(value, (*batch, *shape[-2:]), strides=strides)


def _broadcast(a: Sequence[Dim], b: Sequence[Dim], rank: int) -> tuple[Dim, ...]:
    padded = zip((*[1] * (rank - len(a)), *a), (*[1] * (rank - len(b)), *b), strict=True)
    return tuple(y if x == 1 else x for x, y in padded)


def _tiled(
    left: Buffer, right: Buffer, result: Buffer, batch: tuple[Dim, ...], sizes: tuple[Dim, Dim, Dim]
) -> Loop:
    """Computes tiles by the microkernel."""
    m, n, k = sizes
    row, column, r, c = symbol("row"), symbol("column"), symbol("r"), symbol("c")
    rows, columns = minimum(m - row, _ROWS), minimum(n - column, _COLUMNS)
    sums = Buffer("sums", result.dtype, (_ROWS, _COLUMNS), Level.CACHE)
    ones = (1,) * len(batch)
    call = Call(
        "matmul",
        Tile(sums, (0, 0), (rows, columns)),
        (
            Tile(left, (*batch, row, 0), (*ones, rows, k)),
            Tile(right, (*batch, 0, column), (*ones, k, columns)),
        ),
    )
    store = Store(result, (*batch, row + r, column + c), Load(sums, (r, c)))
    stores = Loop("r", Kind.SERIAL, rows, (Loop("c", Kind.VECTOR, columns, (store,)),))
    inner = Loop("column", Kind.PARALLEL, n, (Alloc(sums, 0), call, stores), _COLUMNS)
    return Loop("row", Kind.PARALLEL, m, (inner,), _ROWS)


def _columns_at_once(
    left: Buffer, right: Buffer, result: Buffer, batch: tuple[Dim, ...], sizes: tuple[Dim, Dim, Dim]
) -> Loop:
    """Computes a vector of columns at a time."""
    m, n, k = sizes
    r, c, i = symbol("r"), symbol("c"), symbol("i")
    total = Buffer("total", result.dtype, (), Level.REGISTER)
    factors = Load(left, (*batch, r, i)), Load(right, (*batch, i, c))
    terms = Loop("i", Kind.SERIAL, k, (Accumulate(total, (), "add", factors[0] * factors[1]),))
    statements: tuple[Statement, ...] = (
        Alloc(total, 0), terms, Store(result, (*batch, r, c), cast(Load(total, ()), result.dtype))
    )  # fmt: skip
    return nest((("r", m), ("c", n)), *statements)
