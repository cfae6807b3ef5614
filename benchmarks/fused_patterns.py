"""Patterns that fusion is about: fused, beside each op in a kernel of its own, and beside ONNX Runtime.

    python -m benchmarks.fused_patterns                  # writes benchmarks/results/fusion/patterns.json
    python -m benchmarks.fused_patterns swiglu resize    # patterns with one of these in their names
    python -m benchmarks.fused_patterns --threads 2

Ratios are the time of the fused model over that of the other: below 1, fusion is faster. Hints keep ops
apart, each in a group of its own; some patterns are set beside themselves without one fusion rule, too.
Patterns named "bound" are what a fusion that graphwright does not have could save at most: a graph without
what it would save, beside the one with it. Sides run in turns in this process
(:mod:`benchmarks.fusion.paired`); one thread is timed by its processor clock. In brackets is the interval
of the ratio.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper, parser

import graphwright as gw
from benchmarks.fusion.paired import Blocks, Estimate, estimate
from graphwright.tools.machine import machine, versions
from graphwright.tools.measuring.engines import OURS, start

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]
FILE: Final = Path(__file__).parent / "results" / "fusion" / "patterns.json"
HINT: Final = "graphwright.fuse"
PEER: Final = "onnxruntime"


@dataclass(frozen=True)
class Pattern:
    """A graph as ONNX text, the shapes of its weights, and goals: ratios beside ops apart and the peer.

    ``whole``: the graph that a bound is set beside, in place of its ops apart; its outputs have other names.
    ``rule``: a fusion rule without which the pattern is compiled to be set beside as well.
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
        """What it is set beside."""
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


def _upsampled(mode: str, below: int, beside: int, features: int, side: int) -> Pattern:
    """An image of ``below`` channels and half the side joins one of ``beside`` channels."""
    half, joined = side // 2, below + beside
    inputs = f"float[1,8,{half},{half}] a, float[1,8,{side},{side}] b"
    result = f"float[1,{features},{side},{side}]"
    text = f"""({inputs}) => ({result} y) <float[4] scales = {{1, 1, 2, 2}}> {{
        p = Conv(a, wa) q = Conv(b, wb)
        u = Resize<mode="{mode}">(p, , scales) j = Concat<axis=1>(u, q) c = Conv(j, w, bias) y = Relu(c)
    }}"""
    weights = {
        "wa": (below, 8, 1, 1),
        "wb": (beside, 8, 1, 1),
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


@dataclass(frozen=True)
class Row:
    """What was measured of a pattern; ``beside``: ``apart``, the peer, or the rule that the other lacks."""

    pattern: str
    beside: str
    threads: int
    estimate: Estimate
    microseconds: float
    goal: float | None

    def as_json(self) -> dict[str, Any]:
        """Ratios in place of their logarithms."""
        low, ratio, high = (round(math.exp(x), 4) for x in self.interval)
        return {
            "pattern": self.pattern, "beside": self.beside, "threads": self.threads, "ratio": ratio,
            "low": low, "high": high, "goal": self.goal, "us": round(self.microseconds, 1),
        }  # fmt: skip

    @property
    def interval(self) -> tuple[float, float, float]:
        """The logarithms of the least, the median and the largest ratio."""
        return self.estimate.low, self.estimate.median, self.estimate.high

    def __str__(self) -> str:
        low, ratio, high = map(math.exp, self.interval)
        goal = "" if self.goal is None else f"  goal {self.goal:.2f}"
        span = f"{ratio:5.2f} [{low:.2f} {high:.2f}]"
        return f"{self.pattern:52} {self.microseconds:9.1f} us  beside {self.beside:11} {span}{goal}"


def measured(name: str, threads: int, seconds: float) -> Iterator[Row]:
    """The pattern beside its ops apart, then without its rule, then beside the peer."""
    pattern = PATTERNS[name]
    model = pattern.model()
    options = gw.CompileOptions(threads=threads)
    fused = gw.compile(model, options=options).run
    feeds = _feeds(model)
    beside = "whole" if pattern.whole else "apart"
    yield _row(name, beside, gw.compile(pattern.other(), options=options).run, fused, feeds, threads, seconds)
    if pattern.whole:
        return
    if pattern.rule:
        without = gw.CompileOptions(threads=threads, fusion_rules=f"-{pattern.rule}")
        other = gw.compile(model, options=without).run
        yield _row(name, f"no {pattern.rule}", other, fused, feeds, threads, seconds)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pattern.onnx"
        onnx.save(model, file)
        yield _row(name, PEER, start(PEER, file, threads), fused, feeds, threads, seconds)


def _row(
    name: str, beside: str, other: Run, fused: Run, feeds: Mapping[str, Array], threads: int, seconds: float
) -> Row:
    ours, theirs = fused(feeds), other(feeds)
    for key in ours.keys() & theirs.keys():
        np.testing.assert_allclose(ours[key], theirs[key], rtol=1e-3, atol=1e-4)

    def runs(run: Run) -> Callable[[int], None]:
        def repeat(count: int) -> None:
            for _ in range(count):
                run(feeds)

        return repeat

    blocks = Blocks({"before": runs(other), "after": runs(fused)}, threads)
    made = estimate(blocks, seconds)
    goal = {"apart": PATTERNS[name].apart, PEER: PATTERNS[name].peer}.get(beside)
    return Row(name, beside, threads, made, blocks.least_ns["after"] / 1e3, goal)


def _feeds(model: onnx.ModelProto) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def write(rows: Sequence[Row], file: Path) -> None:
    """``rows`` in place of those of the same pattern, side and threads that ``file`` holds."""
    kept = json.loads(file.read_text())["rows"] if file.exists() else []
    by_case = {(row["pattern"], row["beside"], row["threads"]): row for row in kept}
    by_case |= {(row.pattern, row.beside, row.threads): row.as_json() for row in rows}
    about = {
        "machine": machine(),
        "versions": versions([OURS, PEER, "numpy"]),
        "day": time.strftime("%Y-%m-%d"),
    }
    lines = ",\n".join(json.dumps(by_case[case]) for case in sorted(by_case))
    file.write_text(f'{{{json.dumps(about)[1:-1]}, "rows": [\n{lines}\n]}}\n')


def main() -> None:
    """The command."""
    command = argparse.ArgumentParser(
        prog="python -m benchmarks.fused_patterns",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    command.add_argument("names", nargs="*", metavar="NAME", help="part of a pattern's name")
    command.add_argument("--threads", type=int, default=1)
    command.add_argument("--seconds", type=float, default=5.0, help="most time for one comparison")
    command.add_argument("--results", type=Path, default=FILE)
    given = command.parse_args()
    rows: list[Row] = []
    for name in PATTERNS:
        if any(part in name for part in given.names or [""]):
            for row in measured(name, given.threads, given.seconds):
                rows.append(row)
                print(row, flush=True)
    write(rows, given.results)


if __name__ == "__main__":
    main()
