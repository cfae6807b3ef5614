"""Compares single convolutions and matrix products with peers and the limits of the machine.

Layers are those of models of the zoo, each shape once, and of one layer of a decoder with grouped queries;
``python -m benchmarks.layers resnet50 decoder`` writes a JSON file for each of the two.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw
from benchmarks import RESULTS
from benchmarks.figures import Work, numbers, shaped, sizes
from benchmarks.models import MODELS
from benchmarks.records import write_record
from benchmarks.roofline import Roofline
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.graph import Node
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.nn.conv import Conv
from graphwright.tools.measuring.bench import measure, ratio
from graphwright.tools.measuring.engines import ENGINES, ONNX_PEERS, OURS, is_installed

OPSET: Final = 17
ROUND_SECONDS: Final = 0.02
HIDDEN: Final = 3584
KEYS: Final = 4 * 128
"""Four heads of keys, as many of values, and 28 of queries."""
INNER: Final = 18944
ROWS: Final = (1, 16, 512, 2048)


@dataclass(frozen=True)
class Layer:
    """``op(x, w)``: ``w`` is a weight, or an input where the model computes it; ``count`` of them."""

    op: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    attributes: tuple[tuple[str, Any], ...] = ()
    weights: bool = True
    count: int = 1

    @property
    def name(self) -> str:
        """The op, the shapes, and the attributes that are set."""
        said = [f"{key}={value}" for key, value in self.attributes if value]
        return " ".join([self.op, *("x".join(map(str, shape)) for shape in (self.x, self.w)), *said])

    @property
    def work(self) -> Work:
        """The work in f32; each operand is read once."""
        depth = prod(self.w[1:]) if self.op == "Conv" else self.x[-1]
        return Work(2 * prod(self.y) * depth, 4 * (prod(self.x) + prod(self.w) + prod(self.y)))

    def feeds(self) -> dict[str, Any]:
        """Random inputs with a fixed seed."""
        generator = np.random.default_rng(0)
        made = {"x": generator.standard_normal(self.x, np.float32)}
        return made if self.weights else made | {"w": generator.standard_normal(self.w, np.float32)}

    def write(self, file: Path) -> None:
        """A model of this one op."""
        shapes = {"x": self.x} | ({} if self.weights else {"w": self.w})
        values = np.random.default_rng(1).standard_normal(self.w, np.float32) / np.float32(
            prod(self.w[1:]) ** 0.5
        )
        graph = helper.make_graph(
            [helper.make_node(self.op, ["x", "w"], ["y"], **dict(self.attributes))],
            "layer",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, self.y)],
            [numpy_helper.from_array(values, "w")] if self.weights else [],
        )
        opsets = [helper.make_opsetid("", OPSET)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), file)


def model_layers(name: str) -> list[Layer]:
    """The convolutions and matrix products of a model of the zoo at its default sizes."""
    counts: dict[Layer, int] = {}
    for node in shaped(MODELS[name]).walk():
        if isinstance(node.op, (Conv, Gemm, MatMul)):
            found = _layer(node)
            counts[found] = counts.get(found, 0) + 1
    return [replace(layer, count=count) for layer, count in counts.items()]


def _layer(node: Node) -> Layer:
    x, w, y = (sizes(value) for value in (node.operand(0), node.operand(1), node.output))
    producer = node.operand(1).producer
    weights = producer is not None and isinstance(producer.op, Constant)
    if isinstance(node.op, Conv):
        op = node.op
        lists = {"strides": op.strides, "pads": numbers(op.pads), "dilations": op.dilations}
        attributes = {key: value for key, value in lists.items() if value} | {"group": op.group}
        return Layer("Conv", x, w, y, tuple(attributes.items()), weights)
    depth = x[-2] if isinstance(node.op, Gemm) and node.op.trans_a else x[-1]
    if len(w) == 2 and weights:  # all leading axes are rows
        return _product(prod(y[:-1]), depth, y[-1])
    return Layer("MatMul", x, w, y, weights=weights)


def _product(rows: int, depth: int, columns: int) -> Layer:
    return Layer("MatMul", (rows, depth), (depth, columns), (rows, columns))


def decoder_layers() -> list[Layer]:
    """Products of one layer with 28 heads of queries and 4 of keys, and a gated MLP, for several rows."""
    sizes = [(HIDDEN, HIDDEN), (HIDDEN, KEYS), (HIDDEN, INNER), (INNER, HIDDEN)]
    counts = (2, 2, 2, 1)  # queries and output, keys and values, gate and up, down
    return [
        replace(_product(rows, depth, columns), count=count)
        for rows in ROWS
        for (depth, columns), count in zip(sizes, counts, strict=True)
    ]


SUITES: Final[dict[str, Callable[[], list[Layer]]]] = {
    **{
        name: partial(model_layers, name)
        for name in ("resnet50", "mobilenet_v2", "ppocr_det", "bert_base", "vit_b16")
    },
    "decoder": decoder_layers,
}


def measure_layer(layer: Layer, peers: Sequence[str], threads: int, rounds: int) -> dict[str, Any]:
    """The results for one layer: times in ns, ratios, the limit, and each engine's share of it."""
    roofline, refused = Roofline(layer.work, threads), dict[str, str]()
    with tempfile.TemporaryDirectory() as folder:
        source, packed = Path(folder) / "layer.onnx", Path(folder) / "layer.om"
        layer.write(source)
        gw.compile(source).save(packed)
        files = {OURS: packed} | dict.fromkeys(peers, source)
        results = measure(
            {engine: (file, layer.feeds()) for engine, file in files.items()},
            threads,
            rounds,
            ROUND_SECONDS,
            lambda done: roofline.sample(),
            refused=refused,
        )
    return {
        "name": layer.name,
        "count": layer.count,
        "median_ns": {name: measured.summary()["median_ns"] for name, measured in results.items()},
        "ratios": {name: vars(ratio(m, results[OURS])) for name, m in results.items() if name != OURS},
        "refused": refused,
        "roofline": roofline.record(results),
    }


