"""Measures the cost of dynamic dimensions: one program for all sizes, compared with programs for single
sizes.

    python -m benchmarks.dynamic_sizes                     # writes results/shapes/dynamic_sizes.json
    python -m benchmarks.dynamic_sizes encoder ppocr_rec   # these alone

Both run in one process on one thread, alternately (open, static, static, open), in CPU time, which excludes
other work on the machine. A figure is the median of the rounds' ratios of the least times, with its
quartiles. The benchmark checks that the program for all sizes contains no constant sizes. ``encoder`` is a
text encoder in the sizes of BERT base, of which two layers are measured.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper, parser

import graphwright as gw
from benchmarks import RESULTS
from benchmarks.models import MODELS
from benchmarks.records import write_rows
from graphwright.tools.measuring.bench import paired_ratio
from graphwright.tools.measuring.engines import OURS

FILE: Final = RESULTS / "shapes" / "dynamic_sizes.json"
HIDDEN, HEADS, FEATURES, LAYERS = 768, 12, 3072, 2
LENGTHS: Final = (1, 16, 128, 384, 512)
IMAGES: Final = ((320, 320), (480, 640), (640, 640), (960, 960))
WIDTHS: Final = (160, 320, 640)
SECONDS: Final = 0.2
"""Of a turn, about."""
Shapes = dict[str, tuple[int, ...]]
Source = onnx.ModelProto | Path


def encoder() -> onnx.ModelProto:
    """Layers of attention and an MLP on S tokens, as exporters write them."""
    weights: dict[str, tuple[int, ...]] = {}
    nodes = []
    for k in range(LAYERS):
        widths = {"q": (HIDDEN, HIDDEN), "k": (HIDDEN, HIDDEN), "v": (HIDDEN, HIDDEN), "o": (HIDDEN, HIDDEN),
                  "i": (HIDDEN, FEATURES), "d": (FEATURES, HIDDEN)}  # fmt: skip
        for name, (rows, columns) in widths.items():
            weights |= {f"w{name}{k}": (rows, columns), f"b{name}{k}": (columns,)}
        weights |= {f"{name}{k}": (HIDDEN,) for name in ("s1_", "t1_", "s2_", "t2_")}
        nodes.append(_layer(k))
    model: onnx.ModelProto = parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 20]>
        encoder (float[1,S,{HIDDEN}] x0, float[1,1,1,S] mask) => (float[1,S,{HIDDEN}] x{LAYERS})
        <int64[4] heads = {{0, 0, {HEADS}, {HIDDEN // HEADS}}}, int64[3] joined = {{0, 0, {HIDDEN}}},
         float root = {{{math.sqrt(HIDDEN // HEADS)}}}> {{ {" ".join(nodes)} }}"""
    )
    rng = np.random.default_rng(0)
    for name, shape in weights.items():
        array = rng.standard_normal(shape, np.float32) / np.float32(math.sqrt(shape[0]))
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def _layer(k: int) -> str:
    split = " ".join(
        f"{n}f{k} = MatMul(x{k}, w{n}{k}) {n}a{k} = Add({n}f{k}, b{n}{k}) "
        f"{n}r{k} = Reshape({n}a{k}, heads) {n}{k} = Transpose<perm = [{perm}]>({n}r{k})"
        for n, perm in (("q", "0, 2, 1, 3"), ("k", "0, 2, 3, 1"), ("v", "0, 2, 1, 3"))
    )
    return f"""{split}
        p{k} = MatMul(q{k}, k{k}) ps{k} = Div(p{k}, root) pm{k} = Add(ps{k}, mask)
        a{k} = Softmax<axis = -1>(pm{k}) c{k} = MatMul(a{k}, v{k})
        ct{k} = Transpose<perm = [0, 2, 1, 3]>(c{k}) cj{k} = Reshape(ct{k}, joined)
        of{k} = MatMul(cj{k}, wo{k}) oa{k} = Add(of{k}, bo{k}) r{k} = Add(oa{k}, x{k})
        n{k} = LayerNormalization<axis = -1>(r{k}, s1_{k}, t1_{k})
        if{k} = MatMul(n{k}, wi{k}) ia{k} = Add(if{k}, bi{k}) g{k} = Gelu(ia{k})
        df{k} = MatMul(g{k}, wd{k}) da{k} = Add(df{k}, bd{k}) e{k} = Add(da{k}, n{k})
        x{k + 1} = LayerNormalization<axis = -1>(e{k}, s2_{k}, t2_{k})"""


