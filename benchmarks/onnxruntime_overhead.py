"""Measures the overhead of an operator of ``graph-autofusion --library`` over a run of graphwright.

    python -m benchmarks.onnxruntime_overhead [--sizes 16 1024 65536] [--rounds 400] [--json FILE]

A model is a chain of nodes that call the same small program, ``y = (x + 1) * softmax(x)`` on one row. The
time of a node is the difference between a long chain and a chain of one node, divided by the difference of
their lengths, which excludes the overhead of a run of ONNX Runtime. For comparison: the same chain of ONNX
Runtime's own nodes, and a run of the program by graphwright, called from Python. All run alternately on one
thread, in CPU time. Columns are microseconds: medians over the rounds, and quartiles of the difference
between a node and a run of graphwright.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

import graphwright as gw
from graphwright.autofusion.autofuse import Request, autofuse
from graphwright.config import Options
from graphwright.export.onnx import FUNCTION_DOMAIN

Array = np.ndarray[Any, Any]
NODES = 257
"""The nodes of the long chain."""
CALLS = 10
"""Calls of graphwright per round: a single call takes about as long as reading the clock."""
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid(FUNCTION_DOMAIN, 1)]


def own_nodes(x: str, y: str) -> list[onnx.NodeProto]:
    """The program as nodes of ONNX."""
    one = helper.make_tensor(f"{y}_1", onnx.TensorProto.FLOAT, [], [1.0])
    return [
        helper.make_node("Constant", [], [f"{y}_one"], value=one),
        helper.make_node("Add", [x, f"{y}_one"], [f"{y}_sum"]),
        helper.make_node("Softmax", [x], [f"{y}_softmax"], axis=-1),
        helper.make_node("Mul", [f"{y}_sum", f"{y}_softmax"], [y]),
    ]


def chain(size: int, length: int, nodes: Callable[[str, str], list[onnx.NodeProto]]) -> onnx.ModelProto:
    """A model that applies ``nodes`` ``length`` times."""
    names = ["x", *(f"t{k}" for k in range(length - 1)), "y"]
    made = [node for x, y in pairwise(names) for node in nodes(x, y)]
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, size]) for name in "xy"]
    graph = helper.make_graph(made, "chain", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=8)


def session(model: onnx.ModelProto, library: Path | None = None) -> ort.InferenceSession:
    """A session on one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    if library is not None:
        options.register_custom_ops_library(str(library))
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def times(runs: Sequence[Callable[[], object]], rounds: int) -> Array:
    """Returns the microseconds of each of ``runs`` in each round; they take turns."""
    taken = np.empty((rounds, len(runs)))
    for row in taken:
        for k, run in enumerate(runs):
            begin = time.thread_time()
            run()
            row[k] = 1e6 * (time.thread_time() - begin)
    return taken


@dataclass(frozen=True)
class Overhead:
    """The microseconds for a row of ``size`` elements: a node of the library, one of ONNX Runtime's own, a
    run of graphwright; and the quartiles of the first less the last.
    """

    size: int
    node_us: float
    plain_node_us: float
    graphwright_us: float
    more_us: tuple[float, float, float]

    def row(self) -> str:
        """A line of the table."""
        low, median, high = self.more_us
        return (
            f"{self.size:8} {self.node_us:9.2f} {self.plain_node_us:9.2f} {self.graphwright_us:9.2f}"
            f" {median:9.2f} ({low:.2f} to {high:.2f})"
        )


HEAD = f"{'elements':>8} {'node':>9} {'plain':>9} {'gw run':>9} {'node - gw':>9}"


def overhead(size: int, rounds: int, folder: Path) -> Overhead:
    """Measures rows of ``size`` elements."""
    source = chain(size, 1, own_nodes)
    fused = autofuse(source, Request(library=True))
    assert fused.operator_library is not None
    library = folder / f"row{size}.so"
    with open(library, "wb") as file:
        fused.operator_library.write(file)
    (call,) = fused.model.proto.graph.node
    compiled = gw.compile(source, options=Options(threads=1))
    x = np.random.default_rng(0).normal(size=(1, size)).astype(np.float32)

    def served(x: str, y: str) -> list[onnx.NodeProto]:
        return [helper.make_node(call.op_type, [x], [y], domain=call.domain)]

    def ten() -> None:
        for _ in range(CALLS):
            compiled(x)

    sessions = [session(chain(size, length, served), library) for length in (1, NODES)]
    sessions += [session(chain(size, length, own_nodes)) for length in (1, NODES)]
    taken = times([*(lambda s=s: s.run(None, {"x": x}) for s in sessions), ten], rounds)
    one, many, plain_one, plain_many, ours = taken[rounds // 10 :].T
    node, plain, ours = (many - one) / (NODES - 1), (plain_many - plain_one) / (NODES - 1), ours / CALLS
    low, median, high = np.percentile(node - ours, (25, 50, 75))
    node_us, plain_us, ours_us = (float(np.median(each)) for each in (node, plain, ours))
    return Overhead(size, node_us, plain_us, ours_us, (low, median, high))


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 1024, 65536])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    print(HEAD)
    found: list[Overhead] = []
    with tempfile.TemporaryDirectory() as folder:
        for size in given.sizes:
            found.append(overhead(size, given.rounds, Path(folder)))
            print(found[-1].row(), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
