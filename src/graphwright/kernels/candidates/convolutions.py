"""Convolutions: depthwise, general, transposed. One and two spatial axes; one is two with a height of 1."""

from __future__ import annotations

from graphwright.ir.graph import Node, Value
from graphwright.ir.symbols import Dim, numbers
from graphwright.ir.types import F32, Layout
from graphwright.kernels.candidates.blocked_convolutions import BlockedConvolution, two_axes
from graphwright.kernels.candidates.blocked_transposed import BlockedTransposed
from graphwright.kernels.candidates.contractions import alone
from graphwright.kernels.candidates.epilogues import Epilogue
from graphwright.kernels.candidates.packing import packed
from graphwright.kernels.candidates.registry import (
    Context,
    Contraction,
    candidate,
    contraction,
    row_major_strides,
)
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.library import conv, conv_transpose, depthwise, pack_transpose
from graphwright.kernels.library.pack import conv_layout
from graphwright.layout.blocks import CHANNELS, is_blocked
from graphwright.ops.conv import Conv
from graphwright.ops.conv_transpose import ConvTranspose

candidate(Conv, ConvTranspose)(alone)


def _groups(node: Node) -> tuple[int, int]:
    """The image is the batch, channels are rows, pixels are columns.

    In blocks, images and blocks of channels are the batch, pixels are rows, lanes are columns.
    """
    return (2, len(node.output.type.dims) - 2) if is_blocked(node.output) else (1, 1)


@contraction(Conv, _groups, channel_axis=CHANNELS)
def convolution(call: Contraction, context: Context) -> Launch | str:
    x, w, bias = _operands(call)
    op = call.node.op
    assert isinstance(op, Conv)
    if is_blocked(call.node.output) or is_blocked(x):
        window = op.windows(w.type.dims[2:]).on_two_axes
        return BlockedConvolution(call, x, w, bias, op.group, window).launch(context)
    refusal = _refusal(x, w, call.epilogue)
    if refusal is not None:
        return refusal
    x_shape, y_shape = two_axes(x.type.dims), two_axes(call.node.output.type.dims)
    w_shape = numbers(two_axes(w.type.dims))
    window = op.windows(w.type.dims[2:]).on_two_axes
    placed = (*x_shape[2:], *y_shape[2:], *w_shape[2:], *window.strides, *window.pads[:2], *window.dilations)
    strides = (*row_major_strides(x_shape), *row_major_strides(y_shape))
    if op.group > 1 and w_shape[1] == 1:
        multiplier = w_shape[0] // op.group
        args: tuple[Dim, ...] = (x_shape[0], w_shape[0], multiplier, *placed, *strides, 0)
        made = depthwise.DepthwiseArgs(*args)
        return call.launch(
            depthwise.SYMBOL,
            (x, w, bias),
            made,
            depthwise.grid(made),
            depthwise.scratch_bytes(context.isa, made),
            depthwise.work_ns(context.isa, made),
        )
    features = w_shape[0] // op.group
    general = conv.ConvArgs._make((x_shape[0], op.group, w_shape[1], features, *placed, *strides, 0))
    taps = w_shape[1] * w_shape[2] * w_shape[3]
    isa, rows = context.isa, conv.panel_rows(context.isa)
    if (op.group == 1 or features % rows == 0) and len(w.type.dims) == 4:
        layout = Layout((0, 1, 2, 3), ((0, rows),), zero_padded=True)
        weights = packed(w, layout, call.node, context)
    else:  # panels do not cross groups
        weights = packed(w, conv_layout(isa), call.node, context, (op.group, features, taps))
    costs = conv.grid(isa, general), conv.scratch_bytes(isa, general), conv.work_ns(isa, general)
    return call.launch(conv.SYMBOL, (x, weights, bias), general, *costs)


@contraction(ConvTranspose, _groups, channel_axis=CHANNELS)
def transposed(call: Contraction, context: Context) -> Launch | Run | str:
    x, w, bias = _operands(call)
    op = call.node.op
    assert isinstance(op, ConvTranspose)
    if is_blocked(x):
        return BlockedTransposed(call, x, w, bias, op).run(context)
    refusal = _refusal(x, w, call.epilogue)
    if refusal is not None:
        return refusal
    x_shape, y_shape = two_axes(x.type.dims), two_axes(call.node.output.type.dims)
    w_shape = numbers(two_axes(w.type.dims))
    window = op.windows(w.type.dims[2:]).on_two_axes
    made = conv_transpose.ConvTransposeArgs._make((
        x_shape[0], op.group, w_shape[0] // op.group, w_shape[1],
        *x_shape[2:], *y_shape[2:], *w_shape[2:], *window.strides, *window.pads[:2], *window.dilations,
        *row_major_strides(x_shape)[:3], *row_major_strides(y_shape)[:3], 0,
    ))  # fmt: skip
    flat_shape = None if len(w.type.dims) == 4 else w_shape
    weights = packed(w, pack_transpose.LAYOUT, call.node, context, flat_shape)
    isa = context.isa
    costs = (
        conv_transpose.grid(isa, made),
        conv_transpose.scratch_bytes(isa, made),
        conv_transpose.work_ns(isa, made),
    )
    return call.launch(conv_transpose.SYMBOL, (x, weights, bias), made, *costs)


def _operands(call: Contraction) -> tuple[Value, Value, Value | None]:
    x, w = call.operands[:2]
    assert x is not None and w is not None
    return x, w, call.operands[2] if len(call.operands) > 2 else None


def _refusal(x: Value, w: Value, epilogue: Epilogue) -> str | None:
    if epilogue != Epilogue():
        return "the kernel's store adds and clips nothing"
    if x.type.dtype != F32:
        return f"no convolution kernel for {x.type.dtype}"
    if len(x.type.dims) not in (3, 4):
        return f"no convolution kernel for {len(x.type.dims) - 2} spatial axes"
    if not all(isinstance(d, int) for d in w.type.dims):
        return "the sizes of its weights are not known"
    return None
