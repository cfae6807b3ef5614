"""Compares matrix multiplications with 4-bit weights (MatMulNBits) with ONNX Runtime: time, memory, accuracy.

    python -m benchmarks.weight_only_quantization [--rows 1 4 16 512] [--bits 4] [--block 32] [--zeros]

Milliseconds are processor time on one thread, of graphwright and ONNX Runtime. ``level`` is the accuracy
level of the model: 0 asks for f32, 4 allows bytes. The engines take turns; a ratio is the median of pairs.
Errors are differences from float64, relative to the largest result. Memory is the peak resident memory of a
new process that loads the model (graphwright's as ``.om``) and runs it on one row, minus its memory before.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw
from benchmarks.timing import processor_seconds
from graphwright.config import Options

SECONDS: Final = 3.0
"""Processor time of one case."""
SIZES: Final = ((3584, 3584), (3584, 18944), (18944, 3584))
"""K and N of a decoder of seven billion weights."""
LEVELS: Final = (0, 4)
CHECKED: Final = 16
"""Rows that are compared with float64."""


@dataclass(frozen=True)
class Case:
    """A product with quantized weights."""

    k: int
    n: int
    bits: int
    block: int
    zeros: bool

    @property
    def name(self) -> str:
        return f"{self.k:6} x {self.n:5}"

    def arrays(self) -> dict[str, Any]:
        """The codes, their scales and zero points."""
        rng, blocks = np.random.default_rng(0), -(-self.k // self.block)
        made = {
            "codes": rng.integers(0, 256, (self.n, blocks, self.block * self.bits // 8), dtype=np.uint8),
            "scales": rng.uniform(0.01, 0.03, self.n * blocks).astype(np.float32),
        }
        if self.zeros:
            made["zeros"] = rng.integers(0, 256, self.n * -(-blocks * self.bits // 8), dtype=np.uint8)
        return made

    def model(self, level: int) -> onnx.ModelProto:
        constants = [numpy_helper.from_array(array, name) for name, array in self.arrays().items()]
        node = helper.make_node(
            "MatMulNBits", ["x", *(c.name for c in constants)], ["y"], domain="com.microsoft",
            K=self.k, N=self.n, bits=self.bits, block_size=self.block, accuracy_level=level,
        )  # fmt: skip
        values = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", size])
            for name, size in (("x", self.k), ("y", self.n))
        ]
        graph = helper.make_graph([node], "packed", values[:1], values[1:], constants)
        domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=8)

    def expected(self, x: Any) -> Any:
        """The product in float64."""
        arrays, blocks = self.arrays(), -(-self.k // self.block)
        bytes_ = arrays["codes"].reshape(self.n, -1)
        shifts = np.arange(0, 8, self.bits, dtype=np.uint8)

        def numbers(packed: Any) -> Any:
            return (packed[..., None] >> shifts & (1 << self.bits) - 1).reshape(self.n, -1).astype(np.float64)

        zero = np.full((self.n, blocks), 1 << (self.bits - 1))
        if self.zeros:
            zero = numbers(arrays["zeros"].reshape(self.n, -1))[:, :blocks]
        spread = [np.repeat(v.reshape(self.n, blocks), self.block, 1) for v in (zero, arrays["scales"])]
        weights = (numbers(bytes_) - spread[0]) * spread[1]
        return x.astype(np.float64) @ weights[:, : self.k].T


def session(model: onnx.ModelProto | str) -> onnxruntime.InferenceSession:
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model if isinstance(model, str) else model.SerializeToString(), settings
    )


def measure(case: Case, rows: list[int]) -> None:
    """Prints the results of one case for each number of rows."""
    own = {level: gw.compile(case.model(level), options=Options(threads=1)) for level in LEVELS}
    assert all(model.stats()["host_calls"] == 0 for model in own.values())
    peers = {level: session(case.model(level)) for level in LEVELS}
    for m in rows:
        x = np.random.default_rng(m).standard_normal((m, case.k)).astype(np.float32)
        expected, parts = case.expected(x[:CHECKED]), []
        for level in LEVELS:
            run, peer = partial(own[level].run, {"x": x}), partial(peers[level].run, None, {"x": x})
            pairs = taken_in_turns(run, peer)
            ratio = statistics.median(b / a for a, b in pairs)
            ours, theirs = (min(times) * 1e3 for times in zip(*pairs, strict=True))
            errors = f"errors {error(run()['y'], expected)} and {error(peer()[0], expected)}"
            parts.append(f"level {level} {ours:7.2f} and {theirs:7.2f} ms ({ratio:5.2f} x, {errors})")
        print(f"{case.name}, {m:4} rows: {', '.join(parts)}", flush=True)


def taken_in_turns(own: Callable[[], object], peer: Callable[[], object]) -> list[tuple[float, float]]:
    """Returns the seconds of runs of graphwright and of the peer, in turns."""
    own(), peer()
    pairs: list[tuple[float, float]] = []
    end = time.process_time() + SECONDS / len(LEVELS)
    while len(pairs) < 2 or time.process_time() < end:
        pairs.append((processor_seconds(own), processor_seconds(peer)))
    return pairs


def error(actual: Any, expected: Any) -> str:
    """The largest error of the first rows, relative to the largest element."""
    return f"{np.abs(actual[:CHECKED] - expected).max() / np.abs(expected).max():.0e}"


def resident(engine: str, file: str, k: int) -> None:
    """Prints the peak KiB of loading and running in this process."""
    x = np.ones((1, k), np.float32)
    Path("/proc/self/clear_refs").write_text("5")  # the most so far is what there is now
    before = most_resident()
    if engine == "graphwright":
        gw.load(file).run({"x": x})
    else:
        session(file).run(None, {"x": x})
    print(most_resident() - before)


def most_resident() -> int:
    """The peak resident memory of this process, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def memory(case: Case) -> None:
    """Print the memory of each engine and the bytes of the weights."""
    with tempfile.TemporaryDirectory() as folder:
        onnx_file, om_file = Path(folder) / "model.onnx", Path(folder) / "model.om"
        onnx.save(case.model(0), onnx_file)
        gw.compile(case.model(0), options=Options(threads=1)).save(om_file)
        found = []
        for engine, file in (("graphwright", om_file), ("onnxruntime", onnx_file)):
            command = [
                sys.executable,
                "-m",
                "benchmarks.weight_only_quantization",
                "--resident",
                engine,
                str(file),
                str(case.k),
            ]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found.append(f"{engine} takes {int(text) / 1024:.0f} MiB")
        sizes = {
            "weights": sum(a.nbytes for a in case.arrays().values()),
            "in f32": 4 * case.k * case.n,
            "the .om": om_file.stat().st_size,
        }
        found = [f"{name} {size / 2**20:.0f} MiB" for name, size in sizes.items()] + found
        print(f"{case.name}: {', '.join(found)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 4, 16, 512])
    parser.add_argument("--bits", type=int, default=4, choices=(2, 4, 8))
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--zeros", action="store_true", help="zero points of their own")
    parser.add_argument("--sizes", type=int, default=2, help="how many of the sizes")
    parser.add_argument("--resident", nargs=3, metavar=("ENGINE", "FILE", "K"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.resident:
        engine, file, k = given.resident
        resident(engine, file, int(k))
        return
    for k, n in SIZES[: given.sizes]:
        case = Case(k, n, given.bits, given.block, given.zeros)
        measure(case, given.rows)
        memory(case)


if __name__ == "__main__":
    main()
