"""Compares one layer of a decoder of 7B size with peers: one token with a KV cache, and a prompt of 512
tokens.

    python -m benchmarks.llm [--weights f32 bf16 int8 int4] [--tokens 1 512] [--threads 1 2] [--rounds 15]

Hidden size 3584, 28 heads of queries, 4 of keys, a gated MLP of 18944: 233 million weights. All engines
take turns in one process; those that cannot run a kind of weights are left out. The limits are measured in
the same rounds: for a token, how fast the weights can be read at all; for a prompt, the layer's seven matrix
products alone, as graphwright computes them. Errors are relative to the f32 layer in eager mode. A JSON file
for each kind of weights, number of tokens and threads goes to ``benchmarks/results/llm``.

Times of one thread are processor time. Peers need their packages: llama-cpp-python and gguf for llama.cpp,
onnx-ir for ONNX files with weights of few bits. Seven copies of the weights take 8 GB of memory.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
import torch._inductor.config
from torch import nn
from torch.nn import functional

from benchmarks import RESULTS
from benchmarks.figures import Work
from benchmarks.roofline import Roofline
from graphwright.tools.machine import machine, versions

FOLDER: Final = RESULTS / "llm"
HIDDEN, HEADS, GROUPS, FEATURES, INNER = 3584, 28, 4, 128, 18944
CAPACITY, PAST, PROMPT = 1024, 128, 512
CALLS, ROUND_SECONDS = 4, 1.0
BLOCKS: Final = {"int8": 128, "int4": 64}
"""Weights that share a scale."""
BITS: Final = {"f32": 32, "bf16": 16, "int8": 8.25, "int4": 4.5}
"""Bits per weight, including scales."""
SHOWN: Final = ("tokens", "threads", "median_ms", "of_limit", "ratios", "errors")
PACKAGES: Final = ("openvino", "onnxruntime", "llama-cpp-python")
OURS: Final = "graphwright"
Call = Callable[[], torch.Tensor]


def rotated(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of [batch, heads, tokens, features] (Su et al., "RoFormer", 2021)."""
    rates = 1e6 ** (-torch.arange(0, FEATURES, 2, dtype=torch.float32) / FEATURES)
    angles = (positions[:, None] * rates).repeat(1, 2)
    first, second = x.chunk(2, dim=-1)
    cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    return x * cosines + torch.cat((-second, first), dim=-1) * sines


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
    """A layer of a decoder for tokens [1, n, HIDDEN] and their positions. New keys and values are written in
    place, into the buffers ``keys`` and ``values``.
    """

    keys: torch.Tensor
    values: torch.Tensor

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


@dataclass(frozen=True)
class Task:
    """The task of an engine: the layer on tokens ``x``, after the cached keys and values ``past``."""

    layer: Layer
    bits: str
    threads: int
    folder: Path
    x: torch.Tensor
    positions: torch.Tensor
    past: tuple[torch.Tensor, ...]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the module in PyTorch."""
        return torch.bfloat16 if self.bits == "bf16" else torch.float32

    def module(self) -> Layer:
        """The layer in that dtype."""
        return self.layer if self.dtype == torch.float32 else copy.deepcopy(self.layer).to(self.dtype)

    def call(self, run: Callable[..., torch.Tensor]) -> Call:
        """A call of ``run`` without gradients."""
        x = self.x.to(self.dtype)

        def called() -> torch.Tensor:
            with torch.no_grad():
                return run(x, self.positions)[0, -1].float()

        return called

    def exported(self) -> tuple[Path, dict[str, Any]]:
        """An ONNX file and its feeds."""
        file = self.folder / f"{self.x.shape[1]}.onnx"
        names = ["x", "positions", "past_keys", "past_values"][: 2 + len(self.past)]
        arguments = (self.x, self.positions, *self.past)
        if not file.exists():
            torch.onnx.export(
                WithPast(self.layer), arguments, str(file), input_names=names, dynamo=False, opset_version=20
            )
            if self.bits in BLOCKS:
                _quantize(file, int(self.bits.removeprefix("int")))
        return file, {name: value.numpy() for name, value in zip(names, arguments, strict=True)}


def _quantize(file: Path, bits: int) -> None:
    """Let the products of a model be MatMulNBits."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    made = MatMulNBitsQuantizer(
        str(file), bits=bits, block_size=BLOCKS[f"int{bits}"], is_symmetric=True, accuracy_level=4
    )
    made.process()
    made.model.save_model_to_file(str(file), use_external_data_format=True)


def ours(task: Task) -> Call:
    """graphwright on the PyTorch module."""
    options: dict[str, Any] = {"threads": task.threads}
    if task.bits in BLOCKS:
        options["weights"] = task.bits
    return task.call(torch.compile(task.module(), backend=OURS, options=options))


def eager(task: Task) -> Call | None:
    """PyTorch in eager mode; None for quantized weights."""
    return None if task.bits in BLOCKS else task.call(task.module())


def inductor(task: Task) -> Call | None:
    """Inductor with frozen parameters; None for quantized weights."""
    if task.bits in BLOCKS:
        return None
    torch._inductor.config.freezing = True
    return task.call(torch.compile(task.module(), backend="inductor"))


def onnxruntime(task: Task) -> Call | None:
    """ONNX Runtime on the ONNX file; None for bf16, which it lacks on CPUs."""
    if task.bits == "bf16":
        return None
    import onnxruntime as ort

    file, feeds = task.exported()
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = task.threads, 1
    session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return lambda: torch.from_numpy(session.run(None, feeds)[0][0, -1])


