"""Makers of the ops of ONNX Runtime's domain."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draft import Draft, Value, integers, uniform
from .makers import makes
from .products import convolution

DOMAIN = "com.microsoft"


def contrib(g: Draft, op: str, inputs: list[Value | None], outputs: int = 1, **attributes: Any) -> None:
    g.node(op, inputs, outputs, domain=DOMAIN, **attributes)


@makes("BiasGelu", "FastGelu", "QuickGelu")
def gelu(g: Draft, op: str) -> None:
    width = g.dim(1, 2, 3, 5, 8)
    x = g.fresh("float32", [*g.dims(g.pick(1, 2)), width])
    if op == "QuickGelu":
        contrib(g, op, [x], **({"alpha": 1.5} if g.chance(0.5) else {}))
        return
    bias = g.fresh("float32", [g.twin(width)]) if op == "BiasGelu" or g.chance(0.6) else None
    contrib(g, op, [x, bias])


@makes("FusedMatMul", "TransposeMatMul")
def fused_matmul(g: Draft, op: str) -> None:
    m, k, n = g.dim(1, 2, 5), g.dim(1, 2, 3, 8), g.dim(1, 2, 4)
    ta, tb = g.pick(0, 1), g.pick(0, 1)
    lead = g.dims(g.pick(0, 0, 1), 1, 2, 3)
    a = g.fresh("float32", [*lead, *((k, m) if ta else (m, k))])
    b = g.fresh("float32", [*map(g.twin, lead), *((n, g.twin(k)) if tb else (g.twin(k), n))])
    contrib(g, op, [a, b], transA=ta, transB=tb, alpha=g.pick(1.0, 0.5))


@makes("FusedConv")
def fused_conv(g: Draft, op: str) -> None:
    x, w, bias, attributes = convolution(g, "float32")
    kind = g.pick("Relu", "Sigmoid", "Tanh", "LeakyRelu")
    extra = {"activation_params": [0.2]} if kind == "LeakyRelu" else {}
    contrib(g, op, [x, w, bias], activation=kind, **extra, **attributes)


@makes("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skip_norm(g: Draft, op: str) -> None:
    dims = [g.dim(1, 2, 3), g.dim(1, 2, 5), g.dim(1, 2, 4, 8)]
    x, skip = g.fresh("float32", dims), g.fresh("float32", [g.twin(d) for d in dims])
    width = dims[-1]
    rest: list[Value | None] = [g.fresh("float32", [g.twin(width)])]
    if op == "SkipLayerNormalization":
        rest.append(g.fresh("float32", [g.twin(width)]) if g.chance(0.5) else None)
    rest.append(g.fresh("float32", [g.twin(width)]) if g.chance(0.4) else None)
    contrib(g, op, [x, skip, *rest], epsilon=g.pick(1e-5, 1e-2))


def quantized(g: Draft, dims: Any, kind: str = "uint8") -> list[Value]:
    """A tensor with its scale and zero point."""
    x = g.fresh(kind, dims, integers(0, 100))
    return [x, *scaling(g, kind)]


def scaling(g: Draft, kind: str = "uint8") -> list[Value]:
    return [g.fresh("float32", [], uniform(0.05, 0.5)), g.fresh(kind, [], integers(0, 9))]


@makes("QLinearAdd", "QLinearMul")
def qlinear_binary(g: Draft, op: str) -> None:
    kind = g.pick("uint8", "int8")
    dims = g.dims(g.pick(1, 2, 3))
    a = quantized(g, dims, kind)
    b = quantized(g, [g.maybe_one(d) for d in dims], kind)
    contrib(g, op, [*a, *b, *scaling(g, kind)])


@makes("QLinearSigmoid", "QLinearLeakyRelu")
def qlinear_unary(g: Draft, op: str) -> None:
    kind = g.pick("uint8", "int8")
    extra = {"alpha": 0.2} if op == "QLinearLeakyRelu" else {}
    contrib(g, op, [*quantized(g, g.dims(g.pick(1, 2, 3)), kind), *scaling(g, kind)], **extra)


@makes("QLinearConcat")
def qlinear_concat(g: Draft, op: str) -> None:
    dims = list(g.dims(g.pick(1, 2, 3)))
    axis = g.random.randrange(len(dims))
    parts = []
    for _ in range(g.pick(1, 2, 3)):
        parts += quantized(g, [g.dim() if k == axis else g.twin(d) for k, d in enumerate(dims)])
    contrib(g, op, [*scaling(g), *parts], axis=axis)


@makes("QLinearGlobalAveragePool")
def qlinear_pool(g: Draft, op: str) -> None:
    x = quantized(g, [*g.dims(2, 1, 2, 3), *g.dims(2, 1, 2, 3, 5)])
    contrib(g, op, [*x, *scaling(g)], channels_last=0)


@makes("MatMulIntegerToFloat")
def integer_to_float(g: Draft, op: str) -> None:
    m, k, n = g.dim(1, 2, 3), g.dim(1, 2, 3, 8), g.dim(1, 2, 4)
    a, b = g.fresh("uint8", [m, k], integers(0, 9)), g.fresh("uint8", [g.twin(k), n], integers(0, 9))
    scales = [g.fresh("float32", [], uniform(0.1, 1)) for _ in range(2)]
    zeros = [g.fresh("uint8", [], integers(0, 9)) if g.chance(0.5) else None for _ in range(2)]
    bias = g.fresh("float32", [g.twin(n)]) if g.chance(0.5) else None
    contrib(g, op, [a, b, *scales, *zeros, bias])


@makes("DynamicQuantizeMatMul")
def dynamic_matmul(g: Draft, op: str) -> None:
    m, k, n = g.dim(1, 2, 3), g.dim(1, 2, 3, 8), g.dim(1, 2, 4)
    a, b = g.fresh("float32", [m, k]), g.fresh("uint8", [g.twin(k), n], integers(0, 9))
    scale = g.fresh("float32", [], uniform(0.1, 1))
    zero = g.fresh("uint8", [], integers(0, 9)) if g.chance(0.6) else None
    bias = g.fresh("float32", [g.twin(n)]) if g.chance(0.5) else None
    contrib(g, op, [a, b, scale, zero, bias])


@makes("MatMulNBits")
def matmul_nbits(g: Draft, op: str) -> None:
    block, blocks, n = 16, g.pick(1, 2), g.pick(1, 2, 5)
    k = block * blocks
    a = g.fresh("float32", [*g.dims(g.pick(1, 2), 1, 2, 3), k])
    rng = np.random.default_rng(g.random.randrange(2**32))
    b = g.weight(rng.integers(0, 256, (n, blocks, block // 2)).astype(np.uint8))
    scales = g.weight(rng.uniform(0.1, 1, n * blocks).astype(np.float32))
    packed = rng.integers(0, 256, n * ((blocks + 1) // 2)).astype(np.uint8)
    zeros = g.weight(packed) if g.chance(0.5) else None
    contrib(g, op, [a, b, scales, zeros], K=k, N=n, bits=4, block_size=block)
