"""Measures the memory of compiled PyTorch models: the peak of compilation and runs, compared with eager mode
and the packed parameters. Each measurement has a process of its own.

    python -m benchmarks.torch_compile.memory [--layers 12] [--width 768]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

MIB = 1 << 20


class Blocks(nn.Module):
    """The linear layers of a transformer."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.second = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for first, second in zip(self.first, self.second, strict=True):
            x = x + second(nn.functional.gelu(first(x)))
        return x


def peak() -> int:
    """The peak resident memory of this process, in bytes."""
    with open("/proc/self/status") as file:
        (line,) = [line for line in file if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def resident() -> int:
    """The resident memory of this process, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def measure(how: str, layers: int, width: int) -> dict[str, Any]:
    """Measures runs of one model: ``how`` is ``eager``, or the options of the compilation."""
    from graphwright.torch.frozen_models import _OF_ALL_GRAPHS

    compiled = torch.compile(nn.Linear(4, 4), backend="graphwright")
    with torch.no_grad():
        compiled(torch.randn(1, 4))  # what is imported
        del compiled
        torch._dynamo.reset()
        before = resident()
        model = Blocks(layers, width).eval()
        parameters = sum(each.numel() * each.element_size() for each in model.parameters())
        run: Any = model
        if how != "eager":
            run = torch.compile(model, backend="graphwright", dynamic=False, options=json.loads(how))
        shapes = (128,) if "release" in how else (128, 96, 1)  # as of two prefills and of a decode
        for rows in shapes:
            for _ in range(3):
                run(torch.randn(rows, width))
    return {
        "parameters": parameters,
        "packed": packed_bytes(_OF_ALL_GRAPHS),
        "peak": peak() - before,
        "after": resident() - before,
    }


def packed_bytes(graphs: Iterable[Any]) -> int:
    """The bytes of packed parameters; shared memory counts once."""
    blocks: dict[int, int] = {}
    for weights in [held.model.package.weights for models in graphs for held in models._models.values()]:
        block = id(weights.region or weights)
        blocks[block] = max(blocks.get(block, 0), len(weights.data))
    return sum(blocks.values())


def in_a_process(how: str, arguments: argparse.Namespace) -> Mapping[str, Any]:
    command = [sys.executable, "-m", "benchmarks.torch_compile.memory", "--measure", how]
    command += ["--layers", str(arguments.layers), "--width", str(arguments.width)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    measured: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--measure", default="")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.layers, arguments.width)))
        return
    eager = in_a_process("eager", arguments)
    print(f"parameters {eager['parameters'] / MIB:.0f} MiB; MiB above what imports take:")
    print(f"eager: peak {eager['peak'] / MIB:.0f}, after {eager['after'] / MIB:.0f}")
    for how in ({}, {"release_weights": True}):
        found = in_a_process(json.dumps(how), arguments)
        limit = eager["peak"] + found["packed"]
        print(
            f"graphwright {how or ''}: packed {found['packed'] / MIB:.0f}, peak {found['peak'] / MIB:.0f}, "
            f"after {found['after'] / MIB:.0f}; peak / (eager + packed) {found['peak'] / limit:.2f}"
        )


if __name__ == "__main__":
    main()
