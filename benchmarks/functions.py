"""Measures the cost of inlining the calls of a function, by the number of calls.

    python -m benchmarks.functions [--calls 1 8 24] [--width 256]

The function is a layer of 24 nodes: LayerNorm of its parts, and two dense layers with a GELU and a residual,
all weights given by the caller. Columns: CPU seconds to compile (with a warm kernel cache), bytes of the file
without weights, and generated kernels. The last table compares a layer with constant weights, which is the
result of inlining, with a layer whose weights are operands, as in a shared body: microseconds of CPU time,
the minimum of many short alternating runs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw
from benchmarks.timing import least_microseconds
from graphwright.config import Options
from graphwright.executable.nodes import programs_of

Array = np.ndarray[Any, Any]
ROWS = 64
ROUNDS = 200
_LOCAL = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
_LAYER = """
    m = ReduceMean(x, last)
    d = Sub(x, m)
    s = Mul(d, d)
    v = ReduceMean(s, last)
    e = Add(v, small)
    r = Sqrt(e)
    n = Div(d, r)
    w = Mul(n, g)
    h = Add(w, b)
    u = MatMul(h, w1)
    t = Add(u, c1)
    q = Div(t, root)
    f = Erf(q)
    p = Add(f, one)
    o = Mul(t, p)
    k = Mul(o, half)
    j = MatMul(k, w2)
    z = Add(j, c2)
    y = Add(x, z)
"""
_NUMBERS = {
    "last": np.array([-1]),
    "small": np.array(1e-5, np.float32),
    "root": np.array(2**0.5, np.float32),
    "one": np.array(1, np.float32),
    "half": np.array(0.5, np.float32),
}


def layer() -> onnx.FunctionProto:
    """The layer as an ONNX function of ``x`` and the weights."""
    nodes = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))
        for name, value in _NUMBERS.items()
    ]
    for line in _LAYER.split("\n"):
        result, _, call = line.strip().partition(" = ")
        if call:
            op, _, operands = call.partition("(")
            nodes.append(helper.make_node(op, operands.rstrip(")").split(", "), [result]))
    return helper.make_function("local", "Layer", ["x", *_shapes(1)], ["y"], nodes, _LOCAL[:1])


def _shapes(width: int) -> dict[str, tuple[int, ...]]:
    return {
        "g": (width,),
        "b": (width,),
        "w1": (width, 4 * width),
        "c1": (4 * width,),
        "w2": (4 * width, width),
        "c2": (width,),
    }


def chain(calls: int, width: int) -> onnx.ModelProto:
    """``calls`` layers of ``x: f32[ROWS, width]``, each with weights of its own."""
    random = np.random.default_rng(0)
    nodes, weights, x = [], [], "x"
    for call in range(calls):
        names = [f"{name}{call}" for name in _shapes(width)]
        for name, shape in zip(names, _shapes(width).values(), strict=True):
            scale = 1 / np.sqrt(shape[0])
            weights.append(
                numpy_helper.from_array((scale * random.standard_normal(shape)).astype(np.float32), name)
            )
        nodes.append(helper.make_node("Layer", [x, *names], [f"x{call}"], domain="local"))
        x = f"x{call}"
    info = helper.make_tensor_value_info
    ports = [info(name, TensorProto.FLOAT, [ROWS, width]) for name in ("x", x)]
    graph = helper.make_graph(nodes, "layers", ports[:1], ports[1:], weights)
    return helper.make_model(graph, functions=[layer()], opset_imports=_LOCAL, ir_version=9)


def operands(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[Array]]:
    """``model`` with its weights as inputs, and the weights."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    weights = list(made.graph.initializer)
    for tensor in weights:
        made.graph.input.append(helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.dims))
    del made.graph.initializer[:]
    return made, list(map(numpy_helper.to_array, weights))


def show_calls(counts: Sequence[int], width: int) -> None:
    """Prints a row for each number of calls."""
    print(f"{'calls':>5} {'compile s':>10} {'file KiB without weights':>25} {'generated kernels':>18}")
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            source = chain(count, width)
            gw.compile(source)
            start = time.process_time()
            model = gw.compile(source)
            seconds = time.process_time() - start
            path = Path(folder) / "model.om"
            model.save(path)
            weights = sum(tensor.size for tensor in model.package.weights.tensors.values())
            assert model.entry.executable is not None
            (program,) = programs_of(model.entry.executable)
            (target,) = program.targets.values()
            made = sum(bool(kernel.module) for kernel in target.task_graph.kernels)
            rest = (path.stat().st_size - weights) / 1024
            print(f"{count:5} {seconds:10.2f} {rest:24.1f} {made:18}")


def show_operands(width: int) -> None:
    """Prints the times of a run of one layer with constant weights and with weights as operands."""
    source = chain(1, width)
    shared, weights = operands(source)
    x = np.random.default_rng(1).standard_normal((ROWS, width)).astype(np.float32)
    inlined, body = (gw.compile(m, options=Options(threads=1)) for m in (source, shared))
    first, second = least_microseconds([lambda: inlined(x), lambda: body(x, *weights)], ROUNDS)
    print(f"weights as constants {first:.0f} us, as operands {second:.0f} us: {second / first:.2f}")


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, nargs="+", default=[1, 8, 24])
    parser.add_argument("--width", type=int, default=256)
    given = parser.parse_args()
    show_calls(given.calls, given.width)
    show_operands(given.width)


if __name__ == "__main__":
    main()
