"""Import of ONNX Runtime's gated ops of language models: GatedRMSNorm, GatedAdd, LinearAttentionGate, SwiGLU
and ScaledSiLU. They are computed in f32.
"""

from __future__ import annotations

from typing import Any

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer, OnnxImporter
from graphwright.ir.symbols import floordiv
from graphwright.ops.contrib.attention import wide
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import Add, Min, Mul
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.imports import scalar
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.split import Split
from graphwright.ops.core.unary import Sigmoid, Softplus
from graphwright.ops.nn.activations import Swish
from graphwright.ops.nn.layer_normalization import RMSNormalization

_DEFAULT_EPSILON = 1e-5


def _import_norm(i: Importer) -> Value:
    """Inputs: x[..., heads * C], the scale [C], and the gate, of the shape of x. Each head is normalized."""
    x, scale, gate = (wide(i, i.input(index)) for index in range(3))
    kind = str(i.attr("activation", "silu"))
    gates = {"silu": Swish(), "swish": Swish(), "sigmoid": Sigmoid()}
    if kind not in gates:
        raise i.fail(f"activation {kind!r} is not one of {', '.join(gates)}")
    norm, size = RMSNormalization(-1, float(i.attr("epsilon", _DEFAULT_EPSILON))), scale.type.dims[0]
    *rows, features = x.type.dims
    heads = reshaped(i.builder, x, (*rows, floordiv(features, size), size))
    y = reshaped(i.builder, i.emit(norm, heads, scale), x.type.dims)
    return as_dtype(i.builder, i.emit(Mul(), y, i.emit(gates[kind], gate)), i.input(0).type.dtype)


def _import_add(i: Importer) -> Value:
    """``x + y * gate``, with one gate for each row."""
    if i.optional(3) is not None:
        raise i.fail(
            "gate_weight is not supported", hint="multiply the gate by it in a MatMul before this node"
        )
    total: Value = i.emit(Add(), i.input(0), i.emit(Mul(), i.input(1), i.input(2)))
    return total


def _import_attention_gate(i: OnnxImporter) -> Any:
    """Outputs: ``decay_scale * softplus(a + dt_bias)``, and ``sigmoid(b)``."""
    a, dtype = wide(i, i.input(0)), i.input(0).type.dtype
    decay = i.emit(Mul(), i.emit(Softplus(), i.emit(Add(), a, i.input(1))), i.input(2))
    results = [as_dtype(i.builder, decay, dtype)]
    if i.output_count > 1:
        results.append(as_dtype(i.builder, i.emit(Sigmoid(), wide(i, i.input(3))), dtype))
    return results


def _import_swiglu(i: Importer) -> Value:
    """The gate and the linear operand are two inputs, or the halves of the first one. A limit above 0 bounds
    both.
    """
    gate, linear = wide(i, i.input(0)), i.optional(1)
    if linear is None:
        half = floordiv(gate.type.dims[-1], 2)
        gate, linear = i.emit(Split(2, -1, (half, half)), gate)
    linear = wide(i, linear)
    limit, beta = float(i.attr("limit", 0.0)), float(i.attr("activation_beta", 0.0))
    if limit > 0:
        gate = i.emit(Min(), gate, scalar(i, limit, gate))
        linear = i.emit(Clip(-limit, limit), linear)
    activated = i.emit(Swish(float(i.attr("activation_alpha", 1.0))), gate)
    if beta:
        linear = i.emit(Add(), linear, scalar(i, beta, linear))
    return as_dtype(i.builder, i.emit(Mul(), activated, linear), i.input(0).type.dtype)


def _import_silu(i: Importer) -> Value:
    """SiLU of ``alpha * x``; the optional input 1 replaces alpha."""
    x, factor = wide(i, i.input(0)), i.optional(1)
    scale = scalar(i, float(i.attr("alpha", 1.0)), x) if factor is None else wide(i, factor)
    return as_dtype(i.builder, i.emit(Swish(), i.emit(Mul(), x, scale)), i.input(0).type.dtype)


register_contrib(RMSNormalization, GatedRMSNorm=ranked(_import_norm))
register_contrib(Add, GatedAdd=_import_add)
register_contrib(Softplus, LinearAttentionGate=_import_attention_gate)
register_contrib(Swish, SwiGLU=ranked(_import_swiglu), ScaledSiLU=_import_silu)
