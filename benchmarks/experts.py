"""Compares a mixture of experts (``MoE`` of ONNX Runtime's domain) with ONNX Runtime.

Run: ``python -m benchmarks.experts [--tokens 1 4 32 256] [--experts 16]``. Milliseconds are of processor time
on one thread, of graphwright and ONNX Runtime. The engines take turns; a ratio is the median of pairs. Each
token takes two experts of 1024 x 2048 x 1024, with SiLU.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw
from benchmarks.packed import session, timed
from graphwright.config import Options

SECONDS: Final = 3.0
"""Processor time of one number of tokens."""
HIDDEN: Final = 1024
INNER: Final = 2048


def model(experts: int) -> onnx.ModelProto:
    """One node with constant weights."""
    rng = np.random.default_rng(0)
    shapes = {
        "w1": (experts, INNER, HIDDEN), "b1": (experts, INNER),
        "w2": (experts, HIDDEN, INNER), "b2": (experts, HIDDEN),
    }  # fmt: skip
    weights = [
        numpy_helper.from_array((rng.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    node = helper.make_node(
        "MoE", ["x", "logits", *shapes], ["y"], domain="com.microsoft",
        k=2, activation_type="silu", normalize_routing_weights=1,
    )  # fmt: skip
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["tokens", size])
        for name, size in (("x", HIDDEN), ("logits", experts), ("y", HIDDEN))
    ]
    graph = helper.make_graph([node], "experts", values[:2], values[2:], weights)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=8)


def measure(tokens: int, experts: int, own: gw.Model, peer: Any) -> None:
    """Print both times for one number of tokens."""
    rng = np.random.default_rng(tokens)
    sizes = {"x": (tokens, HIDDEN), "logits": (tokens, experts)}
    feeds: dict[str, Any] = {name: rng.standard_normal(s).astype(np.float32) for name, s in sizes.items()}
    difference = np.abs(own(**feeds)[0] - peer.run(None, feeds)[0]).max()
    pairs, start = [], time.process_time()
    while time.process_time() - start < SECONDS:
        pairs.append((timed(lambda: own(**feeds)), timed(lambda: peer.run(None, feeds))))
    ours, theirs = (1e3 * statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    print(
        f"{tokens:4} tokens: {ours:8.2f} ms, ONNX Runtime {theirs:8.2f} ms, ratio {ratio:.2f}; differs by "
        f"{difference:.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 4, 32, 256])
    parser.add_argument("--experts", type=int, default=16)
    chosen = parser.parse_args()
    source = model(chosen.experts)
    start = time.perf_counter()
    own = gw.compile(source, options=Options(threads=1))
    print(f"{chosen.experts} experts, compiled in {time.perf_counter() - start:.2f} s")
    assert own.stats()["host_calls"] == 0
    for tokens in chosen.tokens:
        measure(tokens, chosen.experts, own, session(source))


if __name__ == "__main__":
    main()