def cases() -> Iterator[tuple[str, Callable[[], Source], list[Shapes]]]:
    """Names, models, and the shapes for which each is measured."""
    lengths: list[Shapes] = [{"x0": (1, s, HIDDEN), "mask": (1, 1, 1, s)} for s in LENGTHS]
    yield "encoder", encoder, lengths
    yield "ppocr_det", MODELS["ppocr_det"].path, [{"x": (1, 3, *each)} for each in IMAGES]
    yield "ppocr_rec", MODELS["ppocr_rec"].path, [{"x": (1, 3, 48, each)} for each in WIDTHS]
    yield "ppocr_cls", MODELS["ppocr_cls"].path, [{"x": (1, 3, 48, 192)}, {"x": (3, 3, 48, 192)}]


def rows(name: str, source: Source, shapes: list[Shapes], rounds: int) -> Iterator[dict[str, Any]]:
    """A row for each of ``shapes``."""
    options = gw.CompileOptions(threads=1)
    generic = gw.compile(source, options=options)
    for each in shapes:
        static = gw.compile(source, shapes=each, options=options)
        rng = np.random.default_rng(0)
        feeds = {key: rng.standard_normal(shape).astype(np.float32) for key, shape in each.items()}
        ratio, milliseconds = compared(generic, static, feeds, rounds)
        yield {
            "model": name,
            "shapes": {k: list(v) for k, v in each.items()},
            "static_ms": milliseconds,
            **ratio,
        }
    assert generic.stats().get("hot_builds", 0) == 0


def compared(
    generic: gw.Model, static: gw.Model, feeds: Mapping[str, Any], rounds: int
) -> tuple[dict[str, float], float]:
    """The time of ``generic`` over that of ``static``, and milliseconds of the latter."""
    runs = max(3, int(SECONDS / max(least(static, feeds, 3), 1e-6)))
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        found: tuple[list[float], list[float]] = ([], [])
        for turn in (0, 1, 1, 0):
            found[turn].append(least((generic, static)[turn], feeds, runs))
        for side, all_of_it in zip(found, taken, strict=True):
            all_of_it.append(min(side))
    return vars(paired_ratio(*taken)), float(np.median(taken[1])) * 1e3


def least(model: gw.Model, feeds: Mapping[str, Any], runs: int) -> float:
    """Returns the processor seconds of the fastest of ``runs``."""
    times = []
    for _ in range(runs):
        start = time.thread_time_ns()
        model.run(feeds)
        times.append(time.thread_time_ns() - start)
    return min(times) / 1e9


def main() -> None:
    """Measure, print, and write the results of all."""
    parser_ = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser_.add_argument("models", nargs="*")
    parser_.add_argument("--rounds", type=int, default=12)
    given = parser_.parse_args()
    found = []
    print("| model | sizes | static, ms | dynamic / static |\n| --- | --- | ---: | ---: |")
    for name, source, shapes in cases():
        if given.models and name not in given.models:
            continue
        for row in rows(name, source(), shapes, given.rounds):
            found.append(row)
            sizes = "x".join(map(str, next(iter(row["shapes"].values()))))
            ratio = f"{row['median']:.3f} ({row['low']:.3f}-{row['high']:.3f})"
            print(f"| {name} | {sizes} | {row['static_ms']:.2f} | {ratio} |", flush=True)
    if not given.models:
        write_rows(FILE, [OURS, "numpy"], found)


if __name__ == "__main__":
    main()
