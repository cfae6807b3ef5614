"""Measures the overhead of a call besides its kernels: of a graph of ten tensors, and of tiny modules
compared with eager mode, Inductor, and an empty graph, which has only the cost of dynamo.

Prints microseconds, the least of interleaved rounds; run it with OMP_NUM_THREADS=1.

    python -m benchmarks.torch_compile.overhead [--rounds 30]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from graphwright.torch.compiled_graph import CompiledGraph

CALLS = 2000


def fastest(runs: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Returns the microseconds of a call of each: the least of ``rounds``, in which all take turns."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.thread_time_ns()
            for _ in range(CALLS):
                run()
            best[name] = min(best[name], (time.thread_time_ns() - start) / CALLS / 1000)
    return best


def graph_of_ten(rounds: int) -> float:
    """A call of the compiled graph itself, without dynamo and AOTAutograd."""
    calls: list[Callable[..., Any]] = []
    keep = CompiledGraph.call

    def call(graph: Any) -> Any:
        calls.append(keep.fget(graph))  # type: ignore[attr-defined]
        return calls[-1]

    CompiledGraph.call = property(call)  # type: ignore[assignment,method-assign]
    tensors = [torch.randn(4) for _ in range(10)]
    with torch.no_grad():
        torch.compile(lambda *given: sum(given), backend="graphwright")(*tensors)
    CompiledGraph.call = keep  # type: ignore[method-assign]
    return fastest({"graph": lambda: calls[0](list(tensors))}, rounds)["graph"]


def modules() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """Modules whose kernels take almost no time."""
    return {
        "linear 4x4": (nn.Linear(4, 4), torch.randn(1, 4)),
        "mlp 8-16-4": (nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(1, 8)),
        "batch_norm": (nn.BatchNorm1d(4), torch.randn(2, 4)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(f"graph of ten tensors: {graph_of_ten(rounds):.2f} us")
    for name, (module, x) in modules().items():
        module.eval()
        torch._dynamo.reset()  # whose entries are those of all modules otherwise
        inductor = torch.compile(module, options={"freezing": True})
        mine = torch.compile(module, backend="graphwright", options={"threads": 1})
        nothing = torch.compile(module, backend=lambda graph, _: lambda *given: (given[0],))
        runs: dict[str, Callable[..., Any]] = {
            "eager": module,
            "nothing": nothing,
            "graphwright": mine,
            "inductor": inductor,
        }
        with torch.no_grad():
            measured = fastest({key: partial(run, x) for key, run in runs.items()}, rounds)
        guards, peer = measured["nothing"], measured["inductor"]
        whole, own = measured["graphwright"] / peer, (measured["graphwright"] - guards) / (peer - guards)
        print(f"{name}: " + ", ".join(f"{key} {us:.1f}" for key, us in measured.items()), end="; ")
        print(f"graphwright / inductor {whole:.2f}, beyond dynamo's own {own:.2f}")


if __name__ == "__main__":
    main()
