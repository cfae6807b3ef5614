"""Measures the first call of compiled PyTorch models, cold and warm, compared with Inductor with freezing.

    python -m benchmarks.torch_compile.startup [MODEL ...]

Each measurement is a process of its own; cold ones have empty caches, warm ones those of the run before.
``tracing`` is the first call with the backend ``aot_eager``: what PyTorch itself takes. Seconds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import nn


class Encoder(nn.Module):
    """A transformer of six layers."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layers(x)
        return result


class Residual(nn.Module):
    """Two convolutions with a residual connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.norms[0](self.first(x)).relu()
        return (x + self.norms[1](self.second(made))).relu()


def images() -> nn.Module:
    """A stem and eight residual blocks."""
    stem = [nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *(Residual(64) for _ in range(8)), nn.AdaptiveAvgPool2d(1))


MODELS: Final[Mapping[str, tuple[Callable[[], nn.Module], tuple[int, ...]]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)), (8, 256)),
    "images": (images, (1, 3, 112, 112)),
    "encoder": (Encoder, (1, 64, 256)),
}
BACKENDS: Final[Mapping[str, dict[str, Any]]] = {
    "tracing": {"backend": "aot_eager"},
    "graphwright": {"backend": "graphwright"},
    "inductor": {"backend": "inductor", "options": {"freezing": True}},
}


def first_call(name: str, backend: str) -> float:
    """Returns the seconds of the first call, after a call of a tiny function that imports everything."""
    arguments = BACKENDS[backend]
    torch.manual_seed(0)
    with torch.no_grad():
        torch.compile(lambda x: x + 1, **arguments)(torch.ones(2))
        make, shape = MODELS[name]
        run, x = torch.compile(make().eval(), **arguments), torch.randn(shape)
        start = time.perf_counter()
        run(x)
        return time.perf_counter() - start


def in_a_process(name: str, backend: str, caches: str) -> float:
    """:func:`first_call` in a new process with these caches."""
    folders = {each: f"{caches}/{each}" for each in ("TORCHINDUCTOR_CACHE_DIR", "GRAPHWRIGHT_CACHE_DIR")}
    command = [sys.executable, "-m", "benchmarks.torch_compile.startup", "--measure", name, backend]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=600, env={**os.environ, **folders}
    )
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--measure", nargs=2)
    arguments = parser.parse_args()
    if arguments.measure:
        print(first_call(*arguments.measure))
        return
    print(
        "| model | tracing | graphwright cold | warm | Inductor cold | warm | cold / cold | warm - tracing |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in arguments.models:
        with tempfile.TemporaryDirectory() as caches:
            tracing = in_a_process(name, "tracing", caches)
            mine, theirs = (
                [in_a_process(name, backend, caches) for _ in range(2)]
                for backend in ("graphwright", "inductor")
            )
        shown = " | ".join(f"{seconds:.2f}" for seconds in (tracing, *mine, *theirs))
        print(f"| {name} | {shown} | {mine[0] / theirs[0]:.2f} | {mine[1] - tracing:.2f} |", flush=True)


if __name__ == "__main__":
    main()
