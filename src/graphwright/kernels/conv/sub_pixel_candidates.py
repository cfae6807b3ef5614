"""Transposed convolution as a convolution to the phases of the strides, then a pixel shuffle.

The method is that of Shi et al., "Real-Time Single Image and Video Super-Resolution", 2016. Along an axis of
stride s, element s * q + r of the result sums the taps k = r + s * t over x[q - t], so phase r is a
convolution with every s-th tap. All phases have equally many taps if s divides the kernel size.
"""

from __future__ import annotations

from math import prod

import numpy as np

from graphwright.ir.graph import Node, Value
from graphwright.ir.op import Array
from graphwright.ir.symbols import Dim, product
from graphwright.ir.types import F32, TensorType
from graphwright.kernels.candidates.choose import choose
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, Run, launch_of
from graphwright.kernels.movement.copy import CopyNd
from graphwright.kernels.movement.rows import MAX_RANK
from graphwright.kernels.strides import row_major_strides
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.spatial import Windows


@candidate(ConvTranspose)
def sub_pixel(node: Node[ConvTranspose], context: Context) -> Run | str:
    """A convolution to all phases, a copy that interleaves them, and a copy that crops the result."""
    x, w, y = node.operand(0), context.constant(node.operand(1)), node.output
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    offsets = None if bias is None else context.constant(bias)
    if w is None or (bias is not None and offsets is None):
        return "its weights are not constant"
    window = node.op.windows(w.shape[2:])
    refusal = _refusal(x, y, w, window)
    if refusal is not None:
        return refusal
    phases = prod(window.strides)
    sizes = [d + k // s - 1 for d, k, s in zip(x.type.dims[2:], w.shape[2:], window.strides, strict=True)]
    images, features = y.type.dims[:2]
    phase_images = context.temporary(TensorType(F32, (images, features * phases, *sizes)), "phases")
    operands = [x, context.table(_weights_of_phases(w, window.strides, node.op.group), "phases")]
    if offsets is not None:
        operands.append(context.table(np.repeat(offsets, phases), "phases"))
    pads = tuple(k // s - 1 for k, s in zip(w.shape[2:], window.strides, strict=True))
    conv = Node(Conv(pads=pads + pads, group=node.op.group), operands, [phase_images.type],
                name=node.name, sources=node.sources)  # fmt: skip
    conv.outputs = (phase_images,)
    choice = choose(conv, context)
    if not isinstance(choice.action, Run):
        return "; ".join(choice.reasons)
    context.weighed += choice.others
    whole = TensorType(F32, (images, features, *(n * s for n, s in zip(sizes, window.strides, strict=True))))
    full = y if whole.dims == y.type.dims else context.temporary(whole, "uncropped")
    launches = [*choice.action.launches, _interleaved(phase_images, full, window, context)]
    if full is not y:
        launches.append(_cropped(full, y, window, context))
    return Run(tuple(launches), temporaries=choice.action.temporaries)


def _refusal(x: Value, y: Value, w: Array, window: Windows) -> str | None:
    """The reason why a convolution of ``x`` cannot compute the phases of ``y``."""
    strides, rank = window.strides, window.rank
    if x.type.dtype != F32 or rank > 3 or 2 * rank + 1 > MAX_RANK:
        return f"no convolution kernel for {x.type.dtype} over {rank} axes"
    if (
        prod(strides) == 1
        or set(window.dilations) != {1}
        or any(k % s for k, s in zip(w.shape[2:], strides, strict=True))
    ):
        return "its strides do not divide its kernel"
    if not all(isinstance(pad, int) for pad in window.pads) or not np.isfinite(w).all():
        return "its pads or weights are not finite numbers"
    for axis, (have, want) in enumerate(zip(x.type.dims[2:], y.type.dims[2:], strict=True)):
        spare = (have - 1) * strides[axis] + w.shape[2 + axis] - window.pads[axis] - want
        if not isinstance(spare, int) or spare < 0 or not isinstance(want, int):
            return "its result is larger than what its windows cover"
    return None


def _weights_of_phases(w: Array, strides: tuple[int, ...], group: int) -> Array:
    """Weights [Cin, M, K...] of all groups as weights of a convolution, with reversed taps: [M * phases, Cin
    / group, K / stride...].
    """
    cin, features, *kernel = w.shape
    rank = len(strides)
    split = [n for k, s in zip(kernel, strides, strict=True) for n in (k // s, s)]
    taps = w.reshape(group, cin // group, features, *split)
    reversed_taps = taps[(slice(None),) * 3 + (slice(None, None, -1), slice(None)) * rank]
    phase_axes, tap_axes = range(4, 4 + 2 * rank, 2), range(3, 3 + 2 * rank, 2)
    per_phase = reversed_taps.transpose(0, 2, *phase_axes, 1, *tap_axes)
    shape = (group * features * prod(strides), cin // group, *split[::2])
    return np.ascontiguousarray(per_phase.reshape(shape))


def _interleaved(phases: Value, whole: Value, window: Windows, context: Context) -> Launch:
    """Interleaves the phases: phase r becomes element r of each stride."""
    planes, sizes = product(whole.type.dims[:2]), phases.type.dims[2:]
    by_phase = row_major_strides((planes, *window.strides, *sizes))
    _, plane, *side_by_side = row_major_strides(whole.type.dims)
    shape, source, target = [planes], [by_phase[0]], [plane]
    for axis, (size, stride) in enumerate(zip(sizes, window.strides, strict=True)):
        shape += [size, stride]
        source += [by_phase[1 + window.rank + axis], by_phase[1 + axis]]
        target += [side_by_side[axis] * stride, side_by_side[axis]]
    copy = CopyNd(4, tuple(shape), tuple(target), tuple(source))
    return launch_of(copy, CopyNd.SYMBOL, (phases, whole), (1,), context.isa)


def _cropped(whole: Value, y: Value, window: Windows, context: Context) -> Launch:
    """Crops the uncropped result to ``y``, as ``pads`` say."""
    strides = row_major_strides(whole.type.dims)
    first: Dim = 0
    for begin, stride in zip(window.pads, strides[2:], strict=False):
        first = first + begin * stride
    copy = CopyNd(4, y.type.dims, row_major_strides(y.type.dims), strides, src_offset=first)
    return launch_of(copy, CopyNd.SYMBOL, (whole, y), (1,), context.isa)
