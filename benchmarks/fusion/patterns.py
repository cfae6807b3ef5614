"""Graphs with merges that may or may not be beneficial: small parts of models, at sizes from L1 to memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import graphwright as gw
from graphwright.ir.graph import Module, Value

Array = np.ndarray[Any, Any]
Size = tuple[int, ...]
Build = Callable[[gw.GraphBuilder, Size], Sequence[Value]]
"""Adds the pattern at one size, and returns its outputs."""


@dataclass(frozen=True)
class Pattern:
    """A graph at several sizes; ``anchor``: the kind of contraction in it, or ``none``."""

    name: str
    anchor: str
    build: Build
    sizes: Sequence[Size]

    def module(self, size: Size) -> Module:
        """The graph at one size; every node has a source of its own."""
        builder = gw.GraphBuilder()
        for number, value in enumerate(self.build(builder, size)):
            builder.output(f"y{number}", value)
        module = builder.build()
        for number, node in enumerate(module.main):
            node.sources = (f"op{number}",)
        return module


PATTERNS: Final[dict[str, Pattern]] = {}


def _pattern(anchor: str, sizes: Sequence[Size]) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        name = build.__name__.removeprefix("_")
        PATTERNS[name] = Pattern(name, anchor, build, sizes)
        return build

    return register


def _table(anchor: str, sizes: Sequence[Size], prefix: str, tails: Mapping[str, Tail], head: Head) -> None:
    """Registers a pattern for each of ``tails``, which reads the result of ``head``."""
    for name, tail in tails.items():

        def build(b: gw.GraphBuilder, size: Size, tail: Tail = tail) -> Sequence[Value]:
            return tail(b, head(b, size))

        PATTERNS[f"{prefix}_{name}"] = Pattern(f"{prefix}_{name}", anchor, build, sizes)


Head = Callable[[gw.GraphBuilder, Size], Value]
Tail = Callable[[gw.GraphBuilder, Value], Sequence[Value]]


def weights(*shape: int, dtype: Any = np.float32) -> Array:
    """Normal numbers, of the size that keeps sums of them near 1."""
    fan_in = max(1, int(np.prod(shape[1:]))) if len(shape) > 2 else shape[0]
    return (np.random.default_rng(0).standard_normal(shape) / fan_in**0.5).astype(dtype)


def _vector(n: int) -> Array:
    return 1 + weights(n) / 4


def _like(b: gw.GraphBuilder, x: Value, name: str = "r") -> Value:
    return b.input(name, str(x.type.dtype), x.type.sizes)


# Elementwise chains: rows x columns.
FLAT: Final = ((16, 256), (64, 1000), (1024, 256), (2048, 1024), (12288, 1024))
ROWS: Final = ((32, 128), (128, 384), (512, 768), (197, 1000), (4096, 1024))
IMAGES: Final = ((1, 16, 24, 24), (1, 32, 56, 56), (1, 96, 56, 56), (1, 64, 160, 160))


def _x(b: gw.GraphBuilder, size: Size, dtype: str = "f32") -> Value:
    return b.input("x", dtype, size)


def _silu(b: gw.GraphBuilder, x: Value) -> Value:
    return b.mul(x, b.sigmoid(x))


_CHAINS: Final[dict[str, Tail]] = {
    "add_relu": lambda b, x: [b.relu(b.add(x, _like(b, x)))],
    "scale_shift": lambda b, x: [b.add(b.mul(b.add(b.mul(x, 0.5), 0.25), 1.5), -0.125)],
    "silu": lambda b, x: [_silu(b, x)],
    "silu_after_add": lambda b, x: [_silu(b, b.add(x, _like(b, x)))],
    "gelu_add": lambda b, x: [b.add(b.gelu(x), _like(b, x))],
    "tanh_mul": lambda b, x: [b.mul(b.tanh(b.mul(x, 0.8)), _like(b, x))],
    "exp_log": lambda b, x: [b.log(b.add(b.exp(x), 1.0))],
    "sqrt_div": lambda b, x: [b.div(_like(b, x), b.sqrt(b.add(b.mul(x, x), 1.0)))],
    "mish": lambda b, x: [b.mul(x, b.tanh(b.softplus(x)))],
    "sin_cos": lambda b, x: [b.add(b.mul(b.sin(x), _like(b, x)), b.cos(x))],
    "hard_swish_add": lambda b, x: [b.add(b.hard_swish(x), _like(b, x))],
    "long_cheap": lambda b, x: [_long_cheap(b, x)],
    "long_costly": lambda b, x: [b.tanh(b.exp(b.neg(b.abs(b.erf(b.sigmoid(x))))))],
    "select": lambda b, x: [b.where(b.greater(x, 0.0), b.mul(x, 1.05), b.sub(b.exp(x), 1.0))],
    "power": lambda b, x: [b.mul(b.pow(b.add(b.abs(x), 1.0), 1.7), _like(b, x))],
    "sum_is_read_again": lambda b, x: _sum_is_read_again(b, x),
    "two_readers": lambda b, x: _two_readers(b, x),
    "four_operands": lambda b, x: [
        b.add(b.mul(x, _like(b, x)), b.mul(_like(b, x, "s"), b.sub(_like(b, x, "t"), x)))
    ],
    "column_bias": lambda b, x: [
        b.relu(b.add(b.mul(x, _vector(x.type.sizes[-1])), _vector(x.type.sizes[-1])))
    ],
    "row_scale": lambda b, x: [b.exp(b.mul(x, b.input("r", "f32", (x.type.sizes[0], 1))))],
    "outer_sum": lambda b, x: [
        b.mul(
            x,
            b.add(
                b.input("r", "f32", (x.type.sizes[0], 1)), b.exp(b.input("c", "f32", (1, x.type.sizes[1])))
            ),
        )
    ],
    "through_a_view": lambda b, x: [
        b.tanh(b.reshape(b.add(x, 1.0), np.array([-1, 8, x.type.sizes[1] // 8])))
    ],
}


def _long_cheap(b: gw.GraphBuilder, x: Value) -> Value:
    other, value = _like(b, x), x
    for k in range(6):
        value = b.max(b.add(b.mul(value, 0.9 - k / 16), other), -2.0 - k)
    return value


def _sum_is_read_again(b: gw.GraphBuilder, x: Value) -> Sequence[Value]:
    total = b.add(x, _like(b, x))
    return [total, b.relu(b.mul(total, 0.5))]


def _two_readers(b: gw.GraphBuilder, x: Value) -> Sequence[Value]:
    shared = b.exp(b.mul(x, 0.5))
    return [b.add(shared, 1.0), b.mul(shared, _like(b, x))]


_table("none", FLAT, "chain", _CHAINS, _x)


@_pattern("none", FLAT)
def _f16_chain(b: gw.GraphBuilder, size: Size) -> Sequence[Value]:
    x = b.cast(_x(b, size, "f16"), to="f32")
    return [b.cast(b.mul(_silu(b, x), 0.5), to="f16")]


@_pattern("none", FLAT)
def _bytes_to_floats(b: gw.GraphBuilder, size: Size) -> Sequence[Value]:
    x = b.mul(b.cast(_x(b, size, "i8"), to="f32"), 0.02)
    return [b.add(b.relu(x), b.input("r", "f32", size))]


@_pattern("none", FLAT)
def _floats_to_bytes(b: gw.GraphBuilder, size: Size) -> Sequence[Value]:
    return [b.cast(b.clip(b.round(b.mul(b.tanh(_x(b, size)), 127.0)), -128.0, 127.0), to="i8")]


@_pattern("none", FLAT)
def _f64_chain(b: gw.GraphBuilder, size: Size) -> Sequence[Value]:
    x = _x(b, size, "f64")
    return [b.add(b.exp(b.mul(x, 0.5)), _like(b, x))]


@_pattern("none", FLAT)
def _i32_chain(b: gw.GraphBuilder, size: Size) -> Sequence[Value]:
    x = _x(b, size, "i32")
    return [b.cast(b.max(b.add(b.mul(x, 3), _like(b, x)), 0), to="f32")]


# Reductions before and after elementwise nodes.
def _layer_norm(b: gw.GraphBuilder, x: Value) -> Value:
    n = x.type.sizes[-1]
    return b.layer_normalization(x, _vector(n), weights(n))


def _rms_norm(b: gw.GraphBuilder, x: Value) -> Value:
    return b.rms_normalization(x, _vector(x.type.sizes[-1]))


_ROW_TAILS: Final[dict[str, Tail]] = {
    "sum_of_exp": lambda b, x: [b.reduce_sum(b.exp(x), axes=(1,))],
    "mean_of_squares": lambda b, x: [b.reduce_mean(b.mul(b.sub(x, _like(b, x)), x), axes=(1,))],
    "minus_max": lambda b, x: [b.exp(b.sub(x, b.reduce_max(x, axes=(1,))))],
    "scale_mask_softmax": lambda b, x: [b.softmax(b.add(b.mul(x, 0.125), _like(b, x)), axis=-1)],
    "softmax_mul": lambda b, x: [b.mul(b.softmax(x, axis=-1), _like(b, x))],
    "log_softmax": lambda b, x: [b.log_softmax(b.add(x, _like(b, x)), axis=-1)],
    "residual_layer_norm": lambda b, x: _residual_norm(b, x, _layer_norm),
    "layer_norm_gelu": lambda b, x: [b.gelu(_layer_norm(b, x))],
    "layer_norm_residual": lambda b, x: [b.add(_layer_norm(b, x), _like(b, x))],
    "residual_rms_norm": lambda b, x: _residual_norm(b, x, _rms_norm),
    "rms_norm_gate": lambda b, x: [b.mul(_rms_norm(b, x), _silu(b, _like(b, x)))],
    "gelu_layer_norm": lambda b, x: [_layer_norm(b, b.gelu(x))],
    "unit_rows": lambda b, x: [b.div(x, b.sqrt(b.reduce_sum(b.mul(x, x), axes=(1,))))],
    "column_mean": lambda b, x: [b.reduce_mean(b.mul(x, _like(b, x)), axes=(0,))],
    "column_softmax": lambda b, x: [b.softmax(b.mul(x, 0.5), axis=0)],
    "centerd_tanh": lambda b, x: [b.tanh(b.sub(x, b.reduce_mean(x, axes=(1,))))],
    "sigmoid_of_sums": lambda b, x: [b.sigmoid(b.mul(b.reduce_sum(b.mul(x, x), axes=(1,)), 0.01))],
}


def _residual_norm(
    b: gw.GraphBuilder, x: Value, norm: Callable[[gw.GraphBuilder, Value], Value]
) -> Sequence[Value]:
    total = b.add(x, _like(b, x))
    return [total, norm(b, total)]


_table("none", ROWS, "rows", _ROW_TAILS, _x)
_table(
    "none",
    ((4, 4096), (16, 50257), (8, 200_000), (2, 1_000_000)),
    "long_rows",
    {name: _ROW_TAILS[name] for name in ("scale_mask_softmax", "residual_layer_norm", "layer_norm_gelu")},
    _x,
)


def _channels(x: Value) -> Array:
    return _vector(x.type.sizes[1]).reshape(1, -1, 1, 1)


_IMAGE_TAILS: Final[dict[str, Tail]] = {
    "mean_of_silu": lambda b, x: [b.reduce_mean(_silu(b, x), axes=(2, 3))],
    "excite": lambda b, x: [b.mul(x, b.sigmoid(b.input("g", "f32", (1, x.type.sizes[1], 1, 1))))],
    "channel_affine": lambda b, x: [b.relu(b.add(b.mul(x, _channels(x)), _channels(x)))],
    "instance_norm_relu": lambda b, x: [
        b.relu(b.instance_normalization(x, _vector(x.type.sizes[1]), weights(x.type.sizes[1])))
    ],
    "residual_and_mean": lambda b, x: _residual_norm(b, x, lambda b, y: b.reduce_mean(y, axes=(2, 3))),
    "channel_softmax": lambda b, x: [b.mul(b.softmax(x, axis=1), _like(b, x))],
}
_table("none", IMAGES, "image", _IMAGE_TAILS, _x)

# Contractions and what follows them.
_EPILOGUES: Final[dict[str, Tail]] = {
    "relu": lambda b, y: [b.relu(b.add(y, _bias(y)))],
    "silu": lambda b, y: [_silu(b, b.add(y, _bias(y)))],
    "gelu": lambda b, y: [b.gelu(b.add(y, _bias(y)))],
    "tanh_gelu": lambda b, y: [b.gelu(b.add(y, _bias(y)), approximate="tanh")],
    "hard_swish": lambda b, y: [b.hard_swish(b.add(y, _bias(y)))],
    "clip": lambda b, y: [b.clip(y, 0.0, 6.0)],
    "hard_swish_parts": lambda b, y: [b.mul(y, b.mul(b.clip(b.add(y, 3.0), 0.0, 6.0), 1 / 6))],
    "hard_gate": lambda b, y: [b.mul(b.clip(b.add(b.mul(y, 0.2), 0.5), 0.0, 1.0), _like(b, y))],
    "residual_relu": lambda b, y: [b.relu(b.add(y, _like(b, y)))],
    "leaky": lambda b, y: [b.leaky_relu(y, alpha=0.1)],
    "residual": lambda b, y: [b.add(b.add(y, _bias(y)), _like(b, y))],
    "residual_silu": lambda b, y: [_silu(b, b.add(y, _like(b, y)))],
    "gate": lambda b, y: [b.mul(y, b.sigmoid(_like(b, y)))],
    "times_two": lambda b, y: [b.mul(b.mul(y, _like(b, y)), _like(b, y, "s"))],
    "read_twice": lambda b, y: [y, b.sigmoid(y)],
    "costly": lambda b, y: [b.mul(b.tanh(b.softplus(y)), b.cos(y))],
}


def _bias(y: Value) -> Array:
    sizes = y.type.sizes
    return weights(sizes[1]).reshape(-1, 1, 1) if len(sizes) == 4 else weights(sizes[-1])


def _gemm(b: gw.GraphBuilder, size: Size) -> Value:
    m, k, n = size
    return b.matmul(b.input("x", "f32", (m, k)), weights(k, n))


def _conv(kernel: int, stride: int = 1, depthwise: bool = False) -> Head:
    def head(b: gw.GraphBuilder, size: Size) -> Value:
        cin, cout, side = size
        group = cin if depthwise else 1
        taps = weights(cout, cin // group, kernel, kernel)
        x = b.input("x", "f32", (1, cin, side, side))
        pads = (kernel // 2,) * 4
        return b.conv(x, taps, strides=(stride, stride), pads=pads, group=group)

    return head


_SOME: Final = (
    *("clip", "silu", "hard_swish", "hard_swish_parts", "residual_relu", "residual_silu"),
    *("gate", "read_twice", "costly"),
)
_table(
    "gemm",
    (
        *((1, 768, 768), (16, 256, 256), (64, 64, 2048), (128, 384, 1536), (512, 768, 768)),
        *((1, 96, 24), (8, 64, 64), (197, 192, 576), (4096, 64, 1024)),
    ),
    "gemm",
    _EPILOGUES,
    _gemm,
)
_table(
    "conv1x1",
    (
        *((16, 96, 56), (64, 64, 56), (128, 128, 28), (320, 320, 7), (24, 72, 112)),
        *((96, 24, 1), (48, 192, 1), (32, 32, 14), (16, 16, 320), (32, 64, 160)),
    ),
    "conv1x1",
    _EPILOGUES,
    _conv(1),
)
_table(
    "direct", ((3, 32, 112), (32, 64, 56), (64, 128, 28), (3, 16, 640)), "direct",
    {name: _EPILOGUES[name] for name in _SOME}, _conv(3, stride=2),
)  # fmt: skip
_table(
    "winograd", ((32, 32, 80), (64, 64, 56), (128, 128, 28), (256, 256, 14), (16, 16, 240)), "winograd",
    {name: _EPILOGUES[name] for name in _SOME}, _conv(3),
)  # fmt: skip
_table(
    "depthwise", ((32, 32, 112), (96, 96, 56), (240, 240, 28), (480, 480, 14), (16, 16, 320)), "depthwise",
    {name: _EPILOGUES[name] for name in _SOME}, _conv(3, depthwise=True),
)  # fmt: skip


@_pattern("depthwise", ((72, 72, 56), (240, 240, 28)))
def _depthwise5_silu(b: gw.GraphBuilder, size: Size) -> Sequence[Value]:
    return [_silu(b, _conv(5, depthwise=True)(b, size))]


@_pattern("gemm", ((12, 128, 64), (8, 197, 32)))
def _scores(b: gw.GraphBuilder, size: Size) -> Sequence[Value]:
    heads, length, width = size
    q, k = b.input("q", "f32", (heads, length, width)), b.input("k", "f32", (heads, width, length))
    return [b.tanh(b.add(b.mul(b.matmul(q, k), 0.125), b.input("mask", "f32", (1, length, length))))]


@_pattern("gemm", ((128, 384, 384), (512, 768, 768)))
def _gemm_residual_layer_norm(b: gw.GraphBuilder, size: Size) -> Sequence[Value]:
    y = _gemm(b, size)
    return [_layer_norm(b, b.add(b.add(y, _bias(y)), _like(b, y)))]


@_pattern("gemm", ((128, 384, 1024), (64, 768, 3072)))
def _gemm_gelu_layer_norm(b: gw.GraphBuilder, size: Size) -> Sequence[Value]:
    y = _gemm(b, size)
    return [_layer_norm(b, b.gelu(b.add(y, _bias(y))))]


@_pattern("gemm", ((128, 384, 1024), (16, 768, 2048)))
def _gated_mlp(b: gw.GraphBuilder, size: Size) -> Sequence[Value]:
    m, k, n = size
    x = b.input("x", "f32", (m, k))
    return [b.mul(_silu(b, b.matmul(x, weights(k, n))), b.matmul(x, 2 * weights(k, n)))]


@_pattern("conv1x1", ((96, 24, 56), (192, 64, 28)))
def _conv1x1_residual_and_mean(b: gw.GraphBuilder, size: Size) -> Sequence[Value]:
    return _IMAGE_TAILS["residual_and_mean"](b, _conv(1)(b, size))


@_pattern("conv1x1", ((96, 24, 56), (192, 64, 28)))
def _excite_conv1x1_silu(b: gw.GraphBuilder, size: Size) -> Sequence[Value]:
    cin, cout, side = size
    x = b.input("x", "f32", (1, cin, side, side))
    scaled = b.mul(x, b.sigmoid(b.input("g", "f32", (1, cin, 1, 1))))
    return [_silu(b, b.conv(scaled, weights(cout, cin, 1, 1)))]
