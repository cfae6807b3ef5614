"""Convolutions: depthwise, general, transposed, over one to three spatial axes."""

from __future__ import annotations

from math import prod
from typing import Final

from graphwright.cost.images import scatters
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.blocked_form import CHANNELS
from graphwright.ir.loops.nodes import Load, Store
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import F32, Layout
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.contractions import Contraction, contraction, without_epilogue
from graphwright.kernels.candidates.epilogues import Epilogue
from graphwright.kernels.candidates.packing import packed
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.conv import (
    conv,
    conv_transpose,
    depthwise,
    depthwise_transpose,
    scattered_transpose,
)
from graphwright.kernels.conv.blocked_candidates import launch_blocked
from graphwright.kernels.conv.blocked_convolution import BlockedConvolution
from graphwright.kernels.conv.blocked_transposed_candidates import BlockedTransposed
from graphwright.kernels.conv.sliding import Sliding, sliding
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.loops.kernel_builder import KernelBuilder, nest
from graphwright.kernels.strides import row_major_strides
from graphwright.layout.blocks import is_blocked
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.scaled_conv import ScaledConv
from graphwright.ops.nn.spatial import is_by_channel
from graphwright.records import dataclass, replace

_MANY_FEATURES: Final = 16
"""The fewest features per channel for which the general kernel is chosen. It then takes 0.6 to 1 times as
long as the depthwise one.
"""

candidate(Conv, ScaledConv, ConvTranspose, blocks=True)(without_epilogue)


def _groups(node: Node) -> tuple[int, int]:
    """The image is the batch, channels are rows, pixels are columns. In blocked layouts, images and channel
    blocks are the batch, pixels are rows, lanes are columns.
    """
    return (2, len(node.output.type.dims) - 2) if is_blocked(node.output) else (1, 1)


@contraction(Conv, _groups, channel_axis=CHANNELS)
def convolution(call: Contraction[Conv], context: Context) -> Launch | Run | str:
    """Convolutions in f32 over one to three spatial axes: in channel blocks, depthwise, or general."""
    x, w, bias = _operands(call)
    op = call.node.op
    if is_blocked(call.node.output) or is_blocked(x):
        window = op.windows(w.type.dims[2:]).on_two_axes
        in_bf16 = op.precision is not None
        return launch_blocked(BlockedConvolution(call, x, w, bias, op.group, window, in_bf16), context)
    if op.precision is not None:
        return f"no row-major convolution kernel in {op.precision}"
    refusal = _refusal(x, w, call.epilogue)
    if refusal is not None:
        return refusal
    if is_by_channel(op.group, w.type.dims) and w.type.sizes[0] < _MANY_FEATURES * op.group:
        return _RowMajor(call, op, x, w, bias).depthwise(context)
    return _RowMajor(call, op, x, w, bias).general(context)


@contraction(ScaledConv, _groups, channel_axis=CHANNELS)
def scaled_convolution(call: Contraction[ScaledConv], context: Context) -> Launch | Run | str:
    """A convolution whose weights are scaled before each launch."""
    x, w, scale = (call.operand(k) for k in range(3))
    bias, conv = call.operands[3] if len(call.operands) > 3 else None, call.node.op.conv
    if is_blocked(call.node.output) or is_blocked(x):
        window = conv.windows(w.type.dims[2:]).on_two_axes
        return launch_blocked(BlockedConvolution(call, x, w, bias, 1, window, scale=scale), context)
    if (refusal := _refusal(x, w, call.epilogue)) is not None:
        return refusal
    if scale.type.dims[0] == 1:
        return _RowMajor(call, conv, x, w, bias).general(context, scale)
    scaled = _scaled_image(x, scale, call.node, context)
    return _RowMajor(call, conv, scaled, w, bias).general(context)


