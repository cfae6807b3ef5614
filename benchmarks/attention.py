"""Compares attention with ONNX Runtime: GFLOP/s in CPU time on one thread, for shapes of known models.

Run: ``python -m benchmarks.attention [NAME]...``. Each case is products around a Softmax, with heads inside
([batch, row, head, feature]), as exporters write them. The engines take turns; the figure is the least time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options

SECONDS: Final = 1.0
"""Processor time that one engine has for one case."""


@dataclass(frozen=True)
class Case:
    """Self-attention of one sequence."""

    heads: int
    rows: int
    features: int

    @property
    def flops(self) -> int:
        """Floating-point operations of both products."""
        return 4 * self.heads * self.rows * self.rows * self.features

    def model(self) -> onnx.ModelProto:
        """The model; its inputs q, k and v are [1, rows, heads * features]."""
        wide = self.heads * self.features
        constants = [
            helper.make_tensor("split", TensorProto.INT64, [4], [1, self.rows, self.heads, self.features]),
            helper.make_tensor("merge", TensorProto.INT64, [3], [1, self.rows, wide]),
            helper.make_tensor("root", TensorProto.FLOAT, [], [self.features**0.5]),
        ]
        nodes = []
        for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            nodes.append(helper.make_node("Reshape", [name, "split"], [f"{name}4"]))
            nodes.append(helper.make_node("Transpose", [f"{name}4"], [f"{name}t"], perm=perm))
        nodes += [
            helper.make_node("MatMul", ["qt", "kt"], ["scores"]),
            helper.make_node("Div", ["scores", "root"], ["scaled"]),
            helper.make_node("Softmax", ["scaled"], ["shares"], axis=-1),
            helper.make_node("MatMul", ["shares", "vt"], ["result"]),
            helper.make_node("Transpose", ["result"], ["rows"], perm=[0, 2, 1, 3]),
            helper.make_node("Reshape", ["rows", "merge"], ["y"]),
        ]
        values = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, self.rows, wide])
            for n in ("q", "k", "v", "y")
        ]
        graph = helper.make_graph(nodes, "attention", values[:3], values[3:], constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


CASES: Final = {
    "bert": Case(12, 128, 64),
    "vit": Case(12, 197, 64),
    "gpt2": Case(12, 1024, 64),
    "whisper": Case(8, 1500, 64),
    "qwen2": Case(28, 1024, 128),
}


def least(step: Callable[[], object], best: float, budget: float) -> float:
    """Returns the shortest processor time of a run, in seconds."""
    end = time.process_time() + budget
    while time.process_time() < end:
        start = time.process_time()
        step()
        best = min(best, time.process_time() - start)
    return best


def measure(case: Case) -> tuple[float, float]:
    """Returns the seconds of a run of graphwright and of ONNX Runtime."""
    model = case.model()
    rng = np.random.default_rng(0)
    shape = (1, case.rows, case.heads * case.features)
    feeds: dict[str, Any] = {name: rng.standard_normal(shape).astype(np.float32) for name in ("q", "k", "v")}
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    peer = onnxruntime.InferenceSession(model.SerializeToString(), settings)
    own = gw.compile(model, options=Options(threads=1))
    ours = theirs = float("inf")
    for _ in range(4):
        ours = least(lambda: own.run(feeds), ours, SECONDS / 4)
        theirs = least(lambda: peer.run(None, feeds), theirs, SECONDS / 4)
    return ours, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    for name in parser.parse_args().names or CASES:
        case = CASES[name]
        ours, theirs = measure(case)
        speed = case.flops * 1e-9
        print(
            f"{name:8} {case.heads}x{case.rows}x{case.features}: {ours * 1e3:8.2f} ms "
            f"{speed / ours:6.1f} GFLOP/s, "
            f"ONNX Runtime {theirs * 1e3:8.2f} ms {speed / theirs:6.1f}"
        )


if __name__ == "__main__":
    main()
