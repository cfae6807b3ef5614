"""Predicted times of image ops in row-major and in blocked layouts, on which the layout passes decide."""

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
from graphwright.ir.blocked_form import CHANNELS, Blocked, can_be_blocked
from graphwright.ir.graph import Node, Value
from graphwright.ir.op import Op
from graphwright.ir.symbols import Dim, SymbolTable, evaluate, product
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.scaled_conv import ScaledConv
from graphwright.ops.nn.spatial import Pool
from graphwright.records import dataclass, field

Operands = Sequence[Value | None]


@dataclass(frozen=True)
class LayoutCosts:
    """The cost model of layouts: ``lanes`` channels per block, the machine, and the ranges of symbolic sizes.

    All times are in nanoseconds.
    """

    lanes: int
    machine: Machine
    symbols: SymbolTable = field(default_factory=SymbolTable)

    def nominal(self, dim: Dim) -> int:
        """``dim`` as a number: the nominal value of a symbolic size."""
        return nominal(dim, self.symbols)

    def ns(self, work: Work) -> int:
        """The predicted time of ``work``."""
        return evaluate(predict(work, self.machine), {})

    def whole_vectors(self, count: int) -> int:
        """``count`` rounded up to whole vectors."""
        return -(-count // self.lanes) * self.lanes

    def transfer_ns(self, value: Value) -> int:
        """The time to convert ``value`` between the layouts."""
        channels = value.type.dims[CHANNELS]
        assert isinstance(channels, int)
        pixels = self.nominal(product(value.type.dims[CHANNELS + 1 :]))
        planes = self.nominal(value.type.dims[0]) * -(-channels // self.lanes)
        return self.machine.task_ns + self.ns(reblock_work(self.lanes, planes, pixels))

    def padding_ns(self, value: Value) -> float:
        """The time to read or write the padding lanes in the last block of ``value``."""
        channels = value.type.dims[CHANNELS]
        assert isinstance(channels, int)
        padding = self.nominal(value.type.bytes) * (-channels % self.lanes) // channels
        return evaluate(stream_ns(padding, self.machine), {})


def saved_ns(node: Node, form: Blocked, operands: Operands, costs: LayoutCosts) -> float:
    """The time that ``node`` saves in the blocked layouts ``form``; negative if it loses time.

    ``operands``: the operands of ``node``, or the values outside a region that they stand for.
    """
    op = node.op
    saved = next((saved for kind, saved in _SAVED.items() if isinstance(op, kind)), None)
    if saved is not None:
        return saved(op, form, operands, node.output, costs)
    images = [node.outputs[k] for k in sorted(form.results)] + [
        node.operand(k) for k in sorted(form.operands)
    ]  # the largest one is the whole image of a concatenation or split
    return -costs.padding_ns(max(images, key=lambda image: costs.nominal(image.type.dims[CHANNELS])))


# ---- convolutions


def is_depthwise(op: Conv, w: Value) -> bool:
    """Whether each channel is a group of its own."""
    return w.type.dims[1] == 1 and w.type.dims[0] == op.group > 1


def convolution_ns(op: Conv, w: Value, y: Value, costs: LayoutCosts, *, planes: bool) -> tuple[int, int]:
    """The times of a convolution with weights ``w`` and result ``y`` in row-major and in blocked layout.

    ``planes``: whether the input is row-major in both cases. A row-major kernel vectorizes over pixels, a
    blocked one over channels.
    """
    cout, cin, *kernel = w.type.sizes
    if is_depthwise(op, w):
        return _planar_depthwise_ns(y, kernel, costs), _blocked_depthwise_ns(y, kernel, costs)
    group, taps = op.group, cin * math.prod(kernel)
    images = costs.nominal(y.type.dims[0])
    pixels = costs.nominal(product(y.type.dims[CHANNELS + 1 :]))
    im2col = im2col_work(costs.lanes, images * costs.whole_vectors(pixels), cout // group, taps)
    plain = group == 1 and kernel == [3, 3] and set(op.strides) <= {1}
    reached = WINOGRAD if plain and min(cin, cout) >= costs.lanes else PLANAR if planes else DIRECT
    direct = direct_work(costs.lanes, images * pixels, cout // group, taps, reached)
    return group * costs.ns(im2col), group * costs.ns(direct)


def _planar_depthwise_ns(y: Value, kernel: Sequence[int], costs: LayoutCosts) -> int:
    """Row-major depthwise convolution, plane by plane. The last vector of a row is rarely full."""
    rows, columns = (1, *y.type.dims[CHANNELS + 1 :])[-2:]
    planes = costs.nominal(product(y.type.dims[: CHANNELS + 1]))
    vectors = costs.nominal(rows) * -(-costs.nominal(columns) // costs.lanes)
    return costs.ns(planar_depthwise_work(planes, planes * vectors, math.prod(kernel)))


def _blocked_depthwise_ns(y: Value, kernel: Sequence[int], costs: LayoutCosts) -> int:
    """Blocked depthwise convolution, one vector of channels per pixel, without padding lanes."""
    vectors = costs.nominal(y.type.elements) // costs.lanes
    return costs.ns(blocked_depthwise_work(costs.lanes, vectors, math.prod(kernel)))


def _saved_by_conv(op: Conv, form: Blocked, operands: Operands, y: Value, costs: LayoutCosts) -> float:
    w = operands[1]
    assert w is not None
    row_major, blocked = convolution_ns(op, w, y, costs, planes=not form.operands)
    return row_major - blocked - (costs.padding_ns(y) if is_depthwise(op, w) else 0)


def _saved_by_conv_transpose(
    op: ConvTranspose, form: Blocked, operands: Operands, y: Value, costs: LayoutCosts
) -> float:
    x, w = operands[:2]
    assert x is not None and w is not None
    _, cout, *kernel = w.type.sizes
    products = costs.nominal(x.type.elements) * cout * math.prod(kernel)
    columns = cout if can_be_blocked(y) else cout * math.prod(kernel)
    padded = products * costs.whole_vectors(columns) // columns
    row_major = costs.ns(Work(fmas=products, efficiency=TRANSPOSED))
    return row_major - costs.ns(Work(fmas=padded, efficiency=DIRECT))


# ---- pooling


def _saved_by_pool(op: Pool, form: Blocked, operands: Operands, y: Value, costs: LayoutCosts) -> float:
    x = operands[0]
    assert x is not None
    return _planar_pool_ns(op, x, y, costs) - _blocked_pool_ns(op, x, y, costs) - costs.padding_ns(y)


def _planar_pool_ns(op: Pool, x: Value, y: Value, costs: LayoutCosts) -> int:
    """Row-major pooling: first over the rows of the windows, then over their columns. Vectors are along rows,
    and the last one of a row is rarely full.
    """
    kh, kw = (1, *op.kernel)[-2:]
    before, after = (-(-costs.nominal(v.type.dims[-1]) // costs.lanes) for v in (x, y))
    rows = costs.nominal(product(y.type.dims[:-1]))
    moved = costs.nominal(x.type.bytes) + costs.nominal(y.type.bytes)
    window = op.windows.on_two_axes
    pairs = pools_pairs(kw, window.strides[1], window.dilations[1], window.pads[1])
    average = isinstance(op, AveragePool)
    return costs.ns(planar_pool_work(costs.lanes, rows, kh * before + kw * after, moved, average, pairs))


def _blocked_pool_ns(op: Pool, x: Value, y: Value, costs: LayoutCosts) -> int:
    """Blocked pooling, one vector of channels per pixel, without padding lanes."""
    kh, kw = (1, *op.kernel)[-2:]
    before, after = (costs.nominal(v.type.dims[-1]) for v in (x, y))
    rows = costs.nominal(product(y.type.dims[:-1])) // costs.lanes
    moved = costs.nominal(x.type.bytes) + costs.nominal(y.type.bytes)
    average = isinstance(op, AveragePool)
    vectors = kh * before + (kw + average) * after
    return costs.ns(blocked_pool_work(costs.lanes, rows, vectors, moved, average))


_SAVED: dict[type[Op], Callable[[Any, Blocked, Operands, Value, LayoutCosts], float]] = {
    Conv: _saved_by_conv,
    ScaledConv: lambda op, *rest: _saved_by_conv(op.conv, *rest),
    ConvTranspose: _saved_by_conv_transpose,
    Pool: _saved_by_pool,
}
"""The ops whose blocked kernels differ in time from the row-major ones. Other ops only pay for padding
lanes.
"""
