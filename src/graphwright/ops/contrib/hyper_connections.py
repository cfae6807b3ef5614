"""Import of ONNX Runtime's ops of hyper-connections, which keep several residual streams (Zhu et al. 2024):
HyperConnectionPreMix, HyperConnectionPostMix, BranchwiseRMSNorm and EngramGate. They are computed in f32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer, OnnxImporter
from graphwright.ir.symbols import floordiv
from graphwright.ops.contrib.attention import wide
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import Add, Max, Mul
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.div import Div
from graphwright.ops.core.imports import scalar
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import Abs, Sigmoid, Sign, Sqrt
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.nn.layer_normalization import RMSNormalization

_DEFAULT_EPSILON = 1e-5
_LEAST_DOT = 1e-6


def _streams(i: Importer) -> Value:
    """Input 0, the streams, as f32[..., C, H]; with ``num_branches`` they are stored as [..., C * H]."""
    x, count = wide(i, i.input(0)), int(i.attr("num_branches", 0))
    if count < 0:
        raise i.fail(
            f"num_branches is {count}",
            hint="it must be the number of streams, or 0 if they have an axis of their own",
        )
    if count:
        *rows, features = x.type.dims
        return reshaped(i.builder, x, (*rows, count, floordiv(features, count)))
    if rank_of(x) < 2:
        raise i.fail(f"the streams are {x.type}", hint="they must have the axes [..., C, H]")
    return x


def _gates(i: Importer, index: int, streams: Value) -> Value:
    """Input ``index`` as f32[..., C, 1] or [..., C, H]: one number for each stream, or for each feature."""
    gates, dims = wide(i, i.input(index)), streams.type.dims
    if gates.type.dims[-1] == dims[-2] and rank_of(gates) == len(dims) - 1:
        return reshaped(i.builder, gates, (*gates.type.dims, 1))
    if rank_of(gates) == len(dims) - 1:
        return reshaped(i.builder, gates, dims)
    return gates


def _import_pre_mix(i: Importer) -> Value:
    """The sum of the streams, each times its gate."""
    streams = _streams(i)
    mixed = i.emit(ReduceSum((-2,), keepdims=False), i.emit(Mul(), streams, _gates(i, 1, streams)))
    scale = scalar(i, float(i.attr("reduction_scale", 1.0)), mixed)
    return as_dtype(i.builder, i.emit(Mul(), mixed, scale), i.input(0).type.dtype)


def _import_post_mix(i: Importer) -> Value:
    """The streams, mixed by a matrix if there is one, plus the output of the block times the gates."""
    streams, mix = _streams(i), i.optional(3)
    block = i.emit(Unsqueeze((-2,)), wide(i, i.input(1)))
    added = i.emit(Mul(), block, _gates(i, 2, streams))
    if mix is not None:
        rank = rank_of(streams)
        by_target = i.emit(Transpose((*range(rank - 2), rank - 1, rank - 2)), wide(i, mix))
        streams = i.emit(MatMul(), by_target, streams)
    y = reshaped(i.builder, i.emit(Add(), streams, added), i.input(0).type.dims)
    return as_dtype(i.builder, y, i.input(0).type.dtype)


def _import_norm(i: Importer) -> Value:
    """Each stream is normalized; the optional scale is [H], [C, H] or [C * H]."""
    streams, scale = _streams(i), i.optional(1)
    count, features = streams.type.dims[-2:]
    y = _normalized(i, streams, float(i.attr("epsilon", _DEFAULT_EPSILON)))
    if scale is not None:
        scale = wide(i, scale)
        if rank_of(scale) == 1 and scale.type.dims[0] != features:
            scale = reshaped(i.builder, scale, (count, features))
        y = i.emit(Mul(), y, scale)
    y = reshaped(i.builder, y, i.input(0).type.dims)
    return as_dtype(i.builder, y, i.input(0).type.dtype)


def _normalized(i: Importer, x: Value, epsilon: float) -> Value:
    y: Value = i.emit(RMSNormalization(-1, epsilon), x, scalar(i, 1.0, x))
    return y


def _import_engram_gate(i: OnnxImporter) -> Any:
    """Inputs: key and query [B, T, C, H], value [B, T, H], the scales of their norms [C, H], and that of the
    second output.

    The gate is ``sigmoid(sign(dot) * sqrt(max(|dot|, 1e-6)))``, the dot product of normalized vectors.
    """
    key, query, value = (wide(i, i.input(index)) for index in range(3))
    dtype, epsilon = i.input(0).type.dtype, float(i.attr("epsilon", _DEFAULT_EPSILON))
    factors = [
        i.emit(Mul(), _normalized(i, x, epsilon), wide(i, i.input(index)))
        for x, index in ((key, 3), (query, 4))
    ]
    features = key.type.dims[-1]
    if not isinstance(features, int):
        raise i.fail(f"the keys are {key.type}", hint="their last axis must be static")
    dot = i.emit(ReduceSum((-1,), keepdims=True), i.emit(Mul(), *factors))
    dot = i.emit(Div(), dot, i.const(np.asarray(features**0.5, np.float32)))
    root = i.emit(Sqrt(), i.emit(Max(), i.emit(Abs(), dot), scalar(i, _LEAST_DOT, dot)))
    gate = i.emit(Sigmoid(), i.emit(Mul(), i.emit(Sign(), dot), root))
    y = i.emit(Mul(), gate, i.emit(Unsqueeze((2,)), value))
    results = [as_dtype(i.builder, y, dtype)]
    if i.output_count > 1:
        normed = i.emit(Mul(), _normalized(i, y, epsilon), wide(i, i.input(5)))
        results.append(as_dtype(i.builder, normed, dtype))
    return results


register_contrib(
    Mul,
    HyperConnectionPreMix=ranked(_import_pre_mix),
    HyperConnectionPostMix=ranked(_import_post_mix),
    BranchwiseRMSNorm=ranked(_import_norm),
    EngramGate=ranked(_import_engram_gate),
)
