"""Convolutions of channels-last images whose channels fill blocks, by the kernels for channel blocks."""

from __future__ import annotations

from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.blocked_form import CHANNELS
from graphwright.ir.symbols import Dim, numbers
from graphwright.ir.types import Layout
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.contractions import Contraction, contraction, without_epilogue
from graphwright.kernels.candidates.packing import packed
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.conv import blocked_depthwise, direct
from graphwright.kernels.conv.blocked_convolution import two_axes
from graphwright.kernels.conv.sliding import Sliding, sliding
from graphwright.kernels.launch import Launch
from graphwright.kernels.library.abi import Abi
from graphwright.ops.nn.channels_last_conv import ChannelsLastConv
from graphwright.ops.nn.spatial import Windows, is_depthwise
from graphwright.records import dataclass


def _fills_blocks(node: Node[ChannelsLastConv]) -> bool:
    return node.op.fills_blocks(node.operand(0), node.operand(1))


candidate(ChannelsLastConv, serves=_fills_blocks)(without_epilogue)


def _groups(node: Node) -> tuple[int, int]:
    """The image is the batch, pixels are rows, channels are columns."""
    return 1, len(node.output.type.dims) - 2


@contraction(ChannelsLastConv, _groups, channel_axis=-1)
def channels_last(call: Contraction[ChannelsLastConv], context: Context) -> Launch | str:
    """Depthwise or direct; the epilogue may add a bias and clip."""
    bias, epilogue = call.operands[2] if len(call.operands) > 2 else None, call.epilogue
    if epilogue.scale != 1 or epilogue.residual is not None:
        return "the kernel cannot scale, or add a residual, when it stores"
    if bias is not None and epilogue.bias is not None:
        return "the kernel cannot add a second bias when it stores"
    conv = _Convolution(call, call.operand(0), call.operand(1), bias or epilogue.bias)
    if is_depthwise(call.node.op.group, conv.w.type.sizes):
        return conv.launch_depthwise(context)
    return conv.launch_direct(context)


@dataclass(frozen=True)
class _Convolution:
    """The convolution over two spatial axes; a value with one spatial axis is a row."""

    call: Contraction[ChannelsLastConv]
    x: Value
    w: Value
    bias: Value | None

    def launch_depthwise(self, context: Context) -> Launch:
        """The depthwise kernel: a vector of channels per pixel."""
        isa, axes, channels = context.isa, self._axes, self.w.type.sizes[0]
        read, write = (
            (height * width * channels, isa.lanes, width * channels)
            for height, width in (axes.sizes[1:], axes.counts[1:])
        )
        args = blocked_depthwise.BlockedDepthwiseArgs(*(
            self.x.type.dims[0], channels, 1, 1, *axes.height_width, *read, 0, 0, 0, *write,
            *self.call.epilogue.args,
        ))  # fmt: skip
        return self.call.launch(
            blocked_depthwise.NHWC_SYMBOL,
            self._operands(blocked_depthwise.ABI, ((0, isa.lanes),), context),
            args,
            blocked_depthwise.nhwc_grid(isa, args),
            blocked_depthwise.nhwc_scratch_bytes(isa, args),
            blocked_depthwise.work_ns(isa, args),
        )

    def launch_direct(self, context: Context) -> Launch:
        """The direct kernel."""
        isa, op, axes = context.isa, self.call.node.op, self._axes.without_single_axes()
        (features, depth), planar = self.w.type.sizes[:2], self.call.node.op.reads_planes
        _, oh, ow = axes.counts
        write = (oh * ow * features, isa.lanes, ow * features, features)
        args = direct.DirectArgs(*(
            self.x.type.dims[0], op.group, depth, features // op.group, *axes.height_width,
            *self._read_strides(axes, isa.lanes), 0, 0, 0, *write, isa.lanes, 1, 1, *self.call.epilogue.args,
        ))  # fmt: skip
        outputs = (0, isa.lanes)
        return self.call.launch(
            direct.PLANAR_NHWC_SYMBOL if planar else direct.NHWC_SYMBOL,
            self._operands(direct.ABI, (outputs,) if planar else ((1, isa.lanes), outputs), context),
            args,
            direct.grid(isa, args),
            (direct.planar_scratch_bytes if planar else direct.scratch_bytes)(isa, args),
            direct.work_ns(isa, args, planar),
        )

    def _read_strides(self, axes: Sliding, lanes: int) -> tuple[Dim, ...]:
        """Strides of the input: images, channels or channel blocks, rows, pixels."""
        (_, h, w), planar = axes.sizes, self.call.node.op.reads_planes
        channels = self.x.type.dims[CHANNELS if planar else -1]
        if planar:
            return channels * h * w, h * w, w, 1
        return h * w * channels, lanes, w * channels, channels

    @property
    def _axes(self) -> Sliding:
        dims = self.x.type.dims
        sizes = dims[2:] if self.call.node.op.reads_planes else dims[1:-1]
        return sliding(self._windows, sizes, self.call.node.output.type.dims[1:-1])

    @property
    def _windows(self) -> Windows:
        return self.call.node.op.windows(self.w.type.dims[2:])

    def _operands(
        self, abi: Abi, blocks: tuple[tuple[int, int], ...], context: Context
    ) -> tuple[Value | None, ...]:
        shape = None if len(self.w.type.dims) == 4 else numbers(two_axes(self.w.type.dims))
        layout = Layout((0, 1, 2, 3), blocks, zero_padded=True)
        weights = packed(self.w, layout, self.call.node, context, shape)
        return abi.ordered(x=self.x, w=weights, bias=self.bias, residual=None, y=self.call.result)
