"""The time that blocked layouts save per node, on which the layout pass decides.

The op says which operands and results are blocked (:mod:`graphwright.ir.blocked_form`); for a region it
follows from its nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from graphwright.cost.images import (
    DIRECT,
    PLANAR,
    TRANSPOSED,
    WINOGRAD,
    blocked_depthwise_work,
    blocked_pool_work,
    direct_work,
    im2col_work,
    planar_depthwise_work,
    planar_pool_work,
    pools_pairs,
    reblock_work,
)
from graphwright.cost.machine import Machine
from graphwright.cost.nominal import nominal
from graphwright.cost.predict import Work, predict, stream_ns
from graphwright.ir.blocked_form import CHANNELS, Blocked, BlockedForm, can_be_blocked
from graphwright.ir.constant import Constant, is_constant
from graphwright.ir.fused import Fused, region_of
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.op import Op, Trait, reduction_op
from graphwright.ir.symbols import Dim, SymbolTable, evaluate, product
from graphwright.layout.choose import LayoutChoice
from graphwright.layout.cut import INFINITE
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.scaled_conv import ScaledConv
from graphwright.ops.nn.spatial import Pool
from graphwright.records import dataclass, field

Operands = Sequence[Value | None]


@dataclass(frozen=True)
class Blocks:
    """Blocks of ``lanes`` channels, the machine that costs are predicted for, and known facts about sizes."""

    lanes: int
    machine: Machine
    symbols: SymbolTable = field(default_factory=SymbolTable)

    def nominal(self, dim: Dim) -> int:
        """The nominal value of ``dim`` (:func:`nominal`)."""
        return nominal(dim, self.symbols)

    def ns(self, work: Work) -> int:
        """The predicted time of ``work`` in nanoseconds."""
        return evaluate(predict(work, self.machine), {})


def form_of(node: Node, blocks: Blocks) -> LayoutChoice | str:
    """How ``node`` works on blocked layouts, or why it does not."""
    return region(node, blocks) if isinstance(node.op, Fused) else _form(node, node.inputs, blocks)


def _form(node: Node, operands: Sequence[Value | None], blocks: Blocks) -> LayoutChoice | str:
    """``operands``: those of ``node``, seen from outside a region."""
    op = node.op
    if not isinstance(op, BlockedForm):
        return f"{op.name} has no kernel for blocked layouts"
    form = op.blocked_form(node, operands, blocks.lanes)
    if isinstance(form, str):
        return form
    if form.only:
        return LayoutChoice(form.operands, form.results, INFINITE)
    saving = next((saving for kind, saving in _SAVINGS.items() if isinstance(op, kind)), None)
    if saving is None:
        return LayoutChoice(form.operands, form.results, -_widest_waste(node, form, blocks))
    return LayoutChoice(form.operands, form.results, saving(op, form, operands, node.output, blocks))


def transfer_ns(value: Value, blocks: Blocks) -> int:
    """The time to convert ``value`` between the layouts, in nanoseconds."""
    channels = value.type.dims[CHANNELS]
    assert isinstance(channels, int)
    pixels = blocks.nominal(product(value.type.dims[CHANNELS + 1 :]))
    planes = blocks.nominal(value.type.dims[0]) * -(-channels // blocks.lanes)
    return blocks.machine.task_ns + blocks.ns(reblock_work(blocks.lanes, planes, pixels))


def _convolution(
    op: Conv, form: Blocked, operands: Sequence[Value | None], y: Value, blocks: Blocks
) -> float:
    w = operands[1]
    assert w is not None
    planar, blocked = convolution_ns(op, w, y, blocks, planes=not form.operands)
    return planar - blocked - (_waste(y, blocks) if is_depthwise(op, w) else 0)


def is_depthwise(op: Conv, w: Value) -> bool:
    """Whether each channel is a group of its own."""
    return w.type.dims[1] == 1 and w.type.dims[0] == op.group > 1


def convolution_ns(op: Conv, w: Value, y: Value, blocks: Blocks, *, planes: bool) -> tuple[int, int]:
    """The time of a convolution with weights ``w`` and result ``y``, row-major and blocked, in nanoseconds.
    ``planes``: the input is not blocked in either case.
    """
    cout, cin, *kernel = w.type.sizes
    if is_depthwise(op, w):
        return _planar_depthwise_ns(y, kernel, blocks), _blocked_depthwise_ns(y, kernel, blocks)
    group, taps = op.group, cin * math.prod(kernel)
    images = blocks.nominal(y.type.dims[0])
    pixels = blocks.nominal(
        product(y.type.dims[CHANNELS + 1 :])
    )  # vectorized over pixels if row-major, over channels if blocked
    rows = im2col_work(blocks.lanes, images * _whole(pixels, blocks), cout // group, taps)
    plain = group == 1 and kernel == [3, 3] and set(op.strides) <= {1}
    reached = WINOGRAD if plain and min(cin, cout) >= blocks.lanes else PLANAR if planes else DIRECT
    direct = direct_work(blocks.lanes, images * pixels, cout // group, taps, reached)
    return group * blocks.ns(rows), group * blocks.ns(direct)


def _whole(count: int, blocks: Blocks) -> int:
    """``count`` rounded up to whole vectors."""
    return -(-count // blocks.lanes) * blocks.lanes


def _planar_depthwise_ns(y: Value, kernel: Sequence[int], blocks: Blocks) -> int:
    """Row-major depthwise convolution, plane by plane; the last vector of a row is rarely full."""
    rows, columns = (1, *y.type.dims[CHANNELS + 1 :])[-2:]
    planes = blocks.nominal(product(y.type.dims[: CHANNELS + 1]))
    vectors = blocks.nominal(rows) * -(-blocks.nominal(columns) // blocks.lanes)
    return blocks.ns(planar_depthwise_work(planes, planes * vectors, math.prod(kernel)))


def _blocked_depthwise_ns(y: Value, kernel: Sequence[int], blocks: Blocks) -> int:
    """Blocked depthwise convolution, one vector of channels per pixel; unused lanes are counted separately,
    as waste.
    """
    vectors = blocks.nominal(y.type.elements) // blocks.lanes
    return blocks.ns(blocked_depthwise_work(blocks.lanes, vectors, math.prod(kernel)))


def _transposed(
    op: ConvTranspose, form: Blocked, operands: Sequence[Value | None], y: Value, blocks: Blocks
) -> float:
    x, w = operands[:2]
    assert x is not None and w is not None
    _, cout, *kernel = w.type.sizes
    products = blocks.nominal(x.type.elements) * cout * math.prod(kernel)
    columns = cout if can_be_blocked(y) else cout * math.prod(kernel)
    padded = products * _whole(columns, blocks) // columns
    row_major = blocks.ns(Work(fmas=products, efficiency=TRANSPOSED))
    return row_major - blocks.ns(Work(fmas=padded, efficiency=DIRECT))


def _pooling(op: Pool, form: Blocked, operands: Operands, y: Value, blocks: Blocks) -> float:
    x = operands[0]
    assert x is not None
    return _planar_pool_ns(op, x, y, blocks) - _blocked_pool_ns(op, x, y, blocks) - _waste(y, blocks)


def _planar_pool_ns(op: Pool, x: Value, y: Value, blocks: Blocks) -> int:
    """Row-major pooling, in vectors along rows, the last of which is rarely full: rows of windows, then
    columns.
    """
    kh, kw = (1, *op.kernel)[-2:]
    before, after = (-(-blocks.nominal(v.type.dims[-1]) // blocks.lanes) for v in (x, y))
    rows = blocks.nominal(product(y.type.dims[:-1]))
    moved = blocks.nominal(x.type.bytes) + blocks.nominal(y.type.bytes)
    window = op.windows.on_two_axes
    pairs = pools_pairs(kw, window.strides[1], window.dilations[1], window.pads[1])
    average = isinstance(op, AveragePool)
    return blocks.ns(planar_pool_work(blocks.lanes, rows, kh * before + kw * after, moved, average, pairs))


def _blocked_pool_ns(op: Pool, x: Value, y: Value, blocks: Blocks) -> int:
    """Blocked pooling, one vector of channels per pixel; unused lanes are counted separately, as waste."""
    kh, kw = (1, *op.kernel)[-2:]
    before, after = (blocks.nominal(v.type.dims[-1]) for v in (x, y))
    rows = blocks.nominal(product(y.type.dims[:-1])) // blocks.lanes
    moved = blocks.nominal(x.type.bytes) + blocks.nominal(y.type.bytes)
    average = isinstance(op, AveragePool)
    vectors = kh * before + (kw + average) * after
    return blocks.ns(blocked_pool_work(blocks.lanes, rows, vectors, moved, average))


_SAVINGS: dict[type[Op], Callable[[Any, Blocked, Operands, Value, Blocks], float]] = {
    Conv: _convolution,
    ScaledConv: lambda op, *rest: _convolution(op.conv, *rest),
    ConvTranspose: _transposed,
    Pool: _pooling,
}
"""The time that a blocked kernel saves against the row-major one, in nanoseconds; other ops save nothing."""


def region(node: Node, blocks: Blocks) -> LayoutChoice | str:
    """How a region works on blocked layouts: elementwise ops, reductions over pixels, and one contraction.
    Each value must have all channels, or one.
    """
    body, outer = region_of(node), dict(zip(region_of(node).inputs, node.inputs, strict=True))
    anchor = anchor_of(body)
    given = None if anchor is None else _form(anchor, [v and outer[v] for v in anchor.inputs], blocks)
    if isinstance(given, str):
        return given
    walked = walked_values(body)
    shape = max((v.type.shape or () for v in walked), key=len, default=())
    if given is not None and not given.results:
        return _into_planes(body, walked, shape, given)
    refusal = _cannot_walk(walked, shape) or next(filter(None, map(_moves, body)), None)
    if refusal is not None:
        return refusal
    blocked = {v for v in walked if has_channels(v, len(shape))}
    constants = {v for v in body.inputs if (source := outer[v]) is not None and is_constant(source)}
    passed = [v for v in (*body.inputs, *body.outputs) if v in blocked - constants]
    for value in passed:
        if len(value.type.dims) != len(shape) or not can_be_blocked(value):
            return f"{value.type} cannot be blocked"
    if anchor is not None and given is not None:
        image = anchor.operand(0)
        if not given.operands and image in blocked:
            return "the convolution needs its input row-major, but other nodes of the region blocked"
        blocked |= {image} if given.operands else set()
    return LayoutChoice(
        frozenset(k for k, v in enumerate(body.inputs) if v in blocked - constants),
        frozenset(k for k, v in enumerate(body.outputs) if v in blocked),
        given.saves if given is not None else -sum(_waste(v, blocks) for v in passed),
    )


def _into_planes(
    body: Graph, walked: Sequence[Value], shape: Sequence[Dim], given: LayoutChoice
) -> LayoutChoice | str:
    """A region whose contraction reads a blocked image and has one output channel, on which the other nodes
    work.
    """
    image, rank = _anchor_image(body), len(shape)
    if image in walked or rank != len(image.type.dims) or any(has_channels(v, rank) for v in walked):
        return "the convolution has one output channel, but other nodes of the region have more"
    return LayoutChoice(frozenset({body.inputs.index(image)}), frozenset(), given.saves)


def _anchor_image(body: Graph) -> Value:
    anchor = anchor_of(body)
    assert anchor is not None
    return anchor.operand(0)


def anchor_of(body: Graph) -> Node | None:
    """The first contraction in a region."""
    return next(iter(anchors_of(body)), None)


def anchors_of(body: Graph) -> list[Node]:
    """The contractions in a region: one, or two products that share the left operand."""
    return [n for n in body if Trait.CONTRACTION in n.op.traits]


def walked_values(body: Graph) -> list[Value]:
    """Values that the loops of a region access: all except those that only its contraction reads."""
    inputs = [v for v in body.inputs if any(Trait.CONTRACTION not in n.op.traits for n in v.users)]
    return [*inputs, *(v for n in body for v in n.outputs)]


def has_channels(value: Value, rank: int) -> bool:
    """Whether ``value``, broadcast to rank ``rank``, has more than one channel."""
    axis = channel_axis(value, rank)
    return axis >= 0 and value.type.dims[axis] != 1


def channel_axis(value: Value, rank: int) -> int:
    """The channel axis of ``value`` when it is broadcast to rank ``rank``; negative if it has none."""
    return len(value.type.dims) - rank + CHANNELS


def _cannot_walk(walked: Sequence[Value], shape: Sequence[Dim]) -> str | None:
    """Why the loops of a region cannot iterate over blocked channels of ``shape``; None if they can."""
    if len(shape) not in (3, 4):
        return f"values of rank {len(shape)} cannot be blocked"
    counts = {v.type.dims[channel_axis(v, len(shape))] for v in walked if has_channels(v, len(shape))}
    if len(counts) != 1 or not all(isinstance(c, int) for c in counts):
        return f"values have {' and '.join(sorted(map(str, counts))) or 'no'} channels"
    return None


def _moves(node: Node) -> str | None:
    """Why a node of a region is not elementwise, nor a reduction over pixels; None if it is."""
    if isinstance(node.op, Constant) or Trait.CONTRACTION in node.op.traits:
        return None
    if Trait.REDUCTION in node.op.traits:
        fold = reduction_op(node.op)
        folded = fold.resolved(len(node.operand(0).type.dims))
        stays = fold.keepdims and min(folded, default=0) > CHANNELS
        return None if stays else f"{node.op.name} reduces over or merges channels"
    stays = node.op.has_expression() and Trait.VIEW not in node.op.traits
    return None if stays else f"{node.op.name} moves elements"


def _widest_waste(node: Node, form: Blocked, blocks: Blocks) -> float:
    """The waste of the image with the most channels: the whole one of a concatenation or split."""
    images = [node.outputs[k] for k in sorted(form.results)] + [
        node.operand(k) for k in sorted(form.operands)
    ]
    return _waste(max(images, key=lambda image: blocks.nominal(image.type.dims[CHANNELS])), blocks)


def _waste(value: Value, blocks: Blocks) -> float:
    """The time to read or write the padding lanes in the last block of ``value``, in nanoseconds."""
    channels = value.type.dims[CHANNELS]
    assert isinstance(channels, int)
    wasted = blocks.nominal(value.type.bytes) * (-channels % blocks.lanes) // channels
    return evaluate(stream_ns(wasted, blocks.machine), {})
