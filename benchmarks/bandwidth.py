"""Compares the GB/s of ops other than contractions with ONNX Runtime and with a copy of the same number of
bytes.

Run: ``python -m benchmarks.bandwidth [NAME]... [--sizes l2 l3 dram]``. Each case is a small ONNX graph on one
thread; its first input has as many f32 as the size says: 384 KiB, 1.5 MiB or 24 MiB. Bytes are
those of inputs and outputs, each once; weights do not count. Engines and the copy take turns, the figure is
the least processor time of a run. ``entry`` is the smallest graph: what a call costs before any work.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw

Array = np.ndarray[Any, Any]
Step = Callable[[], object]
Nodes = Sequence[tuple[str, str, str, dict[str, Any]]]

SIZES: Final = {"l2": 98304, "l3": 4 * 98304, "dram": 64 * 98304}
"""Elements of the first input: a cache that holds it and a result of its size, or none."""
COLUMNS: Final = 768
SECONDS: Final = 0.15
"""Processor time that one engine has for one case."""


@dataclass(frozen=True)
class Case:
    """Nodes from ``x`` (and ``a``) to ``y``, as ONNX: (op, inputs, output, attributes)."""

    nodes: Nodes
    shape: Callable[[int], tuple[int, ...]] = lambda n: (n // COLUMNS, COLUMNS)
    second: Callable[[int], tuple[int, ...]] | None = None
    weights: Callable[[int], dict[str, Array]] = lambda n: {}
    sizes: Sequence[int] = field(default_factory=lambda: tuple(SIZES.values()))

    def model(self, elements: int) -> onnx.ModelProto:
        """The graph at one size."""
        shapes = {"x": self.shape(elements)}
        if self.second is not None:
            shapes["a"] = self.second(elements)
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
        weights = [numpy_helper.from_array(w, n) for n, w in self.weights(elements).items()]
        made = [
            helper.make_node(op, read.split(" "), written.split(" "), **attributes)
            for op, read, written, attributes in self.nodes
        ]
        output = [helper.make_empty_tensor_value_info("y")]
        graph = helper.make_graph(made, "rows", inputs, output, weights)
        opsets = [helper.make_opsetid("", 20)]
        typed = onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=opsets, ir_version=9)
        )
        return typed


def _one(op: str, **attributes: Any) -> Nodes:
    return [(op, "x", "y", attributes)]


def _f32(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def _scalars(**values: float) -> Callable[[int], dict[str, Array]]:
    return lambda n: {name: np.array(value, np.float32) for name, value in values.items()}


def _ints(**values: Sequence[int]) -> Callable[[int], dict[str, Array]]:
    return lambda n: {name: np.array(value, np.int64) for name, value in values.items()}


def _image(channels: int, width: int = 64) -> Callable[[int], tuple[int, ...]]:
    return lambda n: (1, channels, n // channels // width, width)


def _recurrent(op: str, gates: int, hidden: int, batch: int, steps: int = 32, directions: int = 1) -> Case:
    names = "y y_h y_c" if op == "LSTM" else "y y_h"
    weights = {
        "w": 0.1 * _f32(directions, gates * hidden, hidden),
        "r": 0.1 * _f32(directions, gates * hidden, hidden),
        "b": _f32(directions, 2 * gates * hidden),
    }
    direction = "bidirectional" if directions == 2 else "forward"
    return Case(
        [(op, "x w r b", names, {"hidden_size": hidden, "direction": direction})],
        lambda n: (steps, batch, hidden),
        weights=lambda n: weights,
        sizes=(steps * batch * hidden,),
    )


_GELU: Final[Nodes] = [
    ("Div", "x root", "scaled", {}), ("Erf", "scaled", "e", {}), ("Add", "e one", "f", {}),
    ("Mul", "x f", "g", {}), ("Mul", "g half", "y", {}),
]  # fmt: skip
_RMS: Final[Nodes] = [
    ("Mul", "x x", "square", {}), ("ReduceMean", "square axes", "mean", {}), ("Add", "mean eps", "m", {}),
    ("Sqrt", "m", "root", {}), ("Div", "x root", "normal", {}), ("Mul", "normal scale", "y", {}),
]  # fmt: skip


def _square(n: int) -> tuple[int, int]:
    rows = 1 << ((n.bit_length() - 1) // 2)
    return rows, n // rows


# fmt: off
CASES: Final[dict[str, Case]] = {
    "entry": Case(_one("Exp"), lambda n: (4,), sizes=(4,)),
    "exp": Case(_one("Exp")),
    "erf": Case(_one("Erf")),
    "tanh": Case(_one("Tanh")),
    "sigmoid": Case(_one("Sigmoid")),
    "log": Case([("Abs", "x", "p", {}), ("Log", "p", "y", {})]),
    "relu": Case(_one("Relu")),
    "add": Case([("Add", "x a", "y", {})], second=lambda n: (n // COLUMNS, COLUMNS)),
    "add bias": Case([("Add", "x a", "y", {})], second=lambda n: (COLUMNS,)),
    "silu": Case([("Sigmoid", "x", "s", {}), ("Mul", "x s", "y", {})]),
    "gelu": Case(_GELU, weights=_scalars(root=2**0.5, one=1, half=0.5)),
    "gelu tanh": Case(_one("Gelu", approximate="tanh")),
    "softmax": Case(_one("Softmax", axis=-1)),
    "softmax 128": Case(_one("Softmax", axis=-1), lambda n: (n // 128, 128)),
    "softmax axis 1": Case(_one("Softmax", axis=1), lambda n: (n // 768 // 64, 64, 768)),
    "layer norm": Case(
        [("LayerNormalization", "x scale bias", "y", {"axis": -1})],
        weights=lambda n: {"scale": _f32(COLUMNS), "bias": _f32(COLUMNS)},
    ),
    "rms norm": Case(
        _RMS,
        weights=lambda n: {
            "axes": np.array([-1]), "eps": np.array(1e-6, np.float32), "scale": _f32(COLUMNS)
        },
    ),
    "batch norm": Case(
        [("BatchNormalization", "x scale bias mean variance", "y", {})],
        _image(96),
        weights=lambda n: {k: 1 + np.abs(_f32(96)) for k in ("scale", "bias", "mean", "variance")},
    ),
    "scale 16": Case(
        [("Mul", "x scale", "m", {}), ("Add", "m bias", "y", {})],
        lambda n: (n // 16, 16),
        weights=lambda n: {"scale": _f32(16), "bias": _f32(16)},
    ),
    "sum last": Case([("ReduceSum", "x axes", "y", {})], weights=_ints(axes=[-1])),
    "sum first": Case([("ReduceSum", "x axes", "y", {})], weights=_ints(axes=[0])),
    "sum middle": Case(
        [("ReduceSum", "x axes", "y", {})], lambda n: (n // 768 // 32, 32, 768), weights=_ints(axes=[1])
    ),
    "sum all": Case(_one("ReduceSum", keepdims=0)),
    "mean image": Case([("ReduceMean", "x axes", "y", {})], _image(96), weights=_ints(axes=[2, 3])),
    "max last": Case([("ReduceMax", "x axes", "y", {})], weights=_ints(axes=[-1])),
    "argmax last": Case(_one("ArgMax", axis=-1)),
    "argmax first": Case(_one("ArgMax", axis=0)),
    "cumsum": Case([("CumSum", "x axis", "y", {})], weights=lambda n: {"axis": np.array(-1)}),
    "transpose": Case(_one("Transpose", perm=[1, 0])),
    "transpose 2^k": Case(_one("Transpose", perm=[1, 0]), _square),
    "to channels last": Case(_one("Transpose", perm=[0, 2, 3, 1]), _image(96)),
    "to channels first": Case(_one("Transpose", perm=[0, 3, 1, 2]), lambda n: (1, n // 96 // 64, 64, 96)),
    "split heads": Case(_one("Transpose", perm=[0, 2, 1, 3]), lambda n: (1, n // 768, 12, 64)),
    "keys": Case(_one("Transpose", perm=[0, 2, 3, 1]), lambda n: (1, n // 768, 12, 64)),
    "transpose bytes": Case(
        [("Cast", "x", "b", {"to": TensorProto.UINT8}), ("Transpose", "b", "y", {"perm": [1, 0]})]
    ),
    "gather rows": Case(
        [("Gather", "x i", "y", {"axis": 0})],
        weights=lambda n: {"i": np.random.default_rng(0).permutation(n // COLUMNS)},
    ),
    "gather short rows": Case(
        [("Gather", "x i", "y", {"axis": 0})],
        lambda n: (n // 64, 64),
        weights=lambda n: {"i": np.random.default_rng(0).permutation(n // 64)},
    ),
    "gather columns": Case(
        [("Gather", "x i", "y", {"axis": 1})],
        weights=lambda n: {"i": np.random.default_rng(0).permutation(COLUMNS)},
    ),
    "concat": Case(
        [("Concat", "x a", "y", {"axis": 1})], second=lambda n: (n // COLUMNS, COLUMNS)
    ),
    "slice": Case(
        [("Slice", "x s e d", "y", {})], weights=_ints(s=[16], e=[COLUMNS - 16], d=[1])
    ),
    "slice by 2": Case(
        [("Slice", "x s e d t", "y", {})], weights=_ints(s=[0], e=[COLUMNS], d=[1], t=[2])
    ),
    "pad": Case([("Pad", "x p", "y", {})], _image(96), weights=_ints(p=[0, 0, 1, 1, 0, 0, 1, 1])),
    "expand": Case([("Expand", "x s", "y", {})], lambda n: (n // COLUMNS, 1, COLUMNS),
                   weights=lambda n: {"s": np.array([n // COLUMNS, 2, COLUMNS])}),
    "resize nearest": Case(
        [("Resize", "x  s", "y", {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
                                  "nearest_mode": "floor"})],
        _image(32, 48), weights=lambda n: {"s": np.array([1, 1, 2, 2], np.float32)},
    ),
    "resize linear": Case(
        [("Resize", "x  s", "y", {"mode": "linear"})],
        _image(32, 48), weights=lambda n: {"s": np.array([1, 1, 2, 2], np.float32)},
    ),
    "max pool": Case(_one("MaxPool", kernel_shape=[2, 2], strides=[2, 2]), _image(96)),
    "max pool 3": Case(_one("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), _image(96)),
    "average pool 3": Case(_one("AveragePool", kernel_shape=[3, 3], pads=[1] * 4), _image(96)),
    "lstm 64": _recurrent("LSTM", 4, 64, 1),
    "lstm 256": _recurrent("LSTM", 4, 256, 1),
    "lstm 256 x 8": _recurrent("LSTM", 4, 256, 8),
    "lstm 256 x 16": _recurrent("LSTM", 4, 256, 16),
    "lstm 256 both ways": _recurrent("LSTM", 4, 256, 1, directions=2),
    "lstm 512": _recurrent("LSTM", 4, 512, 1),
    "gru 64": _recurrent("GRU", 3, 64, 1),
    "gru 256": _recurrent("GRU", 3, 256, 1),
    "gru 256 x 8": _recurrent("GRU", 3, 256, 8),
}
# fmt: on


def _array(shape: Sequence[int], dtype: Any, phase: int) -> Array:
    """Random numbers, on a cache line that is not the same part of a page for all (4 KiB aliasing)."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + 8192, np.uint8)
    start = -raw.ctypes.data % 4096 + 1088 * phase
    made: Array = raw[start : start + size].view(dtype).reshape(shape)
    made[...] = np.random.default_rng(phase).standard_normal(shape).astype(dtype)
    return made


