"""Import of the ops of ONNX Runtime's domain com.microsoft.nchwc, on images with channels in blocks, [N,
C / block, H, W, block]. It writes them if it saves a model with all optimizations.

The imported values have no blocks. The other ops between these are elementwise, or concatenate channels,
which gives the same without blocks. ``block`` is an attribute that the frontend adds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Import, Importer, OnnxImporter, Op
from graphwright.ir.symbols import Dim
from graphwright.ops.contrib.node_with_inputs import NodeWithInputs
from graphwright.ops.contrib.products import import_conv
from graphwright.ops.core.identity import Identity
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.average_pool import AveragePool, average_pool_of
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.global_pool import GlobalAveragePool, GlobalMaxPool
from graphwright.ops.nn.max_pool import MaxPool
from graphwright.ops.nn.resize import Resize
from graphwright.ops.nn.spatial import import_pool

DOMAIN = "com.microsoft.nchwc"
_CHANNELS_FIRST, _CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def _import_reorder_input(i: Importer) -> Value:
    """Fills the last block of channels with zeros."""
    x, block = i.input(0), int(i.required_attr("block"))
    if i.attr("channels_last", 0):
        x = i.emit(Transpose(_CHANNELS_FIRST), x)
    missing: Dim = -x.type.dims[1] % block
    return x if missing == 0 else i.emit(Pad((0, 0, 0, 0, 0, missing, 0, 0)), x)


def _import_reorder_output(i: Importer) -> Value:
    """Takes the first ``channels``."""
    x, channels = i.input(0), int(i.required_attr("channels"))
    if x.type.dims[1] != channels:
        x = i.emit(Slice((0,), (channels,), (1,), (1,)), x)
    return i.emit(Transpose(_CHANNELS_LAST), x) if i.attr("channels_last", 0) else x


def _import_conv(i: OnnxImporter) -> Value:
    """FusedConv with weights in blocks."""
    weights = i.constant(1)
    if weights is None or weights.ndim != 4:
        raise i.fail("the weights are not constant, or do not have 4 axes", "use the original model")
    plain = _unblocked(weights, int(i.required_attr("block")), int(i.attr("group", 1)))
    others = [i.optional(index) for index in (2, 3)]
    return import_conv(NodeWithInputs(i, [i.input(0), i.const(np.ascontiguousarray(plain)), *others]))


def _unblocked(weights: Array, block: int, groups: int) -> Array:
    """The weights [O, I, H, W], whose elements are in the order [O / block, I / block, H, W, block of I,
    block of O]; or [O / block, I, H, W, block of O] in depthwise convolutions, and if I is less than a block.
    """
    o, i, h, w = weights.shape
    if (i == 1 and groups == o) or (groups == 1 and i < block):
        return weights.reshape(o // block, i, h, w, block).transpose(0, 4, 1, 2, 3).reshape(weights.shape)
    blocks = weights.reshape(o // block, i // block, h, w, block, block)
    return blocks.transpose(0, 5, 1, 4, 2, 3).reshape(weights.shape)


def _import_upsample(i: Importer) -> Value:
    mode, coordinates = i.attr("mode", "nearest"), i.attr("coordinate_transformation_mode", "asymmetric")
    resize = Resize(str(mode), str(coordinates), "floor", tuple(map(float, i.required_attr("scales"))))
    y: Value = i.emit(resize, i.input(0))
    return y


def _pooled(make_op: Callable[[Importer], Op]) -> Import:
    return lambda i: i.emit(make_op(i), i.input(0))


def _register(cls: type[Op], **imports: Import) -> None:
    cls.onnx = {**cls.onnx, **{(name, 1, DOMAIN): ranked(convert) for name, convert in imports.items()}}


_register(Pad, ReorderInput=_import_reorder_input)
_register(Slice, ReorderOutput=_import_reorder_output)
_register(Identity, Reshape=lambda i: i.input(0))  # to and from [N, C / block, H, W, block]
_register(Conv, Conv=_import_conv)
_register(MaxPool, MaxPool=_pooled(lambda i: MaxPool(**import_pool(i))))
_register(AveragePool, AveragePool=_pooled(average_pool_of))
_register(GlobalMaxPool, GlobalMaxPool=_pooled(lambda i: GlobalMaxPool()))
_register(GlobalAveragePool, GlobalAveragePool=_pooled(lambda i: GlobalAveragePool()))
_register(Resize, Upsample=_import_upsample)
