"""The graphs of ``python -m benchmarks.fusion.fused_patterns``, as ONNX text with seeded weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import onnx
from onnx import numpy_helper, parser

from benchmarks.fusion.chains import Layer

HINT: Final = "graphwright.fuse"


@dataclass(frozen=True)
class Pattern:
    """A graph as ONNX text, the shapes of its weights, and goals: ratios to separate ops and to the peer.

    ``whole``: the graph that a bound is compared with, instead of separate ops; its outputs have other names.
    ``rule``: a fusion rule; the pattern is also compared with a compilation without it.
    """

    text: str
    weights: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    apart: float | None = None
    peer: float | None = None
    whole: str = ""
    rule: str = ""

    def model(self) -> onnx.ModelProto:
        """The graph with seeded weights, scaled so that products keep the size of numbers."""
        return self._model(self.text)

    def other(self) -> onnx.ModelProto:
        """The graph that it is compared with."""
        return self._model(self.whole) if self.whole else apart(self.model())

    def _model(self, text: str) -> onnx.ModelProto:
        model: onnx.ModelProto = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 23]> g {text}')
        rng = np.random.default_rng(0)
        for number, node in enumerate(model.graph.node):
            node.name = f"{node.op_type.lower()}_{number}"
        for name, shape in self.weights.items():
            fan_in = math.prod(shape[1:]) if len(shape) > 2 else shape[0] if len(shape) == 2 else 1
            array = (rng.standard_normal(shape) / fan_in**0.5).astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(array, name))
        return model


def apart(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with hints that give each node a kernel of its own."""
    made = onnx.ModelProto.FromString(model.SerializeToString())
    for node in made.graph.node:
        node.metadata_props.add(key=HINT, value=node.name)
    return made


def _rows(rows: int, columns: int, body: str) -> str:
    return (
        f"(float[{rows},{columns}] x, float[{rows},{columns}] r) => (float[{rows},{columns}] y) {{ {body} }}"
    )


def _upsampled(mode: str, below: int, joined_with: int, features: int, side: int) -> Pattern:
    """An image of ``below`` channels and half the side joins one of ``joined_with`` channels."""
    half, joined = side // 2, below + joined_with
    inputs = f"float[1,8,{half},{half}] a, float[1,8,{side},{side}] b"
    result = f"float[1,{features},{side},{side}]"
    text = f"""({inputs}) => ({result} y) <float[4] scales = {{1, 1, 2, 2}}> {{
        p = Conv(a, wa) q = Conv(b, wb)
        u = Resize<mode="{mode}">(p, , scales) j = Concat<axis=1>(u, q) c = Conv(j, w, bias) y = Relu(c)
    }}"""
    weights = {
        "wa": (below, 8, 1, 1),
        "wb": (joined_with, 8, 1, 1),
        "w": (features, joined, 1, 1),
        "bias": (features,),
    }
    return Pattern(text, weights)