def _scaled_image(x: Value, scale: Value, node: Node, context: Context) -> Value:
    """Multiplies the channels of each image by its scale, before each launch."""
    images, channels, *pixels = x.type.dims
    scaled = context.temporary(x.type, "scaled")
    builder, shape = KernelBuilder(node, context, "scale_image"), (images, channels, product(tuple(pixels)))
    index = tuple(symbol(axis) for axis in "ncp")
    factor = Load(builder.input(scale, shape[:2]), index[:2])
    store = Store(builder.output(scaled, shape), index, Load(builder.input(x, shape), index) * factor)
    context.prepare(builder.launch(nest(tuple(zip("ncp", map(builder.size, shape), strict=True)), store)))
    return scaled


@dataclass(frozen=True)
class _RowMajor:
    """A convolution ``op`` of row-major images."""

    call: Contraction
    op: Conv
    x: Value
    w: Value
    bias: Value | None

    @property
    def axes(self) -> Sliding:
        return _axes(self.call, self.op, self.x, self.w)

    def depthwise(self, context: Context) -> Launch:
        """The kernel for one input channel per group."""
        isa, axes = context.isa, self.axes.without_single_axes()
        (images, channels), features = self.x.type.dims[:2], self.w.type.sizes[0]
        args = depthwise.DepthwiseArgs(*(
            images, channels, 1, features // self.op.group,
            *axes.depth_height_width, *_strides(channels, axes.sizes), *_strides(features, axes.counts), 0,
        ))  # fmt: skip
        costs = depthwise.grid(args), depthwise.scratch_bytes(isa, args), depthwise.work_ns(isa, args)
        operands = depthwise.ABI.ordered(x=self.x, w=self.w, bias=self.bias, y=self.call.result)
        return self.call.launch(depthwise.SYMBOL, operands, args, *costs)

    def general(self, context: Context, scale: Value | None = None) -> Launch:
        """The kernel for any groups. ``scale`` multiplies the input channels, through the weights."""
        isa, axes, op = context.isa, self.axes.merged(), self.op
        (images, channels), (cout, cin, *kernel) = self.x.type.dims[:2], self.w.type.sizes
        features, taps = cout // op.group, prod(kernel)
        args = conv.ConvArgs(*(
            images, op.group, cin, features, *axes.depth_height_width, *_strides(channels, axes.sizes),
            *_strides(cout, axes.counts), 0, 0, 0,
        ))  # fmt: skip
        args = replace(args, block_panels=conv.block_panels(isa, args))
        args = replace(args, unit_tiles=conv.unit_tiles(isa, args))
        rows = conv.panel_rows(isa)
        if (op.group == 1 or features % rows == 0) and (scale is not None or len(self.w.type.dims) == 4):
            layout = Layout((0, 1, 2, 3), ((0, rows),), zero_padded=True)
            viewed = None if len(self.w.type.dims) == 4 else (cout, cin, 1, taps)
            weights = packed(self.w, layout, self.call.node, context, viewed, scale)
        else:  # panels do not cross groups
            shape = (op.group, features, cin * taps)
            weights = packed(self.w, conv.weights_layout(isa), self.call.node, context, shape)
        costs = conv.grid(isa, args), conv.scratch_bytes(isa, args), conv.work_ns(isa, args)
        operands = conv.ABI.ordered(x=self.x, w=weights, bias=self.bias, y=self.call.result)
        return self.call.launch(conv.SYMBOL, operands, args, *costs)


def _axes(call: Contraction, op: Conv | ConvTranspose, x: Value, w: Value) -> Sliding:
    return sliding(op.windows(w.type.dims[2:]), x.type.dims[2:], call.node.output.type.dims[2:])


