"""Packs weights to the layout that a library kernel reads: once if they are constant, else before each
launch.
"""

from __future__ import annotations

from graphwright.ir.graph import Node, Value
from graphwright.ir.loops.nodes import Load, Position, Scalar, Store, apply
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import Layout, Shape, TensorType
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.loops.kernel_builder import KernelBuilder, nest


def packed(
    value: Value,
    layout: Layout,
    node: Node,
    context: Context,
    shape: tuple[int, ...] | None = None,
    scale: Value | None = None,
) -> Value:
    """``value`` in ``layout``, for ``node``; ``shape`` is the view of the value that the layout applies to.

    ``scale`` [images, channels, 1...] multiplies axis 1 before each launch; the result then has one array for
    each image.
    """
    dims = value.type.dims if shape is None else shape
    result = context.packed(value, layout, shape) if context.constant(value) is not None else None
    if result is None:
        result = _rearranged(value, layout, dims, node, context)
    return result if scale is None else _scaled(result, layout, dims, scale, node, context)


def _rearranged(value: Value, layout: Layout, dims: Shape, node: Node, context: Context) -> Value:
    """A non-constant ``value`` with shape ``dims``, rearranged to ``layout`` before each launch."""
    type = TensorType(value.type.dtype, layout.physical_shape(dims))
    target = context.temporary(type, "packed")
    builder = KernelBuilder(node, context, "pack")
    names = [f"p{k}" for k in range(len(type.dims))]
    index, inside = _logical(layout, names, tuple(map(builder.size, dims)))
    element = Load(builder.input(value, dims), index, inside)
    memory_index = tuple(symbol(name) for name in names)
    store = Store(builder.output(target, type.dims), memory_index, element)
    body = nest(tuple(zip(names, map(builder.size, type.dims), strict=True)), store)
    context.prepare(builder.launch(body))
    return target


def _scaled(value: Value, layout: Layout, dims: Shape, scale: Value, node: Node, context: Context) -> Value:
    """``value``, which is in ``layout`` and has shape ``dims``, with axis 1 multiplied by ``scale``."""
    one, images = layout.physical_shape(dims), scale.type.dims[0]
    target = context.temporary(TensorType(value.type.dtype, (images, *one)), "scaled")
    builder = KernelBuilder(node, context, "scale_weights")
    names = [f"p{k}" for k in range(len(one))]
    index, inside = _logical(layout, names, tuple(map(builder.size, dims)))
    image, memory_index = symbol("image"), tuple(symbol(name) for name in names)
    factor = Load(builder.input(scale, (images, dims[1])), (image, index[1]), inside)
    element = Load(builder.input(value, one), memory_index) * factor
    store = Store(builder.output(target, target.type.dims), (image, *memory_index), element)
    sizes = map(builder.size, target.type.dims)
    context.prepare(builder.launch(nest(tuple(zip(("image", *names), sizes, strict=True)), store)))
    return target


def repeated(value: Value, times: Dim, node: Node, context: Context) -> Value:
    """``value`` repeated ``times`` times in memory, before each launch."""
    count = product(value.memory_shape)
    target = context.temporary(TensorType(value.type.dtype, (times, count)), "repeated")
    builder = KernelBuilder(node, context, "repeat")
    index = (symbol("image"), symbol("i"))
    store = Store(
        builder.output(target, (times, count)), index, Load(builder.input(value, (count,)), index[1:])
    )
    context.prepare(builder.launch(nest((("image", builder.size(times)), ("i", builder.size(count))), store)))
    return target


def _logical(
    layout: Layout, names: list[str], dims: tuple[Dim, ...]
) -> tuple[tuple[Dim, ...], Scalar | None]:
    """The logical index of each element of the packed array, and the condition that it is not padding."""
    outer = {axis: symbol(name) for axis, name in zip(layout.order, names, strict=False)}
    inner = dict(zip((axis for axis, _ in layout.blocks), names[len(layout.order) :], strict=True))
    index: list[Dim] = [outer[axis] for axis in range(len(dims))]
    inside: Scalar | None = None
    for axis, size in layout.blocks:
        index[axis] = index[axis] * size + symbol(inner[axis])
        if dims[axis] % size != 0:
            below = Position(index[axis]) < Position(dims[axis])
            inside = below if inside is None else apply("and", inside, below)
    return tuple(index), inside
