"""Convolutions of bytes: ConvInteger by a library kernel."""

from __future__ import annotations

from math import prod

from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.graph import Node, Value
from graphwright.ir.symbols import product
from graphwright.ir.types import I8, U8, TensorType
from graphwright.kernels.byte_conv import byte_conv, byte_depthwise, byte_interleave
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.contractions import Contraction, contraction, without_epilogue
from graphwright.kernels.candidates.epilogues import Epilogue
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.conv.sliding import Sliding, sliding
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.ref import KernelRef
from graphwright.ops.quantized.conv_integer import ConvInteger
from graphwright.ops.quantized.quantized import is_single
from graphwright.targets.cpu.isa import Isa

_GROUP_CHANNELS = 4
"""The fewest input and output channels per group for which the kernel does not mostly multiply padding."""


def _conv_refusal(node: Node[ConvInteger]) -> str | None:
    op, x, w = node.op, node.operand(0), node.operand(1)
    if op.auto_pad or x.type.shape is None or len(x.type.dims) not in (3, 4, 5):
        return "no kernel for more than three spatial axes, or for pads that are not known"
    if not w.type.is_static:
        return "the sizes of its weights are not known"
    cout, cin = w.type.sizes[:2]
    if op.group > 1 and min(cin, cout // op.group) < _GROUP_CHANNELS:
        return f"groups of {cin} to {cout // op.group} channels are mostly padding"
    return None


def _is_depthwise(node: Node[ConvInteger]) -> bool:
    """Whether each group has one input channel, and images have at most two spatial axes."""
    op, x, w = node.op, node.operand(0), node.operand(1)
    if op.auto_pad or x.type.shape is None or len(x.type.dims) not in (3, 4):
        return False
    return w.type.is_static and w.type.sizes[1] == 1


def _convolves(node: Node[ConvInteger]) -> bool:
    return is_constant(node.operand(1)) and (_conv_refusal(node) is None or _is_depthwise(node))


candidate(ConvInteger, serves=_convolves)(without_epilogue)


@contraction(ConvInteger, lambda node: (1, 1), channel_axis=1)
def byte_convolution(call: Contraction[ConvInteger], context: Context) -> Launch | Run | str:
    """Convolves groups of channels, or each channel by itself."""
    if call.epilogue != Epilogue():
        return "the kernels cannot add or clip when they store"
    refusal = _conv_refusal(call.node)
    if refusal is not None or context.constant(call.operand(1)) is None:
        return _depthwise(call, context) or refusal or "its weights are not constant"
    return _grouped(call, context)


def _args(call: Contraction[ConvInteger], axes: Sliding, *, packed: bool = False) -> byte_conv.ByteConvArgs:
    """The arguments of both kernels: sizes, dense strides of the result, kinds of zero points, and whether
    the image is packed in panels.
    """
    x, w, pixels = call.operand(0), call.operand(1), product(axes.counts)
    (features, cin, *_), groups = w.type.sizes, call.node.op.group
    _, w_zero = _zero_points(call)
    return byte_conv.ByteConvArgs(*(
        x.type.dims[0], groups, cin, features // groups, *axes.depth_height_width, features * pixels, pixels,
        int(w_zero is not None and not is_single(w_zero.type.dims)),
        int(x.type.dtype == I8), int(w.type.dtype == I8), int(packed),
    ))  # fmt: skip


def _zero_points(call: Contraction[ConvInteger]) -> tuple[Value | None, Value | None]:
    """The zero points of the image and of the weights."""
    x_zero, w_zero = (*call.operands[2:], None, None)[:2]
    return x_zero, w_zero


def _axes(call: Contraction[ConvInteger]) -> Sliding:
    x, w, y = call.operand(0), call.operand(1), call.node.output
    return sliding(call.node.op.conv.windows(w.type.dims[2:]), x.type.dims[2:], y.type.dims[2:])


def _grouped(call: Contraction[ConvInteger], context: Context) -> Run:
    """Packs channels in quads, then convolves."""
    x, w, isa = call.operand(0), call.operand(1), context.isa
    axes = _axes(call).merged()
    packed = all(axis.is_copied for axis in axes.axes)
    args, (x_zero, w_zero), groups = _args(call, axes, packed=packed), _zero_points(call), call.node.op.group
    _, cin, *kernel = w.type.sizes
    cout, taps = w.type.sizes[0] // groups, prod(kernel)
    whole = byte_interleave.InterleaveArgs(args.images, groups, cin, product(axes.sizes), args.x_signed)
    weights = context.derived(
        w,
        f"byte tiles of {groups}",
        (byte_conv.packed_bytes(groups, cout, cin, taps),),
        lambda out, array: byte_conv.pack(out, array, groups),
    )
    interleave, quads = _interleaved(x, whole, packed, isa)
    convolution = call.launch(
        byte_conv.SYMBOL,
        byte_conv.ABI.ordered(x=quads, w=weights, x_zero=x_zero, w_zero=w_zero, y=call.result),
        args,
        byte_conv.grid(isa, args),
        byte_conv.scratch_bytes(isa, args),
        byte_conv.work_ns(isa, args),
    )
    return Run((interleave, convolution), temporaries=(quads,))


def _interleaved(
    x: Value, args: byte_interleave.InterleaveArgs, packed: bool, isa: Isa
) -> tuple[Launch, Value]:
    """The launch that interleaves ``x``, packed in panels or not, and its result."""
    kernel = byte_interleave.interleaving(isa, args, packed=packed)
    quads = Value(TensorType(U8, (kernel.result_bytes,)), "interleaved channels")
    work = byte_interleave.work_ns(isa, args)
    return Launch(KernelRef(kernel.symbol), (x, quads), (1,), tuple(args), kernel.grid, work=work), quads


def _depthwise(call: Contraction[ConvInteger], context: Context) -> Launch | None:
    """Convolves each channel by itself; None if groups have several, or if weights are not constant."""
    x, w, isa = call.operand(0), call.operand(1), context.isa
    if not _is_depthwise(call.node) or context.constant(w) is None:
        return None
    args, (x_zero, w_zero), features = _args(call, _axes(call)), _zero_points(call), w.type.sizes[0]
    kh, kw = (1, *w.type.sizes[2:])[-2:]
    weights = context.derived(
        w,
        "byte quads of each feature",
        (byte_depthwise.packed_bytes(features, kh, kw),),
        lambda out, array: byte_depthwise.pack(out, array.reshape(features, kh, kw)),
    )
    return call.launch(
        byte_depthwise.SYMBOL,
        byte_depthwise.ABI.ordered(x=x, w=weights, x_zero=x_zero, w_zero=w_zero, y=call.result),
        args,
        byte_depthwise.grid(args),
        byte_depthwise.scratch_bytes(isa, args),
        byte_depthwise.work_ns(isa, args),
    )