def _strides(channels: Dim, sizes: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Strides of dense images: batch, channels, then the spatial axes."""
    return row_major_strides((1, channels, *sizes))


@contraction(ConvTranspose, _groups, channel_axis=CHANNELS)
def transposed(call: Contraction[ConvTranspose], context: Context) -> Launch | Run | str:
    """Transposed convolutions: direct ones in channel blocks, else by the kernels for planar images."""
    x, w, bias = _operands(call)
    op = call.node.op
    if is_blocked(x):
        return BlockedTransposed(call, x, w, bias, op).run(context)
    refusal = _refusal(x, w, call.epilogue)
    if refusal is not None:
        return refusal
    axes = _axes(call, op, x, w).without_single_axes()
    (images, channels), (cin, cout, *kernel) = x.type.dims[:2], w.type.sizes
    if len(axes.axes) <= 2 and scatters(cin // op.group, cout, prod(kernel)):
        return _scattered(call, axes, context)
    args = conv_transpose.ConvTransposeArgs(*(
        images, op.group, cin // op.group, cout, *axes.depth_height_width,
        *_strides(channels, axes.sizes)[:-1], *_strides(op.group * cout, axes.counts)[:-1], 0,
    ))  # fmt: skip
    if cin == op.group:
        return _transposed_depthwise(call, args, context)
    flat_shape = None if len(kernel) == 2 else (cin, cout, prod(kernel[:-1]), kernel[-1])
    weights = packed(w, conv_transpose.LAYOUT, call.node, context, flat_shape)
    isa = context.isa
    costs = (
        conv_transpose.grid(isa, args),
        conv_transpose.scratch_bytes(isa, args),
        conv_transpose.work_ns(isa, args),
    )
    operands = conv_transpose.ABI.ordered(x=x, w=weights, bias=bias, y=call.result)
    return call.launch(conv_transpose.SYMBOL, operands, args, *costs)


def _transposed_depthwise(
    call: Contraction[ConvTranspose], args: conv_transpose.ConvTransposeArgs, context: Context
) -> Launch:
    """Transposed convolution with one input channel per group."""
    x, w, bias = _operands(call)
    costs = (
        depthwise_transpose.grid(args),
        depthwise_transpose.scratch_bytes(context.isa, args),
        depthwise_transpose.work_ns(context.isa, args),
    )
    operands = depthwise_transpose.ABI.ordered(x=x, w=w, bias=bias, y=call.result)
    return call.launch(depthwise_transpose.SYMBOL, operands, args, *costs)


def _scattered(call: Contraction[ConvTranspose], axes: Sliding, context: Context) -> Launch:
    """Transposed convolution by scattering the products of each pixel."""
    x, w, bias = _operands(call)
    isa, group, (cin, cout, *kernel) = context.isa, call.node.op.group, w.type.sizes
    images, channels = x.type.dims[:2]
    args = scattered_transpose.ScatteredTransposeArgs(*(
        images, group, cin // group, cout, *axes.height_width,
        *_strides(channels, axes.sizes[1:])[:-1], *_strides(group * cout, axes.counts[1:])[:-1], 0,
    ))  # fmt: skip
    weights = packed(w, scattered_transpose.LAYOUT, call.node, context, (cin, cout * prod(kernel)))
    costs = (
        scattered_transpose.grid(isa, args),
        scattered_transpose.scratch_bytes(isa, args),
        scattered_transpose.work_ns(isa, args),
    )
    operands = scattered_transpose.ABI.ordered(x=x, w=weights, bias=bias, y=call.result)
    return call.launch(scattered_transpose.SYMBOL, operands, args, *costs)


def _operands(call: Contraction) -> tuple[Value, Value, Value | None]:
    return call.operand(0), call.operand(1), call.operands[2] if len(call.operands) > 2 else None


def _refusal(x: Value, w: Value, epilogue: Epilogue) -> str | None:
    if epilogue != Epilogue():
        return "the kernel cannot add or clip when it stores"
    if x.type.dtype != F32:
        return f"no convolution kernel for {x.type.dtype}"
    if len(x.type.dims) not in (3, 4, 5):
        return f"no convolution kernel for {len(x.type.dims) - 2} spatial axes"
    if not w.type.is_static:
        return "the sizes of its weights are not known"
    return None
