"""Import of PyTorch's gradients of convolutions."""

from __future__ import annotations

from typing import Any

from graphwright.ir.graph import Value
from graphwright.ir.op import AtenImporter
from graphwright.ir.symbols import product
from graphwright.ops.core.aten_imports import per_axis
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.slice import flipped
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.conv_weight_gradient import ConvWeightGradient
from graphwright.ops.nn.spatial import Windows, span, windows

_PIXELS_PER_CHANNEL = 8
"""With fewer result pixels per channel, PyTorch's gradients are faster: weights are transposed and packed in
each run.
"""
_MANY_CHANNELS = 128


def _aten_convolution_backward(i: AtenImporter) -> Any:
    """The gradients of the input, the weights and the bias. A transposed convolution is the gradient of a
    convolution, so its input and its result change places.
    """
    dy, x, w = i.input(0), i.input(1), i.input(2)
    spatial = rank_of(x) - 2
    strides, padding, dilations = (
        per_axis(i.attr(name), spatial) for name in ("stride", "padding", "dilation")
    )
    group, wanted, transposed = i.attr("groups"), i.attr("output_mask"), i.attr("transposed")
    i.ignore("bias_sizes")
    shape = windows(w.type.sizes[2:], strides, dilations, padding * 2)
    if any(e >= s for e, s in zip(per_axis(i.attr("output_padding"), spatial), strides, strict=True)):
        raise i.fail("an output padding of at least the stride is not supported")
    if group == 1 and _has_few_pixels(x if transposed else dy, max(w.type.sizes[:2])):
        raise i.fail("PyTorch's kernels are faster for few pixels of many channels")
    dx = dw = db = None
    if wanted[0] and i.is_used(0):
        dx = (
            _transposed_gradient(i, dy, w, shape, group)
            if transposed
            else _gradient(i, dy, x, w, shape, group)
        )
    if wanted[1] and i.is_used(1):
        op = ConvWeightGradient(w.type.sizes[2:], shape.strides, shape.pads, shape.dilations, group)
        dw = i.emit(op, dy, x) if transposed else i.emit(op, x, dy)
    if wanted[2] and i.is_used(2):
        db = i.emit(ReduceSum((0, *range(2, 2 + spatial)), keepdims=False), dy)
    return dx, dw, db


def _has_few_pixels(image: Value, channels: int) -> bool:
    """Whether ``image`` [N, C, D...] has few pixels, but many channels; with dynamic sizes it has not."""
    pixels = product((image.type.dims[0], *image.type.dims[2:]))
    return channels >= _MANY_CHANNELS and isinstance(pixels, int) and pixels < _PIXELS_PER_CHANNEL * channels


def _transposed_gradient(i: AtenImporter, dy: Value, w: Value, shape: Windows, group: int) -> Any:
    return i.emit(Conv(shape.strides, shape.pads, shape.dilations, group), dy, w)


def _gradient(i: AtenImporter, dy: Value, x: Value, w: Value, shape: Windows, group: int) -> Any:
    """The gradient of the input of a convolution. With strides of 1, it is a convolution with the flipped
    weights, whose kernels are faster than those of transposed convolutions.
    """
    begins = shape.pads[: shape.rank]
    reaches = [span(k, d) - 1 for k, d in zip(shape.kernel, shape.dilations, strict=True)]
    pads = tuple(reach - pad for reach, pad in zip(reaches, begins, strict=True))
    if all(stride == 1 for stride in shape.strides) and all(
        isinstance(pad, int) and pad >= 0 for pad in pads
    ):
        return i.emit(Conv((), pads * 2, shape.dilations, group), dy, _flipped(i, w, group))
    sizes = zip(x.type.dims[2:], dy.type.dims[2:], shape.strides, begins, reaches, strict=True)
    extra = tuple(size - ((n - 1) * stride + 1 + reach - 2 * pad) for size, n, stride, pad, reach in sizes)
    return i.emit(ConvTranspose(shape.strides, shape.pads, shape.dilations, extra, group), dy, w)


def _flipped(i: AtenImporter, w: Value, group: int) -> Any:
    """The weights [M, C/group, K...] as [C, M/group, K...], with all spatial axes reversed."""
    features, channels, *kernel = w.type.sizes
    axes = tuple(range(2, 2 + len(kernel)))
    grouped = i.emit(Reshape((group, features // group, channels, *kernel)), w)
    swapped = i.emit(Transpose((0, 2, 1, *(axis + 1 for axis in axes))), grouped)
    swapped = i.emit(Reshape((group * channels, features // group, *kernel)), swapped)
    return swapped if set(kernel) == {1} else flipped(i, swapped, axes)


ConvWeightGradient.aten = {"convolution_backward": _aten_convolution_backward}
