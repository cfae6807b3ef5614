"""Measures memory of the zoo: the arena and its lower bound, and loading and one run compared with ONNX
Runtime.

    python -m benchmarks.memory [MODEL ...] [--threads 1] [--variant default]

``arena`` is the arena of one run; ``live`` is the peak of live bytes, its lower bound. A peak is the maximal
anonymous memory of a process that loads the model and runs it once, minus its memory before the engine is
imported (see ``graphwright/tools/measuring/footprint.py``). graphwright is measured twice: with the weights
copied into memory, and with mapped weights. The smallest of three processes counts.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import graphwright as gw
from benchmarks.models import MODELS
from graphwright.runtime.devices.cpu import Cpu
from graphwright.tools.measuring.footprint import measure

Array = np.ndarray[Any, Any]
ROUNDS = 3
HEADER = """\
| model | arena | live | arena / live | copied | mapped | ONNX Runtime | copied / theirs |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""


def row(name: str, variant: str, threads: int, folder: Path) -> str:
    """Measures a model; the line of the table."""
    source, feeds = MODELS[name].path(), MODELS[name].feeds(variant)
    package = folder / f"{name}.om"
    model = gw.compile(str(source))
    model.save(package)
    arena = _arena(model, feeds, threads)
    del model
    copied, mapped, theirs = (
        min(measure(engine, path, feeds, threads, mapped=mapped).increase for _ in range(ROUNDS))
        for engine, path, mapped in (
            ("graphwright", package, False),
            ("graphwright", package, True),
            ("onnxruntime", source, False),
        )
    )
    package.unlink()
    peaks = " | ".join(f"{peak / 2**20:.1f}" for peak in (copied, mapped, theirs))
    return f"| {name} | {arena} | {peaks} | {copied / theirs:.2f} |"


def _arena(model: gw.Model, feeds: Mapping[str, Array], threads: int) -> str:
    """The MiB of the arena and of the peak of live bytes, and their quotient."""
    if not isinstance(model.executor, Cpu):  # compiled for the shapes of each feed
        return "- | - | -"
    used = model.memory({name: array.shape for name, array in feeds.items()}, threads=threads)
    merit = used.arena / used.live if used.live else 1
    return f"{used.arena / 2**20:.2f} | {used.live / 2**20:.2f} | {merit:.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "models", nargs="*", default=list(MODELS), metavar="MODEL", help="all if none is named"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--variant", default="default")
    chosen = parser.parse_args(arguments)
    print(f"MiB, {chosen.threads} thread(s)\n\n{HEADER}")
    with tempfile.TemporaryDirectory(prefix="graphwright-memory-") as folder:
        for name in chosen.models:
            print(row(name, chosen.variant, chosen.threads, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