def _excited(channels: int, features: int, side: int, window: int) -> Pattern:
    """A depthwise convolution, squeeze and excitation, and the projection behind."""
    pads = ",".join([str(window // 2)] * 4)
    text = f"""(float[1,{channels},{side},{side}] x) => (float[1,{features},{side},{side}] y) {{
        d = Conv<group={channels}, pads=[{pads}]>(x, wd, bd) h = HardSwish(d)
        m = GlobalAveragePool(h) q = Conv(m, wq, bq) r = Relu(q) e = Conv(r, we, be) g = HardSigmoid(e)
        p = Mul(h, g) y = Conv(p, w, b)
    }}"""
    squeezed = channels // 4
    weights = {
        "wd": (channels, 1, window, window), "bd": (channels,), "w": (features, channels, 1, 1),
        "b": (features,), "wq": (squeezed, channels, 1, 1), "bq": (squeezed,),
        "we": (channels, squeezed, 1, 1), "be": (channels,),
    }  # fmt: skip
    return Pattern(text, weights)


def _siblings(count: int, rows: int, depth: int, columns: int) -> Pattern:
    """Products that read one left factor, with their weights joined; the results stay in one matrix."""
    x, weights = f"float[{rows},{depth}] x", {f"w{k}": (depth, columns) for k in range(count)}
    results = ", ".join(f"float[{rows},{columns}] y{k}" for k in range(count))
    products = " ".join(f"y{k} = MatMul(x, w{k})" for k in range(count))
    joined = f"w = Concat<axis=1>({', '.join(weights)}) j = MatMul(x, w)"
    return Pattern(
        f"({x}) => (float[{rows},{count * columns}] j) {{ {joined} }}",
        weights,
        whole=f"({x}) => ({results}) {{ {products} }}",
    )


def _gated(rows: int, depth: int, features: int) -> Pattern:
    """A gated MLP without its last product: SwiGLU."""
    text = f"""(float[{rows},{depth}] x) => (float[{rows},{features}] y) {{
        g = MatMul(x, wg) u = MatMul(x, wu) s = Sigmoid(g) a = Mul(g, s) y = Mul(a, u)
    }}"""
    return Pattern(text, {"wg": (depth, features), "wu": (depth, features)}, peer=1.0, rule="siblings")


def _image(cin: int, side: int, cout: int, result: int, body: str, extra: str = "") -> str:
    """A graph from one image to another."""
    return f"(float[1,{cin},{side},{side}] x{extra}) => (float[1,{cout},{result},{result}] y) {{ {body} }}"


def _conv_silu(
    cin: int, side: int, window: int, depthwise: bool = False
) -> tuple[str, dict[str, tuple[int, ...]]]:
    """A convolution that keeps the size of its image, and SiLU."""
    pads, group = ",".join([str(window // 2)] * 4), cin if depthwise else 1
    body = f"c = Conv<pads=[{pads}], group={group}>(x, w, b) s = Sigmoid(c) y = Mul(c, s)"
    return _image(cin, side, cin, side, body), {"w": (cin, cin // group, window, window), "b": (cin,)}


def _chain(
    layers: Sequence[Layer], cin: int, side: int, apart: float | None = None, skip: bool = False
) -> Pattern:
    """Convolutions one after the other; with ``skip`` the input is added to the last one's result."""
    value, channels, size, body = "x", cin, side, ""
    weights: dict[str, tuple[int, ...]] = {}
    for k, layer in enumerate(layers):
        group, cout = (channels, channels) if layer.cout == 0 else (1, layer.cout)
        stride = layer.stride
        window = f"pads=[{','.join([str(layer.k // 2)] * 4)}], strides=[{stride},{stride}]"
        weights |= {f"w{k}": (cout, channels // group, layer.k, layer.k), f"b{k}": (cout,)}
        last = k == len(layers) - 1
        result = "y" if last and not layer.act and not skip else f"c{k}"
        body += f" {result} = Conv<group={group}, {window}>({value}, w{k}, b{k})"
        if layer.act:
            result, made = ("y" if last else f"a{k}"), result
            body += f" {result} = {layer.act}({made})"
        value, channels, size = result, cout, -(-size // stride)
    if skip:
        body += f" y = Add({value}, x)"
    return Pattern(_image(cin, side, channels, size, body), weights, apart=apart)


def _attention(heads: int, kv_heads: int, rows: int, features: int, causal: bool) -> Pattern:
    """Attention as ONNX's op of that name."""
    kv = f"[1,{kv_heads},{rows},{features}]"
    text = f"""(float[1,{heads},{rows},{features}] q, float{kv} k, float{kv} v)
        => (float[1,{heads},{rows},{features}] y) {{ y = Attention<is_causal={int(causal)}>(q, k, v) }}"""
    return Pattern(text, peer=0.95)


def _sibling_convolutions(channels: int, features: Sequence[int], side: int) -> Pattern:
    """1x1 convolutions of one image, with their weights joined; the results stay in one image."""
    x, size = f"float[1,{channels},{side},{side}] i", f"{side},{side}"
    weights = {f"w{k}": (count, channels, 1, 1) for k, count in enumerate(features)}
    results = ", ".join(f"float[1,{count},{size}] y{k}" for k, count in enumerate(features))
    convolutions = " ".join(f"y{k} = Conv(x, w{k})" for k in range(len(features)))
    joined = f"w = Concat<axis=0>({', '.join(weights)}) j = Conv(x, w)"
    return Pattern(
        f"({x}) => (float[1,{sum(features)},{size}] j) {{ x = Relu(i) {joined} }}",
        weights,
        whole=f"({x}) => ({results}) {{ x = Relu(i) {convolutions} }}",
    )


PATTERNS: Final[dict[str, Pattern]] = {
    "layer_norm_gelu 1024x768": Pattern(
        _rows(1024, 768, "n = LayerNormalization(x, s, b) y = Gelu(n)").replace(", float[1024,768] r", ""),
        {"s": (768,), "b": (768,)},
        apart=0.85,
    ),
    "residual_rms_norm 1024x1024": Pattern(
        _rows(1024, 1024, "t = Add(x, r) y = RMSNormalization(t, s)"), {"s": (1024,)}, apart=0.70
    ),
    "scale_mask_softmax 28x512x512": Pattern(
        """(float[28,512,512] x, float[1,512,512] mask) => (float[28,512,512] y) <float scale = {0.125}> {
            s = Mul(x, scale) m = Add(s, mask) y = Softmax(m)
        }""",
        apart=0.65,
    ),
    "swiglu 128x896x4864": _gated(128, 896, 4864),
    "swiglu 1x896x4864": _gated(1, 896, 4864),
    "swiglu 16x896x4864": _gated(16, 896, 4864),
    "swiglu 512x896x4864": _gated(512, 896, 4864),
    "swiglu 64x64x128": _gated(64, 64, 128),
    "gemm_gelu 128x384x1536": Pattern(
        """(float[128,384] x) => (float[128,1536] y) { p = MatMul(x, w) c = Add(p, b) y = Gelu(c) }""",
        {"w": (384, 1536), "b": (1536,)},
        apart=0.98,
    ),
    "conv1x1_silu 64 at 56x56": Pattern(*_conv_silu(64, 56, 1), apart=0.95),
    "conv1x1_gate 64 at 56x56": Pattern(
        _image(64, 56, 64, 56, "c = Conv(x, w, b) s = Sigmoid(r) y = Mul(c, s)", ", float[1,64,56,56] r"),
        {"w": (64, 64, 1, 1), "b": (64,)},
        apart=0.95,
    ),
    "depthwise_silu 96 at 56x56": Pattern(*_conv_silu(96, 56, 3, depthwise=True), apart=0.92),
    "winograd_silu 64 at 56x56": Pattern(*_conv_silu(64, 56, 3), apart=0.98),
    "inverted_residual 16-96-24 at 112x112": _chain(
        (Layer(96), Layer(0, 3), Layer(24, act="")), 16, 112, 0.85
    ),
    "inverted_residual 24-96-24, 5x5, at 160x160": _chain(
        (Layer(96, act="HardSwish"), Layer(0, 5, act="HardSwish"), Layer(24, act="")),
        24,
        160,
        0.85,
        skip=True,
    ),
    "depthwise_conv1x1 32-64 at 112x112": _chain((Layer(0, 3), Layer(64)), 32, 112, 0.65),
    "depthwise_conv1x1 48-96 at 160x160": _chain((Layer(0, 3), Layer(96)), 48, 160, 0.80),
    "stem 3-16-32 at 320x320": _chain((Layer(16, 3, 2), Layer(0, 3), Layer(32)), 3, 320, 0.75),
    "conv_conv 24-24-24 at 320x320": _chain((Layer(24, 3, 2), Layer(24, 3, 2)), 24, 320, 0.88),
    "attention 12x128x64": _attention(12, 12, 128, 64, causal=False),
    "attention, causal, 28/4x512x128": _attention(28, 4, 512, 128, causal=True),
    "layer_norm_linear 128x768x768": Pattern(
        """(float[128,768] x) => (float[128,768] y) {
            n = LayerNormalization(x, s, b) p = MatMul(n, w) y = Add(p, c)
        }""",
        {"s": (768,), "b": (768,), "w": (768, 768), "c": (768,)},
        peer=1.0,
    ),
    "bound: 3 products 32x64x64 joined": _siblings(3, 32, 64, 64),
    "bound: 3 products 128x384x384 joined": _siblings(3, 128, 384, 384),
    "bound: 3 products 128x768x768 joined": _siblings(3, 128, 768, 768),
    "bound: 3 products 1x768x768 joined": _siblings(3, 1, 768, 768),
    "bound: 2 products 128x896x4864 joined": _siblings(2, 128, 896, 4864),
    "bound: 1x1 convolutions 192 to 96 and 16 at 28x28 joined": _sibling_convolutions(192, (96, 16), 28),
    "bound: 1x1 convolutions 64 to 32 and 32 at 80x80 joined": _sibling_convolutions(64, (32, 32), 80),
    "bound: linear 128x768x768 without its layer_norm": Pattern(
        "(float[128,768] x) => (float[128,768] z) { p = MatMul(x, w) z = Add(p, c) }",
        {"s": (768,), "b": (768,), "w": (768, 768), "c": (768,)},
        whole="""(float[128,768] x) => (float[128,768] y) {
            n = LayerNormalization(x, s, b) p = MatMul(n, w) y = Add(p, c)
        }""",
    ),
    "squeeze_excite 32 to 16 at 112x112": _excited(32, 16, 112, 3),
    "squeeze_excite 96 to 24 at 56x56": _excited(96, 24, 56, 3),
    "squeeze_excite 240 to 40 at 28x28": _excited(240, 40, 28, 5),
    "resize_concat_conv 256+256 to 128 at 40x40": _upsampled("nearest", 256, 256, 128, 40),
    "resize_concat_conv 64+64 to 64 at 80x80": _upsampled("nearest", 64, 64, 64, 80),
    "resize_concat_conv 32+32 to 32 at 80x80": _upsampled("nearest", 32, 32, 32, 80),
    "resize_concat_conv, linear, 64+64 to 64 at 80x80": _upsampled("linear", 64, 64, 64, 80),
    "resize_concat_conv, linear, 256+768 to 256 at 64x64": _upsampled("linear", 256, 768, 256, 64),
}
