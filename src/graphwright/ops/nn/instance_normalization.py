"""InstanceNormalization and GroupNormalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import (
    Array,
    AtenImporter,
    Fact,
    Importer,
    Inference,
    InferError,
    OnnxImporter,
    Op,
    Sample,
    arg,
    op,
)
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, floordiv, mod, product, symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.cast import as_dtype, in_f32
from graphwright.ops.core.checks import need_dtype, rank_of
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.references import like, quiet, widened
from graphwright.ops.core.reshape import Reshape, reshaped
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.nn.normalization import (
    along_channels,
    channels,
    need_channels,
    standardize,
    standardized,
)


@op("InstanceNormalization")
class InstanceNormalization(Op):
    """Normalizes each channel of each image x[N, C, D...] to mean 0 and variance 1, multiplies it by
    ``scale`` and adds ``bias`` (Ulyanov et al. 2016).

    Scale and bias are [C]. 16-bit floats are computed in f32.
    """

    epsilon: float = 1e-5

    def infer(self, at: Inference, x: Fact, scale: Fact, bias: Fact) -> TensorType:
        need_channels(at, x, scale, bias)
        for parameter in (scale, bias):
            need_dtype(at, parameter, {x.dtype}, "a parameter")
        return x.type

    @quiet
    def reference(self, x: Array, scale: Array, bias: Array) -> Array:
        normal = standardize(widened(x), range(2, x.ndim), self.epsilon)[0]
        return like(normal * channels(scale, x.ndim) + channels(bias, x.ndim), x)

    def decompose(self, b: Builder, x: Value, scale: Value, bias: Value) -> Value:
        normal = standardized(b, in_f32(b, x), range(2, rank_of(x)), self.epsilon)[0]
        return as_dtype(b, _affine(b, normal, scale, bias), x.type.dtype)


def _affine(b: Builder, normal: Value, scale: Value, bias: Value) -> Any:
    factor, shift = (along_channels(b, in_f32(b, p), rank_of(normal)) for p in (scale, bias))
    return b(Add(), b(Mul(), normal, factor), shift)


@op("GroupNormalization")
class GroupNormalization(Op):
    """Normalizes each group of channels of each image x[N, C, D...] to mean 0 and variance 1, multiplies it
    by ``scale`` and adds ``bias`` (Wu and He 2018).

    Scale and bias are [C]. 16-bit floats are computed in f32.
    """

    groups: int
    epsilon: float = 1e-5

    def verify(self) -> None:
        if self.groups < 1:
            raise InferError(f"{self.groups} groups: there must be at least 1")

    def infer(self, at: Inference, x: Fact, scale: Fact, bias: Fact) -> TensorType:
        need_channels(at, x, scale, bias)
        if at.symbols.refutes_equal(mod(x.shape[1], self.groups), 0):
            raise at.fail(f"{x.shape[1]} channels are not a multiple of {self.groups} groups")
        at.equal(mod(x.shape[1], self.groups), 0, "remainder of channels over groups")
        for parameter in (scale, bias):
            need_dtype(at, parameter, {x.dtype}, "a parameter")
        return x.type

    @quiet
    def reference(self, x: Array, scale: Array, bias: Array) -> Array:
        size = x[:1, :1].size if x.size else 0
        rows = widened(x).reshape(x.shape[0], self.groups, x.shape[1] // self.groups * size)
        normal = standardize(rows, (2,), self.epsilon)[0]
        return like(normal.reshape(x.shape) * channels(scale, x.ndim) + channels(bias, x.ndim), x)

    def decompose(self, b: Builder, x: Value, scale: Value, bias: Value) -> Value:
        batch, count, *rest = x.type.dims
        rows = (batch, self.groups, floordiv(count, self.groups) * product(rest))
        normal = standardized(b, reshaped(b, in_f32(b, x), rows), (2,), self.epsilon)[0]
        result = reshaped(b, normal, x.type.dims)
        return as_dtype(b, _affine(b, result, scale, bias), x.type.dtype)


def _import_instance(i: Importer) -> Any:
    return i.emit(InstanceNormalization(float(i.attr("epsilon", 1e-5))), *i.inputs())


def _import_group(i: Importer) -> Any:
    groups, epsilon = int(i.required_attr("num_groups")), float(i.attr("epsilon", 1e-5))
    return i.emit(GroupNormalization(groups, epsilon), *i.inputs())


def _import_group_18(i: OnnxImporter) -> Any:
    """In opset 18, scale and bias have one element for each group."""
    x, groups = i.input(0), int(i.required_attr("num_groups"))
    parameters = [i.input(1), i.input(2)]
    if rank_of(x) > 1:  # else the op is rejected
        parameters = [_for_each_channel(i, p, groups, x.type.dims[1]) for p in parameters]
    return i.emit(GroupNormalization(groups, float(i.attr("epsilon", 1e-5))), x, *parameters)


def _for_each_channel(i: Importer, parameter: Value, groups: int, count: Dim) -> Value:
    """The parameter of each channel, given those of the groups."""
    dims = parameter.type.dims
    if len(dims) != 1 or (isinstance(dims[0], int) and dims[0] != groups):
        raise i.fail(f"a parameter is {parameter.type}; it must have one element for each of {groups} groups")
    column = i.emit(Unsqueeze((1,)), parameter)
    result: Value = i.emit(Reshape((-1,)), i.emit(Expand((groups, floordiv(count, groups))), column))
    return result


InstanceNormalization.onnx = {("InstanceNormalization", 6): _import_instance}
InstanceNormalization.to_onnx = as_onnx("InstanceNormalization", epsilon="epsilon")
GroupNormalization.to_onnx = as_onnx("GroupNormalization", num_groups="groups", epsilon="epsilon")
GroupNormalization.onnx = {
    ("GroupNormalization", 18): ranked(_import_group_18),
    ("GroupNormalization", 21): _import_group,
}
_N, _H = symbol("N"), symbol("H")
InstanceNormalization.samples = (
    *(Sample(InstanceNormalization(), (arg(t, 2, 3, 4, 5), arg(t, 3), arg(t, 3))) for t in (F32, F64, F16)),
    Sample(InstanceNormalization(1e-2), (arg(F32, 2, 3, 7), arg(F32, 3), arg(F32, 3))),
    Sample(InstanceNormalization(), (arg(F32, _N, 3, _H, 4), arg(F32, 3), arg(F32, 3))),
    Sample(InstanceNormalization(), (arg(F32, 2, 3, 4), arg(F32, 4), arg(F32, 3)), "4 and 3 differ"),
    Sample(InstanceNormalization(), (arg(F32, 2, 3, 4), arg(F64, 3), arg(F32, 3)), "a parameter is f64"),
    Sample(InstanceNormalization(), (arg(I32, 2, 3, 4), arg(I32, 3), arg(I32, 3)), "the input is i32"),
)
GroupNormalization.samples = (
    *(Sample(GroupNormalization(2), (arg(t, 2, 6, 4, 5), arg(t, 6), arg(t, 6))) for t in (F32, F64, F16)),
    Sample(GroupNormalization(3, 1e-2), (arg(F32, 2, 6, 5), arg(F32, 6), arg(F32, 6))),
    Sample(GroupNormalization(2), (arg(F32, _N, 4, _H, 3), arg(F32, 4), arg(F32, 4))),
    Sample(GroupNormalization(2), (arg(F32, 3, 4), arg(F32, 4), arg(F32, 4))),
    Sample(
        GroupNormalization(4),
        (arg(F32, 2, 6, 5), arg(F32, 6), arg(F32, 6)),
        "6 channels are not a multiple of 4 groups",
    ),
    Sample(GroupNormalization(0), (arg(F32, 2, 6), arg(F32, 6), arg(F32, 6)), "there must be at least 1"),
)


def _aten_group_norm(i: AtenImporter) -> Any:
    """Outputs 1 and 2, mean and inverse deviation for gradients, are not supported."""
    i.ignore("N", "C", "HxW")
    if i.is_used(1) or i.is_used(2):
        raise i.fail("its outputs mean and rstd are not supported")
    x = i.input(0)
    channels, dtype = x.type.dims[1:2], x.type.dtype.numpy
    scale = i.optional(1) or i.emit(Expand(channels), i.const(np.ones(1, dtype)))
    bias = i.optional(2) or i.emit(Expand(channels), i.const(np.zeros(1, dtype)))
    return i.emit(GroupNormalization(i.attr("group"), i.attr("eps")), x, scale, bias), None, None


GroupNormalization.aten = {"native_group_norm": _aten_group_norm}