def _ours(model: onnx.ModelProto, feeds: dict[str, Array]) -> tuple[Step, dict[str, Array]]:
    compiled = gw.compile(model, options=gw.CompileOptions(threads=1))
    results = compiled.run(feeds)
    out = {name: _array(a.shape, a.dtype, 2 + k) for k, (name, a) in enumerate(results.items())}
    return lambda: compiled.run(feeds, out=out), results


def _peer(model: onnx.ModelProto, feeds: dict[str, Array], outputs: dict[str, Array]) -> Step | None:
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    kept = [np.empty_like(array) for array in outputs.values()]
    for name, array in zip(outputs, kept, strict=True):
        binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    return lambda: (session.run_with_iobinding(binding), kept)


def _copy(size: int) -> Step:
    """A copy that reads and writes ``size`` bytes in total."""
    half = max(64, size // 2)
    target, source = _array((half,), np.uint8, 0), _array((half,), np.uint8, 1)
    to, from_ = ctypes.c_void_p(target.ctypes.data), ctypes.c_void_p(source.ctypes.data)
    return lambda: (ctypes.memmove(to, from_, half), target, source)


def measure(steps: Sequence[Step], seconds: float) -> list[float]:
    """Returns the least seconds of a run of each, in turns."""
    best, repeats = [], []
    for step in steps:
        step()
        begin = time.thread_time()
        step()
        best.append(time.thread_time() - begin)
        repeats.append(max(1, min(1000, int(5e-4 / max(best[-1], 1e-7)))))
    stop = time.thread_time() + seconds * len(steps)
    while time.thread_time() < stop:
        for k, step in enumerate(steps):
            begin = time.thread_time()
            for _ in range(repeats[k]):
                step()
            best[k] = min(best[k], (time.thread_time() - begin) / repeats[k])
    return best


def line(name: str, case: Case, elements: int, seconds: float = SECONDS) -> str:
    """Measures a case; the row of the table."""
    model = case.model(elements)
    feeds = {"x": _array(case.shape(elements), np.float32, 0)}
    if case.second is not None:
        feeds["a"] = _array(case.second(elements), np.float32, 1)
    ours, outputs = _ours(model, feeds)
    size = sum(a.nbytes for a in (*feeds.values(), *outputs.values()))
    peer = _peer(model, feeds, outputs)
    own, copy, *other = measure([ours, _copy(size), *([peer] if peer else [])], seconds)
    theirs = f"{other[0] * 1e6:12.1f} {other[0] / own:7.2f}" if other else ""
    speed = f"{size / own / 1e9:7.1f} {own / copy:8.2f}"
    return f"{name:18} {size / 1e6:8.2f} {own * 1e6:10.1f} {speed} {theirs}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bandwidth", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    parser.add_argument("--sizes", nargs="*", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--seconds", type=float, default=SECONDS)
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(CASES):
        parser.error(f"no case {', '.join(sorted(unknown))}")
    print(f"{'':18} {'MB':>8} {'us':>10} {'GB/s':>7} {'x copy':>8} {'peer us':>12} {'ratio':>7}")
    for name in chosen.names or CASES:
        case = CASES[name]
        wanted = [SIZES[s] for s in chosen.sizes] if len(case.sizes) > 1 else case.sizes
        for elements in wanted:
            print(line(name, case, elements, chosen.seconds), flush=True)


if __name__ == "__main__":
    main()
