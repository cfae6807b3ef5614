"""Computes 3-D convolutions as 2-D convolutions: the depth becomes part of the batch, and the taps of the
depth part of the channels.

An image [N, C, D, H, W] is read as D * N images [C, H, W], the depth outermost. A result at depth d is the
2-D convolution of the images at depths d * stride + k * dilation, whose channels are concatenated over the
taps k. This is im2col (Chellapilla, Puri and Simard, "High performance convolutional neural networks for
document processing", 2006) along one axis. The 2-D kernels work on blocks of channels, and Winograd's method
saves more than the copies cost. Elementwise ops and concatenated channels between convolutions stay in this
form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from graphwright.cost.machine import Machine
from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.hints import hints_of
from graphwright.ir.match import constant_array
from graphwright.ir.op import Trait
from graphwright.ir.symbols import Dim
from graphwright.ir.types import F32, Shape, TensorType
from graphwright.layout.convolution_costs import convolution_ns
from graphwright.layout.costs import LayoutCosts
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.conv import Conv
from graphwright.passes.base import Pass, Record
from graphwright.passes.node_removal import replace_and_prune
from graphwright.passes.traversal import graphs
from graphwright.records import dataclass, replace

_RANK: Final = 5
_CHANNELS: Final = 1
_MOST_BYTES: Final = 256 << 20
"""The most bytes of the concatenated channels of one 3-D image."""


@dataclass(frozen=True)
class FoldDepth(Pass):
    """Rewrites 3-D convolutions in f32 with one group and constant weights where this is predicted to be
    faster. Nodes between such convolutions are rewritten with them. ``block``: channels per block.
    """

    block: int
    machine: Machine
    name: str = "fold_depth"

    def run(self, module: Module, record: Record) -> bool:
        before, costs = record.counts.total(), LayoutCosts(self.block, self.machine, module.symbols)
        for graph in graphs(module):
            _Folding(module, graph, costs, record).run()
        return record.counts.total() > before


class _Folding:
    """The rewrite of one graph."""

    def __init__(self, module: Module, graph: Graph, costs: LayoutCosts, record: Record) -> None:
        self._module, self._graph, self._costs, self._record = module, graph, costs, record
        self._images: dict[Value, Value] = {}
        """The 2-D images of 3-D ones."""

    def run(self) -> None:
        for node in list(self._graph):
            if hints_of(node.sources, self._module.hints):
                continue  # copies would become members of its group
            b = Builder(self._module, self._graph, node, node.sources, node.origin)
            images = self._folded(b, node)
            if images is None:
                continue
            self._record.did(f"{node.op.name} of 2-D images")
            result = _unfolded(b, images, node.output.type.dims)
            self._images[result] = images
            replace_and_prune(node, [result])

    def _folded(self, b: Builder, node: Node) -> Value | None:
        """The result of ``node`` as 2-D images; None if it stays."""
        if len(node.outputs) != 1 or node.output.type.dtype != F32 or node.output.type.rank != _RANK:
            return None
        if isinstance(node.op, Conv):
            return self._convolution(b, node, node.op)
        if isinstance(node.op, Concat):
            return self._channels(b, node, node.op)
        if Trait.ELEMENTWISE in node.op.traits and node.op.has_expression():
            return self._elementwise(b, node)
        return None

    def _channels(self, b: Builder, node: Node, op: Concat) -> Value | None:
        images = [self._images[value] for value in node.inputs if value in self._images]
        if op.axis % _RANK != _CHANNELS or len(images) < len(node.inputs):
            return None
        joined: Value = b(replace(op, axis=_CHANNELS), *images)
        return joined

    def _elementwise(self, b: Builder, node: Node) -> Value | None:
        if self._images.keys().isdisjoint(node.inputs):
            return None
        operands = [self._operand(value, node.output.type.dims, b) for value in node.inputs]
        if any(operand is None for operand in operands):
            return None
        result: Value = b(node.op, *operands)
        return result

    def _operand(self, value: Value | None, dims: Sequence[Dim], b: Builder) -> Value | None:
        """``value`` for 2-D images: images of the same size, or constants that are equal for all images."""
        if value in self._images and value is not None and value.type.dims == tuple(dims):
            return self._images[value]
        array = constant_array(value, self._module)
        if array is None or array.dtype != np.float32 or array.ndim > _RANK:
            return None
        images, channels, depth, *size = (1,) * (_RANK - array.ndim) + array.shape
        return b.const(array.reshape(1, channels, *size)) if images == depth == 1 else None

    def _convolution(self, b: Builder, node: Node, op: Conv) -> Value | None:
        x, *rest = node.inputs
        w = constant_array(node.inputs[1], self._module)
        if x is None or w is None or w.size == 0 or op.group != 1 or op.auto_pad or x.type.shape is None:
            return None
        window = op.windows(w.shape[2:])
        weights = w.swapaxes(1, 2).reshape(len(w), -1, *w.shape[3:])
        flat = replace(op, strides=window.strides[1:], dilations=window.dilations[1:],
                        pads=(*window.pads[1:3], *window.pads[4:]))  # fmt: skip
        if self._gain(x, w.shape[1], flat, weights.shape, node.output) <= 0:
            return None
        batch, depth = node.output.type.dims[0], node.output.type.dims[2]
        images = _padded(b, self._folded_image(b, x), batch * window.pads[0], batch * window.pads[3])
        starts = [k * window.dilations[0] for k in range(w.shape[2])]
        taps = _taps(b, images, starts, window.strides[0], depth, batch)
        channels = taps[0] if len(taps) == 1 else b(Concat(_CHANNELS), *taps)
        result: Value = b(flat, channels, b.const(np.ascontiguousarray(weights)), *rest[1:])
        return result

    def _gain(self, x: Value, channels: int, flat: Conv, weights: tuple[int, ...], y: Value) -> int:
        """The predicted nanoseconds that the convolution ``flat`` saves, less the time of the copies."""
        (n, _, depth, *size), (features, joined, *_) = y.type.dims, weights
        written = _sized(n * depth, features, *size)
        read = _sized(n * x.type.dims[2], channels, *x.type.dims[3:])
        concatenated = _sized(n * depth, joined, *x.type.dims[3:])
        if self._costs.nominal(concatenated.type.bytes) > self._costs.nominal(n) * _MOST_BYTES:
            return 0
        rows, blocked = convolution_ns(flat, _sized(*weights), written, self._costs, planes=False)
        copies = [concatenated, concatenated, written, read, *([] if x in self._images else [read])]
        return rows - blocked - sum(map(self._costs.transfer_ns, copies))

    def _folded_image(self, b: Builder, x: Value) -> Value:
        if x not in self._images:
            n, c, d, h, w = x.type.dims
            outermost = b(Transpose((2, 0, 1, 3, 4)), x)
            self._images[x] = reshaped(b, outermost, (d * n, c, h, w))
        return self._images[x]


def _sized(*dims: Dim) -> Value:
    """A value of this size, which is in no graph, for estimates of costs."""
    return Value(TensorType(F32, dims))


def _padded(b: Builder, images: Value, before: Dim, after: Dim) -> Value:
    if before == after == 0:
        return images
    padded: Value = b(Pad((before, 0, 0, 0, after, 0, 0, 0)), images)
    return padded


def _taps(
    b: Builder, images: Value, starts: Sequence[int], stride: int, depth: Dim, batch: Dim
) -> list[Value]:
    """For each of ``starts``, the images at depths ``start``, ``start + stride``, ...: ``depth`` times
    ``batch`` images.
    """
    count, *size = images.type.dims
    if stride == 1 and count == depth * batch:
        return [images]
    if stride == 1:
        return [_slice(b, images, batch * start, batch * (start + depth), 1) for start in starts]
    by_depth = reshaped(b, images, (count // batch, batch, *size))
    parts = [_slice(b, by_depth, start, start + (depth - 1) * stride + 1, stride) for start in starts]
    return [reshaped(b, part, (depth * batch, *size)) for part in parts]


def _slice(b: Builder, value: Value, start: Dim, end: Dim, step: int) -> Value:
    part: Value = b(Slice((start,), (end,), (0,), (step,)), value)
    return part


def _unfolded(b: Builder, images: Value, dims: Shape) -> Value:
    """The image [N, C, D, H, W] of D * N images."""
    n, c, d, h, w = dims
    image: Value = b(Transpose((1, 2, 0, 3, 4)), reshaped(b, images, (d, n, c, h, w)))
    return image
