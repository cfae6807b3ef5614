"""Ops whose elements depend only on their positions: sizes, ranges, fills, triangles."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.ir.loops.nodes import Const, Load, Position, Scalar, Store, apply, cast, select
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import I64
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.loops.kernel_builder import KernelBuilder, from_end, moved_dtype, nest
from graphwright.kernels.movement.indexing_candidates import check_lengths
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.eye_like import EyeLike
from graphwright.ops.core.one_hot import OneHot
from graphwright.ops.core.range import Range
from graphwright.ops.core.reverse_sequence import ReverseSequence
from graphwright.ops.core.shape import Shape
from graphwright.ops.core.size import Size
from graphwright.ops.core.trilu import Trilu

_FAR = 1 << 40
"""An offset beyond every diagonal."""


@candidate(Shape, Size)
def sizes(node: Node, context: Context) -> Launch:
    """Writes sizes, which are known when a plan is made, to a tensor."""
    x, op = node.operand(0).type.dims, node.op
    builder = KernelBuilder(node, context)
    values: tuple[Dim, ...] = x[op.start : op.end] if isinstance(op, Shape) else (product(x),)
    y = builder.output(node.output, (len(values),))
    stores = [Store(y, (k,), Position(builder.size(value))) for k, value in enumerate(values)]
    return builder.launch(*stores)


@candidate(Range)
def range_(node: Node[Range], context: Context) -> Launch | str:
    """An integer range, whose bounds are known when a plan is made."""
    op = node.op
    if op.bounds is None or not op.dtype.is_integer:
        return "its bounds are computed at run time"
    start, _, step = op.bounds
    if isinstance(start, float) or isinstance(step, float):
        return "its start or step is not an integer"
    builder = KernelBuilder(node, context)
    count = node.output.type.elements
    value = Position(builder.size(start) + symbol("i") * builder.size(step))
    store = Store(builder.output(node.output, (count,)), (symbol("i"),), cast(value, op.dtype))
    return builder.launch(nest((("i", builder.size(count)),), store))


@candidate(ConstantOfShape)
def constant_of_shape(node: Node[ConstantOfShape], context: Context) -> Launch | str:
    """Fills the result with one value."""
    op = node.op
    if not context.target.has_code(op.dtype):
        return f"no kernel that fills with {op.dtype}"
    builder = KernelBuilder(node, context)
    count = node.output.type.elements
    store = Store(builder.output(node.output, (count,)), (symbol("i"),), Const(op.value, op.dtype))
    return builder.launch(nest((("i", builder.size(count)),), store))


@candidate(EyeLike)
def eye_like(node: Node[EyeLike], context: Context) -> Launch | str:
    """Ones on a diagonal, zeros elsewhere."""
    op, y = node.op, node.output
    if not context.target.has_code(y.type.dtype):
        return f"no kernel that fills with {y.type.dtype}"
    builder = KernelBuilder(node, context)
    rows, columns = y.type.dims
    r, c = symbol("r"), symbol("c")
    diagonal = Position(r + max(-_FAR, min(op.k, _FAR)))
    one, zero = Const(1, y.type.dtype), Const(0, y.type.dtype)
    hit: Scalar = select(apply("eq", Position(c), diagonal), one, zero)
    store = Store(builder.output(y, y.type.dims), (r, c), hit)
    body = nest((("r", builder.size(rows)), ("c", builder.size(columns))), store)
    return builder.launch(body)


@candidate(Trilu)
def trilu(node: Node[Trilu], context: Context) -> Launch | str:
    """Keeps the triangle above or below a diagonal, which may be a run-time value; zeros elsewhere."""
    op, x, y = node.op, node.operand(0), node.output
    dtype = moved_dtype(x.type.dtype)
    if dtype is None:
        return f"no kernel that moves {x.type.dtype}"
    *batch, rows, columns = x.type.dims
    shape = (product(batch), rows, columns)
    builder = KernelBuilder(node, context)
    index = (symbol("b"), symbol("r"), symbol("c"))
    source = builder.input(x, shape, dtype)
    if len(node.inputs) > 1:
        k: Scalar = Load(builder.input(node.operand(1), ()), ())
        near = apply("max", apply("min", cast(k, I64), Const(_FAR, I64)), Const(-_FAR, I64))
        diagonal = Position(symbol("r")) + near
    else:
        diagonal = Position(symbol("r") + max(-_FAR, min(op.k or 0, _FAR)))
    column = Position(symbol("c"))
    kept = diagonal <= column if op.upper else column <= diagonal
    store = Store(builder.output(y, shape, dtype), index, select(kept, Load(source, index), Const(0, dtype)))
    body = nest(tuple(zip("brc", map(builder.size, shape), strict=True)), store)
    return builder.launch(body)


@candidate(OneHot)
def one_hot(node: Node[OneHot], context: Context) -> Launch | str:
    """The on-value where the index equals the position, else the off-value."""
    op, indices, values, y = node.op, node.operand(0), node.operand(1), node.output
    dtype = moved_dtype(y.type.dtype)
    if dtype is None or op.depth is None or not context.target.has_code(indices.type.dtype):
        return f"no kernel that moves {y.type.dtype}"
    axis = op.axis % len(y.type.dims)
    outer, inner = product(y.type.dims[:axis]), product(y.type.dims[axis + 1 :])
    builder = KernelBuilder(node, context)
    table = builder.input(indices, (outer, inner))
    pair = builder.input(values, (2,), dtype)
    o, d, i = symbol("o"), symbol("d"), 0 if inner == 1 else symbol("i")
    index = from_end(Load(table, (o, i)), builder.size(op.depth))
    hit = select(apply("eq", index, Position(d)), Load(pair, (1,)), Load(pair, (0,)))
    store = Store(builder.output(y, (outer, op.depth, inner), dtype), (o, d, i), hit)
    axes = [("o", builder.size(outer)), ("d", builder.size(op.depth)), ("i", builder.size(inner))]
    body = nest(axes[:2] if inner == 1 else axes, store)
    return builder.launch(body)


@candidate(ReverseSequence)
def reverse_sequence(node: Node[ReverseSequence], context: Context) -> Run | str:
    """Reverses the first elements of each sequence; the lengths are run-time values."""
    op, x, lengths, y = node.op, node.operand(0), node.operand(1), node.output
    dtype = moved_dtype(x.type.dtype)
    if dtype is None:
        return f"no kernel that moves {x.type.dtype}"
    first, second, *rest = x.type.dims
    shape = (first, second, product(rest))
    builder = KernelBuilder(node, context)
    a, b, i = symbol("a"), symbol("b"), symbol("i")
    batch, time = (a, b) if op.batch_axis == 0 else (b, a)
    length = cast(Load(builder.input(lengths, lengths.type.dims), (batch,)), I64)
    step = Position(time)
    turned = select(step < length, length - Const(1, I64) - step, step)
    source = builder.input(x, shape, dtype)
    index = (turned, b, i) if op.time_axis == 0 else (a, turned, i)
    store = Store(builder.output(y, shape, dtype), (a, b, i), Load(source, index))
    body = nest(tuple(zip("abi", map(builder.size, shape), strict=True)), store)
    check = check_lengths(lengths, x.type.dims[op.time_axis], y, context)
    return Run((check, builder.launch(body)))
