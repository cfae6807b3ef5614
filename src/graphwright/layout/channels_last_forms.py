"""How nodes are rewritten for channels-last images, and how much time that saves.

A channels-first image has type [N, C, D...], a channels-last image has type [N, D..., C]: the order of axes
is part of the type, so later passes need no special case. Transposes between the two vanish, and 1x1
convolutions become matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import numpy as np

from graphwright.cost.images import DIRECT, PLANAR, channels_last_work, direct_work
from graphwright.ir.build import Builder
from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.channels_last import to_first, to_last
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.blocked_form import CHANNELS
from graphwright.ir.match import constant_array
from graphwright.ir.op import Trait, reduction_op
from graphwright.ir.symbols import product
from graphwright.ir.types import F32
from graphwright.layout.choose import LayoutChoice
from graphwright.layout.convolution_costs import convolution_ns
from graphwright.layout.costs import LayoutCosts
from graphwright.ops.core.binary import Add
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.channels_last_conv import ChannelsLastConv
from graphwright.ops.nn.conv import MAX_PLANAR_CHANNELS, Conv
from graphwright.ops.nn.spatial import is_depthwise
from graphwright.passes.canonicalize_transposes import permutation
from graphwright.records import dataclass

Rewrite = Callable[[Builder, Node, Sequence[Value]], Value]
"""Builds the replacement of a node from the operands that are present. The chosen operands are
channels-last.
"""
IMAGE = frozenset({0})
NONE: frozenset[int] = frozenset()


@dataclass(frozen=True)
class ChannelsLast:
    """The operands and results of a node that become channels-last, and its replacement."""

    choice: LayoutChoice
    rewrite: Rewrite


def is_image(value: Value | None) -> bool:
    """Whether ``value`` can be channels-last: its number of channels is known, and it has spatial axes."""
    if value is None or value.type.shape is None or len(value.type.dims) not in (3, 4):
        return False
    return isinstance(value.type.dims[CHANNELS], int)


def channels_last_form(node: Node, costs: LayoutCosts) -> ChannelsLast | str:
    """How ``node`` is rewritten for channels-last, or the reason why it cannot be."""
    if len(node.outputs) != 1 or any(v.type.shape is None for v in (*node.inputs, *node.outputs) if v):
        return "the rank of a value is not known"
    if isinstance(node.op, Transpose):
        return _transpose(node, costs)
    if isinstance(node.op, Conv):
        return _convolution(node, node.op, costs)
    if Trait.ELEMENTWISE in node.op.traits:
        return _elementwise(node)
    if Trait.VIEW in node.op.traits:
        return _view(node)
    if Trait.REDUCTION in node.op.traits:
        return _reduction(node)
    return f"{node.op.name} needs channels-first images"


# ---- transposes


def _transpose(node: Node, costs: LayoutCosts) -> ChannelsLast | str:
    """A Transpose from or to channels-last vanishes: its operand or result becomes channels-last."""
    x, y, perm = node.operand(0), node.output, permutation(node)
    rank = len(y.type.dims)
    reads_image = perm == to_last(rank) and is_image(x)
    makes_image = perm == to_first(rank) and is_image(y)
    if reads_image and makes_image:  # ambiguous with one spatial axis
        reads_image, makes_image = _joins_pixels(x), _is_split(y)
    if reads_image == makes_image:
        return "it does not move the channel axis of an image"
    saves = costs.transfer_ns(x if reads_image else y)
    choice = LayoutChoice(IMAGE, NONE, saves) if reads_image else LayoutChoice(NONE, IMAGE, saves)
    return ChannelsLast(choice, lambda _b, _node, operands: operands[0])


def _joins_pixels(value: Value) -> bool:
    """Whether ``value`` is a view with one spatial axis of an image with two."""
    node = value.producer
    return node is not None and Trait.VIEW in node.op.traits and len(node.operand(0).type.shape or ()) == 4


def _is_split(value: Value) -> bool:
    """Whether ``value`` is viewed as an image with two spatial axes."""
    return any(Trait.VIEW in user.op.traits and user.output.type.rank == 4 for user in value.users)


def _view(node: Node) -> ChannelsLast | str:
    """A view that only reshapes the spatial axes."""
    x, y = node.operand(0), node.output
    if not is_image(x) or not is_image(y) or x.type.dims[: CHANNELS + 1] != y.type.dims[: CHANNELS + 1]:
        return "the view reshapes channels"
    return ChannelsLast(LayoutChoice(IMAGE, IMAGE), _viewed)


def _viewed(b: Builder, node: Node, operands: Sequence[Value]) -> Value:
    dims = node.output.type.dims
    return reshaped(b, operands[0], tuple(dims[axis] for axis in to_last(len(dims))))


# ---- elementwise ops and reductions


def _elementwise(node: Node) -> ChannelsLast | str:
    """An elementwise op. Each operand must be a constant, a single element, or an image of the result's
    rank.
    """
    y = node.output
    if not is_image(y):
        return "the result is not an image"
    rank = len(y.type.dims)
    moved = []
    for position, value in enumerate(node.inputs):
        if value is None or is_constant(value) or value.type.shape in ((), (1,)):
            continue
        if not is_image(value) or len(value.type.dims) != rank:
            return f"an operand has type {value.type}"
        moved.append(position)
    if not moved:
        return "no operand is an image"
    return ChannelsLast(LayoutChoice(frozenset(moved), IMAGE), _computed)


def _computed(b: Builder, node: Node, operands: Sequence[Value]) -> Value:
    rank = len(node.output.type.dims)
    given = iter(operands)
    permuted = (None if v is None else _to_last(b, next(given), rank) for v in node.inputs)
    result: Value = b(node.op, *permuted)
    return result


def _to_last(b: Builder, value: Value, rank: int) -> Value:
    """``value`` permuted to channels-last if it is a constant. Other values are already in that order."""
    array = constant_array(value, b.module)
    if array is None or array.ndim == 0 or array.shape == (1,):
        return value
    full = array.reshape((1,) * (rank - array.ndim) + array.shape)
    return b.const(np.ascontiguousarray(np.transpose(full, to_last(rank))))


def _reduction(node: Node) -> ChannelsLast | str:
    """A reduction over the same axes, at their new positions."""
    x, reduction = node.operand(0), reduction_op(node.op)
    if not is_image(x) or any(v is not None for v in node.inputs[1:]):
        return "the operand is not an image, or the axes are not constant"
    rank = len(x.type.dims)
    axes = reduction.resolved(rank)
    if reduction.keepdims:
        return ChannelsLast(LayoutChoice(IMAGE, IMAGE), partial(_reduced, axes=axes))
    if CHANNELS not in axes and len(axes) < rank - CHANNELS - 1:
        return "channels and some spatial axes remain, but the result is not an image"
    return ChannelsLast(LayoutChoice(IMAGE, NONE), partial(_reduced, axes=axes))


def _reduced(b: Builder, node: Node, operands: Sequence[Value], axes: Sequence[int]) -> Value:
    order = to_last(len(node.operand(0).type.dims))
    op = reduction_op(node.op).with_axes(tuple(sorted(order.index(axis) for axis in axes)))
    result: Value = b(op, *operands[:1])
    return result


# ---- convolutions


def _convolution(node: Node, op: Conv, costs: LayoutCosts) -> ChannelsLast | str:
    x, w, y = node.operand(0), node.operand(1), node.output
    if not is_image(x) or not is_image(y) or x.type.dtype != F32 or op.precision is not None or op.auto_pad:
        return f"no channels-last convolution for {x.type}"
    if not all(is_constant(v) for v in node.inputs[1:] if v is not None):
        return "its weights are not constant"
    if is_product(op, w):
        return ChannelsLast(LayoutChoice(IMAGE, IMAGE, _saves_ns(op, x, w, y, costs)), _product)
    planes = reads_planes(op, w)
    conv = ChannelsLastConv(op.strides, op.pads, op.dilations, op.group, planes)
    if not conv.fills_blocks(x, w):
        return "its channels do not fill whole blocks"
    choice = LayoutChoice(NONE if planes else IMAGE, IMAGE, _saves_ns(op, x, w, y, costs))
    return ChannelsLast(choice, lambda b, _node, operands: b(conv, *operands))


def reads_planes(op: Conv, w: Value) -> bool:
    """Whether the convolution has too few input channels to fill a vector, such as the three of a picture."""
    return op.group == 1 and w.type.sizes[1] <= MAX_PLANAR_CHANNELS


def is_product(op: Conv, w: Value) -> bool:
    """Whether the convolution is a matrix product: 1x1 with stride 1, without padding or groups."""
    return (
        op.group == 1
        and set(w.type.dims[CHANNELS + 1 :]) == {1}
        and set(op.strides) <= {1}
        and set(op.pads) <= {0}
    )


def _product(b: Builder, node: Node, operands: Sequence[Value]) -> Value:
    x, w, *bias = operands
    array = constant_array(w, b.module)
    assert array is not None
    product = b(MatMul(), x, b.const(np.ascontiguousarray(array.reshape(array.shape[:2]).T)))
    result: Value = b(Add(), product, *bias) if bias else product
    return result


def _saves_ns(op: Conv, x: Value, w: Value, y: Value, costs: LayoutCosts) -> float:
    """The time that channels-last saves: 0, or negative if another layout is faster."""
    (cout, cin, *kernel), planes = w.type.sizes, reads_planes(op, w)
    row_major, blocked = convolution_ns(op, w, y, costs, planes=planes)
    read, written = (costs.nominal(v.type.elements) // costs.lanes for v in (x, y))
    moved = costs.ns(channels_last_work(0 if planes else read, written))
    if is_depthwise(op.group, w.type.dims):
        return min(0, row_major - blocked - moved, -moved)
    pixels = costs.nominal(y.type.dims[0]) * costs.nominal(product(y.type.dims[CHANNELS + 1 :]))
    reached = PLANAR if planes else DIRECT
    work = direct_work(costs.lanes, pixels, cout // op.group, cin * prod(kernel), reached)
    last = op.group * costs.ns(work) + (0 if is_product(op, w) else moved)
    return min(0, min(row_major, blocked) - last)
