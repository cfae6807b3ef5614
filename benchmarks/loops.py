"""Compares the cost of one iteration of a loop with ONNX Runtime: microseconds on one thread.

    python -m benchmarks.loops [--runs 1000]

``elementwise``: three operations on 64 or 4096 numbers. ``sums``: a Scan that adds rows of 64. ``cell``: a
recurrent cell of batch, inputs and states, ``h = tanh(x[i] W + h R)``. The other loops are not part of a
program; each iteration calls one. ``until`` may end after any iteration, and each iteration appends a row of
64 numbers to a scan output. ``cache`` appends a row of 64 numbers to a loop-carried value, and sums all rows.
Both engines take turns in one process. Figures are the least CPU time of the thread over many loops, divided
by the number of iterations.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw
from benchmarks.timing import least_microseconds
from graphwright.tools.measuring.engines import start

Array = np.ndarray[Any, Any]
Case = tuple[onnx.GraphProto, dict[str, Array]]
ROUNDS = 15


def info(name: str, *shape: int | str | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def body(
    steps: Sequence[tuple[str, str, str]],
    states: Sequence[Any],
    outputs: Sequence[str],
    *,
    conditional: bool = False,
) -> onnx.GraphProto:
    """A Loop's body: ``steps`` are an operator, inputs and an output. ``conditional``: they make ``go``."""
    nodes = [helper.make_node(op, inputs.split(), [output]) for op, inputs, output in steps]
    if not conditional:
        nodes.append(helper.make_node("Identity", ["on"], ["go"]))
    inputs = [info("i", kind=TensorProto.INT64), info("on", kind=TensorProto.BOOL), *states]
    return helper.make_graph(nodes, "body", inputs, [onnx.ValueInfoProto(name=n) for n in ("go", *outputs)])


def loop(
    inner: onnx.GraphProto,
    outputs: Sequence[str],
    inputs: Sequence[Any],
    weights: dict[str, Array],
    condition: str = "",
) -> onnx.GraphProto:
    node = helper.make_node("Loop", ["T", condition, "h0"], outputs, body=inner)
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    return helper.make_graph([node], "loop", [info("T", kind=TensorProto.INT64), *inputs], results, constants)


def elementwise(size: int, runs: int) -> Case:
    steps = [("Add", "h x", "a"), ("Mul", "a w", "b"), ("Relu", "b", "g")]
    inner = body(steps, [info("h", size)], ["g"])
    graph = loop(inner, ["y"], [info("h0", size), info("x", size)], {"w": np.full(size, 0.5, np.float32)})
    return graph, {"T": np.array(runs), "h0": normal(size), "x": normal(size)}


def cell(batch: int, inputs: int, states: int, runs: int) -> Case:
    steps = [
        ("Gather", "x i", "row"),
        ("MatMul", "row W", "xw"),
        ("MatMul", "h R", "hr"),
        ("Add", "xw hr", "sum"),
        ("Tanh", "sum", "g"),
    ]
    inner = body(steps, [info("h", batch, states)], ["g"])
    weights = {"W": normal(inputs, states) / inputs, "R": normal(states, states) / states}
    graph = loop(inner, ["y"], [info("h0", batch, states), info("x", runs, batch, inputs)], weights)
    return graph, {"T": np.array(runs), "h0": normal(batch, states), "x": normal(runs, batch, inputs)}


def sums(size: int, runs: int) -> Case:
    nodes = [helper.make_node("Add", ["s", "a"], ["t"]), helper.make_node("Identity", ["t"], ["u"])]
    results = [onnx.ValueInfoProto(name=name) for name in ("t", "u")]
    inner = helper.make_graph(nodes, "body", [info("s", size), info("a", size)], results)
    scan = helper.make_node("Scan", ["s0", "x"], ["y", "ys"], body=inner, num_scan_inputs=1)
    outputs = [onnx.ValueInfoProto(name=name) for name in ("y", "ys")]
    graph = helper.make_graph([scan], "sums", [info("s0", size), info("x", runs, size)], outputs)
    return graph, {"s0": normal(size), "x": normal(runs, size)}


def until(size: int, runs: int) -> Case:
    """A loop of ``runs`` iterations, whose condition compares the largest number with a bound."""
    steps = [("Add", "h x", "a"), ("Mul", "a w", "b"), ("Relu", "b", "g"), ("Identity", "g", "row")]
    steps += [("ReduceMax", "g", "top"), ("Reshape", "top one", "most"), ("Less", "most bound", "go")]
    inner = body(steps, [info("h", size)], ["g", "row"], conditional=True)
    weights = {"w": np.full(size, 0.5, np.float32), "bound": np.array([9], np.float32)}
    weights |= {"one": np.array([1]), "yes": np.asarray(np.True_)}
    graph = loop(inner, ["y", "ys"], [info("h0", size), info("x", size)], weights, "yes")
    return graph, {"T": np.array(runs), "h0": normal(size), "x": normal(size)}


def cache(size: int, runs: int) -> Case:
    steps = [("Concat", "h x", "g"), ("ReduceSum", "g", "row")]
    inner = body(steps, [info("h", None, size)], ["g", "row"])
    inner.node[0].attribute.append(helper.make_attribute("axis", 0))
    graph = loop(inner, ["y", "ys"], [info("h0", "N", size), info("x", 1, size)], {})
    return graph, {"T": np.array(runs), "h0": normal(1, size), "x": normal(1, size)}


def normal(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def measure(case: Case, runs: int) -> list[float]:
    """Returns the microseconds of one iteration in graphwright and in ONNX Runtime."""
    graph, feeds = case
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "loop.onnx"
        path.write_bytes(proto.SerializeToString())
        ours = gw.compile(proto, options=gw.CompileOptions(threads=1))
        engines = [ours.run, start("onnxruntime", path, 1)]
        best = least_microseconds([partial(run, feeds) for run in engines], ROUNDS)
    return [microseconds / runs for microseconds in best]


def main() -> None:
    """Print a row for each loop."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    cases = {
        "elementwise 64": elementwise(64, runs),
        "elementwise 4096": elementwise(4096, runs),
        "sums 64": sums(64, runs),
        "cell 1x5 -> 32": cell(1, 5, 32, runs),
        "cell 4x64 -> 256": cell(4, 64, 256, runs),
        "until 64": until(64, runs),
        "cache 64": cache(64, runs),
    }
    print(f"{'loop':20}{'graphwright':>14}{'onnxruntime':>14}{'times':>8}")
    for name, case in cases.items():
        ours, theirs = measure(case, runs)
        print(f"{name:20}{ours:14.3f}{theirs:14.3f}{theirs / ours:8.1f}")


if __name__ == "__main__":
    main()
