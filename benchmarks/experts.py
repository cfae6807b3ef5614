"""Compares a mixture of experts (``MoE`` and ``QMoE`` of ONNX Runtime's domain) with ONNX Runtime.

Run: ``python -m benchmarks.experts [--tokens 1 4 32 256] [--experts 16] [--bits 4]``.
Milliseconds are of processor time on one thread, of graphwright and ONNX Runtime. The engines take turns; a
ratio is the median of pairs. Each token takes two experts of 1024 x 2048 x 1024, with SiLU. Differences are
relative to the largest result.
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
from benchmarks.timing import processor_seconds
from benchmarks.weight_only_quantization import session
from graphwright.config import Options

SECONDS: Final = 3.0
"""Processor time of one number of tokens."""
HIDDEN: Final = 1024
INNER: Final = 2048


def model(experts: int, bits: int) -> onnx.ModelProto:
    """One node with constant weights: MoE in f32, or QMoE with weights of ``bits``."""
    rng = np.random.default_rng(0)

    def layer(n: int, k: int) -> list[Any]:
        """The operands of a layer: weights and bias, or codes, scales and no bias."""
        if not bits:
            return [rng.standard_normal((experts, n, k)) / k**0.5, rng.standard_normal((experts, n))]
        codes = rng.integers(0, 256, (experts, n, k * bits // 8), dtype=np.uint8)
        return [codes, rng.uniform(0.001, 0.002, (experts, n)), None]

    arrays = [*layer(INNER, HIDDEN), *layer(HIDDEN, INNER)]
    weights = [
        numpy_helper.from_array(a.astype(np.float32) if a.dtype == np.float64 else a, f"w{k}")
        for k, a in enumerate(arrays)
        if a is not None
    ]
    names = ["" if a is None else f"w{k}" for k, a in enumerate(arrays)]
    quantized: dict[str, Any] = {"expert_weight_bits": bits} if bits else {}
    node = helper.make_node(
        "QMoE" if bits else "MoE", ["x", "logits", *names], ["y"], domain="com.microsoft",
        k=2, activation_type="silu", normalize_routing_weights=1, **quantized,
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
    expected = peer.run(None, feeds)[0]
    difference = np.abs(own(**feeds)[0] - expected).max() / np.abs(expected).max()
    pairs, start = [], time.process_time()
    while time.process_time() - start < SECONDS:
        pairs.append(
            (processor_seconds(lambda: own(**feeds)), processor_seconds(lambda: peer.run(None, feeds)))
        )
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
    parser.add_argument("--bits", type=int, choices=(0, 4, 8), default=0, help="of weights; 0: f32")
    chosen = parser.parse_args()
    source = model(chosen.experts, chosen.bits)
    start = time.perf_counter()
    own = gw.compile(source, options=Options(threads=1))
    print(f"{chosen.experts} experts, compiled in {time.perf_counter() - start:.2f} s")
    assert own.stats()["host_calls"] == 0
    for tokens in chosen.tokens:
        measure(tokens, chosen.experts, own, session(source))


if __name__ == "__main__":
    main()