def openvino(task: Task) -> Call:
    """OpenVINO on the ONNX file."""
    import openvino as ov

    file, feeds = task.exported()
    hints = {"INFERENCE_NUM_THREADS": task.threads, "PERFORMANCE_HINT": "LATENCY"}
    hints["INFERENCE_PRECISION_HINT"] = "bf16" if task.bits == "bf16" else "f32"
    request = ov.Core().compile_model(str(file), "CPU", hints).create_infer_request()
    return lambda: torch.from_numpy(request.infer(feeds)[0][0, -1].copy())


def llama(task: Task) -> Call:
    """llama.cpp, whose result is normalized."""
    from benchmarks.llama_cpp_peer import Llama, write

    layer, file = task.layer, task.folder / "layer.gguf"
    weights: dict[str, Any] = {
        "attn_norm.weight": layer.norms[0].weight,
        "ffn_norm.weight": layer.norms[1].weight,
    }
    for name in ("q", "k", "v"):
        made = getattr(layer, name)
        weights |= {f"attn_{name}.weight": made.weight, f"attn_{name}.bias": torch.zeros(made.out_features)}
    named = {"attn_output": layer.o, "ffn_gate": layer.gate, "ffn_up": layer.up, "ffn_down": layer.down}
    weights |= {f"{name}.weight": made.weight for name, made in named.items()}
    write(file, weights, HEADS, GROUPS, CAPACITY, task.bits)
    run, first, x = Llama(file, task.threads, CAPACITY), int(task.positions[0]), task.x[0].numpy()
    file.unlink()
    if first:
        run(torch.randn(first, HIDDEN).numpy(), 0)
    return lambda: torch.from_numpy(run(x, first))


ENGINES: Final[Mapping[str, Callable[[Task], Call | None]]] = {
    OURS: ours, "eager": eager, "inductor": inductor, "openvino": openvino, "onnxruntime": onnxruntime,
    "llama": llama,
}  # fmt: skip


def compare(bits: str, count: int, threads: int, rounds: int, peers: Sequence[str]) -> dict[str, Any]:
    """Figures of ``count`` tokens at a time."""
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    torch._dynamo.reset()  # it compiles one function eight times, and leaves it in eager mode then
    with torch.no_grad(), tempfile.TemporaryDirectory() as name:
        layer = Layer().eval()
        first = PAST if count == 1 else 0
        if first:
            layer(torch.randn(1, first, HIDDEN), torch.arange(first))
        past = tuple(cache[:, :, :first].clone() for cache in (layer.keys, layer.values)) if first else ()
        x, positions = torch.randn(1, count, HIDDEN), torch.arange(first, first + count)
        task = Task(layer, bits, threads, Path(name), x, positions, past)
        expected = layer(x, positions)[0, -1]
        calls = {engine: ENGINES[engine](task) for engine in (OURS, *peers)}
        called = {engine: call for engine, call in calls.items() if call}
        errors = {engine: _error(call(), expected) for engine, call in called.items() if engine != "llama"}
        limit = _limit(layer, bits, count, threads)
        times: dict[str, list[float]] = {engine: [] for engine in (*called, "limit")}
        for _ in range(rounds):
            times["limit"].append(limit())
            for engine, call in called.items():
                times[engine].append(_round(call, threads))
    return {
        "weights": bits, "tokens": count, "threads": threads, "rounds": rounds, "errors": errors,
        "median_ms": {engine: median(each) * 1e3 for engine, each in times.items()},
        "of_limit": median(a / b for a, b in zip(times["limit"], times[OURS], strict=True)),
        "ratios": {
            peer: median(a / b for a, b in zip(times[OURS], times[peer], strict=True))
            for peer in called if peer != OURS
        },
        "machine": machine(), "versions": versions([OURS, "torch", *PACKAGES]),
    }  # fmt: skip


def _error(made: torch.Tensor, expected: torch.Tensor) -> float:
    """The root of the mean square of the difference, relative to that of what is expected."""
    return float((made - expected).norm() / expected.norm())


def _limit(layer: Layer, bits: str, count: int, threads: int) -> Callable[[], float]:
    """The limit in seconds: reading the weights for one token, or the products alone for several."""
    if count == 1:
        weights = int(sum(each.numel() for each in layer.parameters()) * BITS[bits] / 8)
        roofline = Roofline(Work(0, weights), threads)

        def read() -> float:
            roofline.sample()
            return weights / roofline.gbps[-1] / 1e9

        return read
    x, wide = torch.randn(1, count, HIDDEN), torch.randn(1, count, INNER)
    dtype = torch.bfloat16 if bits == "bf16" else torch.float32
    options: dict[str, Any] = {"threads": threads} | ({"weights": bits} if bits in BLOCKS else {})
    made = Products(layer if dtype == torch.float32 else copy.deepcopy(layer).to(dtype))
    products = torch.compile(made, backend=OURS, options=options)
    operands = x.to(dtype), wide.to(dtype)

    def multiply() -> float:
        with torch.no_grad():
            return _round(lambda: products(*operands), threads)

    return multiply


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
    parser.add_argument("--weights", nargs="+", default=["f32"], choices=BITS)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, PROMPT])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peers", nargs="*", default=[engine for engine in ENGINES if engine != OURS])
    options = parser.parse_args(arguments)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for bits, threads, count in product(options.weights, options.threads, options.tokens):
        made = compare(bits, count, threads, options.rounds, options.peers)
        (FOLDER / f"{bits}.{count}.{threads}.json").write_text(json.dumps(made, indent=1) + "\n")
        print(json.dumps({key: made[key] for key in ("weights", *SHOWN)}))


if __name__ == "__main__":
    main()
