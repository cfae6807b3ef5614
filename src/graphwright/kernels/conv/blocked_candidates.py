"""Launches of convolutions on channel blocks: depthwise, direct or Winograd."""

from __future__ import annotations

from graphwright.cost.nominal import nominal
from graphwright.ir.graph import Value
from graphwright.ir.interfaces.arithmetic import operations_of
from graphwright.ir.symbols import Dim, numbers
from graphwright.ir.types import F32
from graphwright.kernels.candidates.blocks import block_strides
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.conv import bf16_direct, blocked_depthwise, direct
from graphwright.kernels.conv.blocked_algorithm import Winograd, choose_algorithm, is_faster
from graphwright.kernels.conv.blocked_convolution import BlockedConvolution, two_axes
from graphwright.kernels.conv.sliding import Sliding, sliding
from graphwright.kernels.launch import Launch, Run, run_either
from graphwright.kernels.strides import row_major_strides
from graphwright.kernels.winograd import winograd, winograd_cost, winograd_transforms
from graphwright.kernels.winograd.winograd import Conv3x3
from graphwright.layout.blocks import is_blocked
from graphwright.ops.nn.spatial import is_depthwise

_SHORT_ROW = 8
"""Rows of fewer pixels leave a tile half empty."""


def launch_blocked(conv: BlockedConvolution, context: Context) -> Launch | Run | str:
    """The kernel that is predicted to be the fastest, or the reason why none supports the epilogue. If
    this depends on unknown sizes, the kernels are alternatives of one run.
    """
    epilogue = conv.call.epilogue
    if epilogue.scale != 1 or (conv.bias is not None and epilogue.bias is not None):
        return "the kernel cannot scale, or add a second bias, when it stores"
    if epilogue.bias is not None and epilogue.bias.layout is None:
        return "its bias is computed"
    if epilogue.residual is not None and not is_blocked(conv.call.node.output):
        return "its residual is not channel-blocked"
    if is_depthwise(conv.group, conv.w.type.dims) and not conv.in_bf16:
        return _depthwise(conv, context)
    algorithm = choose_algorithm(conv, context)
    if algorithm == "direct":
        return _direct_in_bf16(conv, context) if conv.in_bf16 else _direct(conv, context)
    launch, faster = _winograd(conv, algorithm, context)
    if conv.has_known_sizes:  # with several images, Winograd pays off even more
        return launch
    return run_either(faster, launch, [(_direct(conv, context), operations_of(conv.call.node))])


def _winograd(conv: BlockedConvolution, algorithm: Winograd, context: Context) -> tuple[Launch, Dim]:
    """The launch, and a Dim that is 1 if it is predicted to be faster than the direct kernel, else 0."""
    cout, cin = conv.w.type.sizes[:2]
    m, isa, images, sizes = algorithm.tile, context.isa, conv.x.type.dims[0], conv.sizes
    dilation = conv.window.dilations[0]
    shape = Conv3x3(images, cin, cout, sizes[2], sizes[3], dilation)
    blocking = algorithm.blocking(winograd.blocking(m, isa, shape))
    args = winograd.WinogradArgs(*(
        images, cin, cout, *sizes, *conv.window.pads[:2], dilation, *block_strides(conv.x), *conv.strides,
        *conv.call.epilogue.args, *blocking,
    ))  # fmt: skip
    weights = _transformed(conv, m, context)
    launch = conv.call.launch(
        winograd.SYMBOLS[m],
        conv.operands(winograd.ABI, weights, context, in_place=False),  # tiles stay in L1
        args,
        winograd.grid(m, isa, args),
        winograd.scratch_bytes(m, isa, args),
        winograd_cost.work_ns(m, isa, args),
    )
    return launch, is_faster(algorithm, isa, args)


def _transformed(conv: BlockedConvolution, m: int, context: Context) -> Value:
    cout, cin = conv.w.type.sizes[:2]
    isa = context.isa
    return context.derived(
        conv.w,
        f"winograd {m}",
        winograd_transforms.transformed_shape(cout, cin, m, isa),
        lambda out, w: winograd_transforms.transform_weights(out, w, m, isa),
        F32,
    )


