"""One layer of a decoder of 7B size beside peers: a token behind a cache, and a prompt of 512.

    python -m benchmarks.llm [--threads 1 2] [--rounds 15] [--peers eager inductor openvino onnxruntime llama]

Hidden size 3584, 28 heads of queries, 4 of keys, a gated MLP of 18944: 233 million weights, f32. All engines
take turns in one process. The limits are measured in the same rounds: for a token, how fast the weights can
be read at all; for a prompt, the layer's seven matrix products alone, as graphwright computes them. A JSON
file per number of tokens and threads goes to ``benchmarks/results/llm``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import torch
import torch._inductor.config
from torch import nn
from torch.nn import functional

from benchmarks.figures import Work
from benchmarks.roofline import Roofline
from graphwright.tools.machine import machine, versions

RESULTS: Final = Path(__file__).with_name("results") / "llm"
HIDDEN, HEADS, GROUPS, FEATURES, INNER = 3584, 28, 4, 128, 18944
CAPACITY, PAST, PROMPT = 1024, 128, 512
CALLS, ROUND_SECONDS = 4, 1.0
PACKAGES: Final = ("openvino", "onnxruntime", "llama-cpp-python")
OURS: Final = "graphwright"
Call = Callable[[], Any]


def rotated(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of [batch, heads, tokens, features] (Su et al., "RoFormer", 2021)."""
    rates = 1e6 ** (-torch.arange(0, FEATURES, 2, dtype=torch.float32) / FEATURES)
    angles = (positions[:, None] * rates).repeat(1, 2)
    first, second = x.chunk(2, dim=-1)
    return x * angles.cos() + torch.cat((-second, first), dim=-1) * angles.sin()