def geometric_means(entries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The geometric means of the peers' ratios and of graphwright's share of the limit; all layers count
    equally.
    """
    peers = sorted({peer for entry in entries for peer in entry["ratios"]})
    means = {
        peer: statistics.geometric_mean(e["ratios"][peer]["median"] for e in entries if peer in e["ratios"])
        for peer in peers
    }
    shares = [entry["roofline"]["shares"][OURS]["median"] for entry in entries]
    return means | {"limit": statistics.geometric_mean(shares)}


def line(entry: Mapping[str, Any]) -> str:
    """The line for the terminal."""
    own, limits = entry["median_ns"][OURS], entry["roofline"]
    ratios = [f"{peer} {found['median']:5.2f} x" for peer, found in entry["ratios"].items()]
    share = f"{limits['shares'][OURS]['median']:4.0%} of the limit"
    return "  ".join(
        [f"{own / 1e6:9.3f} ms", f"{limits['flops'] / own:6.1f} GFLOP/s", share, *ratios, entry["name"]]
    )


def run_suite(name: str, peers: Sequence[str], threads: int, rounds: int) -> Iterator[dict[str, Any]]:
    """The entries of a suite, one after the other."""
    for layer in SUITES[name]():
        yield measure_layer(layer, peers, threads, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layers", description=__doc__)
    parser.add_argument("suites", nargs="*", choices=list(SUITES), metavar="SUITE", default=list(SUITES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    installed = [peer for peer in ONNX_PEERS if is_installed(peer)]
    parser.add_argument("--against", nargs="*", choices=ONNX_PEERS, default=installed)
    parser.add_argument("--results", type=Path, default=RESULTS / "layers", help="folder of the JSON files")
    chosen = parser.parse_args()
    packages = [OURS, "numpy", *(ENGINES[peer].package for peer in chosen.against)]
    for suite in chosen.suites:
        entries = []
        for entry in run_suite(suite, chosen.against, chosen.threads, chosen.rounds):
            entries.append(entry)
            print(f"{suite}: {line(entry)}", flush=True)
        means = geometric_means(entries)
        print(f"{suite}: geometric means {', '.join(f'{key} {mean:.2f}' for key, mean in means.items())}")
        made = {"threads": chosen.threads, "geometric_means": means, "layers": entries}
        write_record(chosen.results / f"{suite}.{chosen.threads}.json", packages, made)


if __name__ == "__main__":
    main()