def _depthwise(conv: BlockedConvolution, context: Context) -> Launch:
    images, channels, *_ = conv.x.type.dims
    args = blocked_depthwise.BlockedDepthwiseArgs(*(
        images, channels, 1, 1, *conv.sizes, *conv.taps, *block_strides(conv.x), *conv.strides,
        *conv.call.epilogue.args,
    ))  # fmt: skip
    isa = context.isa
    return conv.call.launch(
        blocked_depthwise.SYMBOL,
        conv.operands(blocked_depthwise.ABI, conv.packed(((0, isa.lanes),), context), context),
        args,
        blocked_depthwise.grid(isa, args),
        blocked_depthwise.scratch_bytes(isa, args),
        blocked_depthwise.work_ns(isa, args),
    )


def _direct_in_bf16(conv: BlockedConvolution, context: Context) -> Launch | str:
    isa, args = context.isa, _direct_args(conv, context)
    if conv.group > 1 or not is_blocked(conv.x) or conv.w.type.sizes[1] % 2:
        return "the bf16 kernel needs one group, channel blocks, and an even number of input channels"
    return conv.call.launch(
        bf16_direct.SYMBOL,
        conv.operands(direct.ABI, _pairs(conv, context), context),
        args,
        bf16_direct.grid(isa, args),
        bf16_direct.scratch_bytes(isa, args),
        bf16_direct.work_ns(isa, args),
    )


def _pairs(conv: BlockedConvolution, context: Context) -> Value:
    """The bf16 weights as pairs of input channels."""
    shape, isa = numbers(two_axes(conv.w.type.dims)), context.isa
    if shape[1] % (2 * isa.lanes) == 0:
        return context.packed(conv.w, bf16_direct.weights_layout(isa), bf16_direct.weights_view(shape, isa))
    return context.derived(
        conv.w,
        "pairs of channels",
        bf16_direct.packed_shape(shape, isa),
        lambda out, w: bf16_direct.pack_weights(out, w.reshape(shape), isa),
    )


def _direct(conv: BlockedConvolution, context: Context) -> Launch:
    isa, args, planar = context.isa, _direct_args(conv, context), not is_blocked(conv.x)
    outputs = (0, isa.lanes)
    return conv.call.launch(
        direct.PLANAR_SYMBOL if planar else direct.SYMBOL,
        conv.operands(
            direct.ABI,
            conv.packed((outputs,) if planar else ((1, isa.lanes), outputs), context),
            context,
        ),
        args,
        direct.grid(isa, args),
        (direct.planar_scratch_bytes if planar else direct.scratch_bytes)(isa, args),
        direct.work_ns(isa, args, planar),
    )


def _direct_args(conv: BlockedConvolution, context: Context) -> direct.DirectArgs:
    cout, cin = conv.w.type.sizes[:2]
    lanes, planar = context.isa.lanes, not is_blocked(conv.x)
    axes, pixels = _direct_axes(conv, context), conv.pixels(lanes)
    *image, _ = row_major_strides(two_axes(conv.x.type.dims))[:3] if planar else block_strides(conv.x)
    *result, _ = conv.strides[3:]
    pixel, row = (1 if planar else lanes), axes.counts[-1] * pixels[0]
    added = (*result, row) if conv.call.epilogue.residual is not None else (0, 0, 0)
    return direct.DirectArgs(*(
        *conv.images_and_groups, cin, cout // conv.group, *axes.height_width, *image,
        axes.sizes[-1] * pixel, pixel, *added, *result, row, *pixels, 1, 1, *conv.call.epilogue.args,
    ))  # fmt: skip


def _direct_axes(conv: BlockedConvolution, context: Context) -> Sliding:
    """The spatial axes; short rows are joined if windows are one column wide, so that tiles are full."""
    counts = two_axes(conv.call.node.output.type.dims)[2:]
    axes = sliding(conv.window, two_axes(conv.x.type.dims)[2:], counts)
    short = nominal(counts[-1], context.symbols) < _SHORT_ROW
    return axes.merged() if short else axes.without_single_axes()
