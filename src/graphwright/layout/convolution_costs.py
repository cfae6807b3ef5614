"""Predicted times of convolutions in row-major and in blocked layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphwright.cost.images import (
    DIRECT,
    PLANAR,
    TRANSPOSED,
    WINOGRAD,
    blocked_depthwise_work,
    direct_work,
    im2col_work,
    planar_depthwise_work,
    scattered_transpose_work,
    scatters,
)
from graphwright.cost.predict import Work
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.blocked_form import CHANNELS, Blocked, can_be_blocked
from graphwright.ir.symbols import product
from graphwright.layout.costs import LayoutCosts, Operands, saved_ns
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.scaled_conv import ScaledConv
from graphwright.ops.nn.spatial import Windows, is_depthwise


def can_be_winograd(window: Windows, group: int) -> bool:
    """Whether Winograd's kernel can compute such a convolution of channel blocks."""
    steps = set(window.strides), len(set(window.dilations))
    return group == 1 and window.kernel == (3, 3) and steps == ({1}, 1)


def blocked_efficiency(op: Conv, w: Value, channels: int, lanes: int, *, planes: bool = False) -> int:
    """Percent of the peak, in the arithmetic of direct convolution, that a convolution with channel blocks is
    expected to reach; which kernel computes it is decided after the layouts, by
    :mod:`graphwright.kernels.conv.blocked_algorithm`.

    ``channels``: the smaller number of input and output channels. ``planes``: whether the input is row-major.
    """
    if channels >= lanes and can_be_winograd(op.windows(w.type.dims[2:]), op.group):
        return WINOGRAD
    return PLANAR if planes else DIRECT


def convolution_ns(op: Conv, w: Value, y: Value, costs: LayoutCosts, *, planes: bool) -> tuple[int, int]:
    """The times of a convolution with weights ``w`` and result ``y`` in row-major and in blocked layout.

    ``planes``: whether the input is row-major in both cases. A row-major kernel vectorizes over pixels, a
    blocked one over channels.
    """
    cout, cin, *kernel = w.type.sizes
    if is_depthwise(op.group, w.type.dims):
        return _planar_depthwise_ns(y, kernel, costs), _blocked_depthwise_ns(y, kernel, costs)
    group, taps = op.group, cin * math.prod(kernel)
    images = costs.nominal(y.type.dims[0])
    pixels = costs.nominal(product(y.type.dims[CHANNELS + 1 :]))
    im2col = im2col_work(costs.lanes, images * costs.whole_vectors(pixels), cout // group, taps)
    efficiency = blocked_efficiency(op, w, min(cin, cout), costs.lanes, planes=planes)
    blocked = direct_work(costs.lanes, images * pixels, cout // group, taps, efficiency)
    return group * costs.ns(im2col), group * costs.ns(blocked)


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


@saved_ns.register(Conv)
def _saved_by_conv(op: Conv, node: Node, form: Blocked, operands: Operands, costs: LayoutCosts) -> float:
    w, y = operands[1], node.output
    assert w is not None
    row_major, blocked = convolution_ns(op, w, y, costs, planes=not form.operands)
    return row_major - blocked - (costs.padding_ns(y) if is_depthwise(op.group, w.type.dims) else 0)


@saved_ns.register(ScaledConv)
def _saved_by_scaled_conv(
    op: ScaledConv, node: Node, form: Blocked, operands: Operands, costs: LayoutCosts
) -> float:
    return _saved_by_conv(op.conv, node, form, operands, costs)


@saved_ns.register(ConvTranspose)
def _saved_by_conv_transpose(
    op: ConvTranspose, node: Node, form: Blocked, operands: Operands, costs: LayoutCosts
) -> float:
    x, w = operands[:2]
    assert x is not None and w is not None
    _, cout, *kernel = w.type.sizes
    taps = math.prod(kernel)
    products = costs.nominal(x.type.elements) * cout * taps
    columns = cout if can_be_blocked(node.output) else cout * taps
    padded = products * costs.whole_vectors(columns) // columns
    row_major = Work(fmas=products, efficiency=TRANSPOSED)
    cin = w.type.sizes[0] // op.group
    if scatters(cin, cout, taps):
        pixels, stored = costs.nominal(x.type.elements) // cin, costs.nominal(node.output.type.elements)
        row_major = scattered_transpose_work(costs.lanes, pixels, cin, cout * taps, stored)
    return costs.ns(row_major) - costs.ns(Work(fmas=padded, efficiency=DIRECT))