def spread(x: torch.Tensor) -> torch.Tensor:
    """Heads of keys or values, each for all heads of queries that read it."""
    return x[:, :, None].expand(-1, -1, HEADS // GROUPS, -1, -1).flatten(1, 2)


class Norm(nn.Module):
    """RMS normalization, in operators that every exporter has."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(HIDDEN))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight
        return made


class Layer(nn.Module):
    """Tokens [1, n, HIDDEN] and their positions; ``keys`` and ``values`` are written in place, or, where they
    are given, come in front of the new ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(Norm() for _ in range(2))
        self.q, self.o = (nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(HIDDEN, GROUPS * FEATURES, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(HIDDEN, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, HIDDEN, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, GROUPS, CAPACITY, FEATURES), persistent=False)

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        q, k, v = self._heads(x, positions)
        self.keys.index_copy_(2, positions, k)
        self.values.index_copy_(2, positions, v)
        mask = torch.arange(CAPACITY) <= positions[:, None]
        return self._rest(
            x, functional.scaled_dot_product_attention(q, spread(self.keys), spread(self.values), mask)
        )

    def _heads(self, x: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.norms[0](x)
        q, k, v = (made(y).unflatten(-1, (-1, FEATURES)).transpose(1, 2) for made in (self.q, self.k, self.v))
        return rotated(q, positions), rotated(k, positions), v

    def _rest(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        x = x + self.o(seen.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        made: torch.Tensor = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return made


class WithPast(nn.Module):
    """A layer whose cache is an argument, for engines that keep no state; without one for a prompt."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor, positions: torch.Tensor, *past: torch.Tensor) -> torch.Tensor:
        layer = self.layer
        q, k, v = layer._heads(x, positions)
        if past:
            k, v = (torch.cat(both, dim=2) for both in zip(past, (k, v), strict=True))
        seen = functional.scaled_dot_product_attention(q, spread(k), spread(v), is_causal=not past)
        return layer._rest(x, seen)


class Products(nn.Module):
    """The matrix products of a layer alone."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor, wide: torch.Tensor) -> tuple[torch.Tensor, ...]:
        layer = self.layer
        made = (each(x) for each in (layer.q, layer.k, layer.v, layer.o, layer.gate, layer.up))
        return *made, layer.down(wide)


class Task:
    """Tokens, their positions, and what the layer makes of them in eager mode."""

    def __init__(self, layer: Layer, count: int) -> None:
        first = PAST if count == 1 else 0
        self.x, self.positions = torch.randn(1, count, HIDDEN), torch.arange(first, first + count)
        self.past = [cache[:, :, :first].clone() for cache in (layer.keys, layer.values)] if first else []
        self.expected = layer(self.x, self.positions)


def torch_call(run: Callable[..., Any], task: Task) -> Call:
    """A call without gradients."""

    def call() -> Any:
        with torch.no_grad():
            return run(task.x, task.positions)

    return call


def ours(layer: Layer, task: Task, threads: int, folder: Path) -> Call:
    return torch_call(torch.compile(layer, backend=OURS, options={"threads": threads}), task)


def eager(layer: Layer, task: Task, threads: int, folder: Path) -> Call:
    return torch_call(layer, task)


def inductor(layer: Layer, task: Task, threads: int, folder: Path) -> Call:
    torch._inductor.config.freezing = True
    return torch_call(torch.compile(layer, backend="inductor"), task)


def exported(layer: Layer, task: Task, folder: Path) -> tuple[Path, dict[str, np.ndarray[Any, Any]]]:
    """An ONNX file and its feeds."""
    file = folder / f"layer_{task.x.shape[1]}.onnx"
    names = ["x", "positions", "past_keys", "past_values"][: 2 + len(task.past)]
    arguments = (task.x, task.positions, *task.past)
    if not file.exists():
        torch.onnx.export(
            WithPast(layer), arguments, str(file), input_names=names, dynamo=False, opset_version=20
        )
    return file, {name: value.numpy() for name, value in zip(names, arguments, strict=True)}


def onnxruntime(layer: Layer, task: Task, threads: int, folder: Path) -> Call:
    import onnxruntime as ort

    file, feeds = exported(layer, task, folder)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return lambda: torch.from_numpy(session.run(None, feeds)[0])


def openvino(layer: Layer, task: Task, threads: int, folder: Path) -> Call:
    import openvino as ov

    file, feeds = exported(layer, task, folder)
    hints = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = ov.Core().compile_model(str(file), "CPU", hints).create_infer_request()
    return lambda: torch.from_numpy(request.infer(feeds)[0])


ENGINES: Final[Mapping[str, Callable[[Layer, Task, int, Path], Call]]] = {
    OURS: ours, "eager": eager, "inductor": inductor, "openvino": openvino, "onnxruntime": onnxruntime,
}  # fmt: skip


def compare(count: int, threads: int, rounds: int, peers: Sequence[str]) -> dict[str, Any]:
    """Figures of ``count`` tokens at a time."""
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    with torch.no_grad(), tempfile.TemporaryDirectory() as name:
        layer = Layer().eval()
        layer(torch.randn(1, PAST, HIDDEN), torch.arange(PAST))
        task = Task(layer, count)
        calls = {engine: ENGINES[engine](layer, task, threads, Path(name)) for engine in (OURS, *peers)}
        errors = {engine: float((call() - task.expected).abs().max()) for engine, call in calls.items()}
        limits = _limits(layer, count, threads)
        times: dict[str, list[float]] = {engine: [] for engine in (*calls, "limit")}
        for _ in range(rounds):
            times["limit"].append(limits())
            for engine, call in calls.items():
                times[engine].append(_round(call, threads))
    return {
        "tokens": count, "threads": threads, "rounds": rounds, "errors": errors, "machine": machine(),
        "versions": versions([OURS, "torch", *PACKAGES]),
        "median_ms": {engine: median(each) * 1e3 for engine, each in times.items()},
        "of_limit": median(a / b for a, b in zip(times["limit"], times[OURS], strict=True)),
        "ratios": {
            peer: median(a / b for a, b in zip(times[OURS], times[peer], strict=True)) for peer in peers
        },
    }  # fmt: skip


def _limits(layer: Layer, count: int, threads: int) -> Callable[[], float]:
    """Seconds that the weights take to read, or that the products take alone."""
    if count == 1:
        weights = sum(each.nbytes for each in layer.parameters())
        roofline = Roofline(Work(0, weights), threads)

        def read() -> float:
            roofline.sample()
            return weights / roofline.gbps[-1] / 1e9

        return read
    products = torch.compile(Products(layer), backend=OURS, options={"threads": threads})
    x, wide = torch.randn(1, count, HIDDEN), torch.randn(1, count, INNER)
    return lambda: _round(lambda: products(x, wide), threads)


def _round(call: Call, threads: int) -> float:
    """The shortest of a few calls, in seconds; of one thread its processor time."""
    clock, taken = time.process_time if threads == 1 else time.perf_counter, list[float]()
    while len(taken) < CALLS and sum(taken) < ROUND_SECONDS:
        start = clock()
        call()
        taken.append(clock() - start)
    return min(taken)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, PROMPT])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peers", nargs="*", default=[engine for engine in ENGINES if engine != OURS])
    options = parser.parse_args(arguments)
    for threads in options.threads:
        for count in options.tokens:
            made = compare(count, threads, options.rounds, options.peers)
            RESULTS.mkdir(parents=True, exist_ok=True)
            (RESULTS / f"{count}.{threads}.json").write_text(json.dumps(made, indent=1) + "\n")
            print(json.dumps(made))


if __name__ == "__main__":
    main()
