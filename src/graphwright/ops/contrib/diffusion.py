"""Import of ops that ONNX Runtime's optimizer writes for diffusion models on GPUs: GroupNorm, SkipGroupNorm,
BiasAdd, BiasSplitGelu, NhwcConv and NhwcFusedConv.
"""

from __future__ import annotations

from typing import Any

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer, OnnxImporter
from graphwright.ir.symbols import floordiv
from graphwright.ops.contrib.node_with_inputs import NodeWithInputs
from graphwright.ops.contrib.products import import_conv
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import Add, Mul, added
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.split import Split
from graphwright.ops.core.transpose import Transpose, in_channels_first
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.nn.activations import Gelu, Swish
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.instance_normalization import GroupNormalization


def _import_norm(i: Importer) -> Value:
    """Inputs: an image, channels last unless the attribute denies it, and scale and bias of each channel."""
    return _normalized(i, i.input(0))


def _normalized(i: Importer, x: Value) -> Value:
    op = GroupNormalization(int(i.required_attr("groups")), float(i.attr("epsilon", 1e-5)))
    scale, bias = (as_dtype(i.builder, i.input(index), x.type.dtype) for index in (1, 2))
    activation = int(i.attr("activation", 0))
    if activation not in (0, 1):
        raise i.fail(f"activation is {activation}; it must be 0 (none) or 1 (SiLU)")

    def normalized(image: Value) -> Value:
        y: Value = i.emit(op, image, scale, bias)
        return i.emit(Swish(), y) if activation else y

    return in_channels_first(i, x, normalized) if i.attr("channels_last", 1) else normalized(x)


def _import_skip_norm(i: Importer) -> Any:
    """Adds input 3, which may be [N, C], and the optional bias [C] before. Outputs: the result and the
    sum.
    """
    x, skip, bias = i.input(0), i.input(3), i.optional(4)
    last = bool(i.attr("channels_last", 1))
    if rank_of(skip) == 2:
        skip = i.emit(Unsqueeze((1, 2) if last else (2, 3)), skip)
    if bias is not None and not last:
        bias = i.emit(Unsqueeze((1, 2)), bias)
    total = added(i, x, skip, bias)
    return _normalized(i, total), total


def _import_bias_add(i: Importer) -> Value:
    return added(i, i.input(0), i.input(1), i.optional(2))


def _import_split_gelu(i: Importer) -> Value:
    """The first half of the features of the sum, multiplied by Gelu of the second half."""
    total = i.emit(Add(), i.input(0), i.input(1))
    half = floordiv(total.type.dims[-1], 2)
    left, right = i.emit(Split(2, -1, (half, half)), total)
    y: Value = i.emit(Mul(), left, i.emit(Gelu(), right))
    return y


def _import_conv(i: OnnxImporter) -> Value:
    """Conv of a channels-last image, with channels-last weights [M, H, W, C / group]."""
    w = i.input(1)
    return _convolved(i, i.emit(Transpose(_channels_first(w)), w))


def _import_fused_conv(i: OnnxImporter) -> Value:
    """FusedConv of a channels-last image, with weights [M, C / group, H, W]; input 3 is channels last."""
    return _convolved(i, i.input(1))


def _convolved(i: OnnxImporter, w: Value) -> Value:
    residual = i.optional(3)
    if residual is not None:
        residual = i.emit(Transpose(_channels_first(residual)), residual)
    others = [w, i.optional(2), residual]
    return in_channels_first(i, i.input(0), lambda image: import_conv(NodeWithInputs(i, [image, *others])))


def _channels_first(x: Value) -> tuple[int, ...]:
    """The axes of channels-last ``x`` in the order of a channels-first tensor."""
    rank = rank_of(x)
    return (0, rank - 1, *range(1, rank - 1))


register_contrib(GroupNormalization, GroupNorm=ranked(_import_norm), SkipGroupNorm=ranked(_import_skip_norm))
register_contrib(Add, BiasAdd=_import_bias_add)
register_contrib(Gelu, BiasSplitGelu=ranked(_import_split_gelu))
register_contrib(Conv, NhwcConv=ranked(_import_conv), NhwcFusedConv=ranked(_import_fused_conv))
