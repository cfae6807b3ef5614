"""Compares models in bf16 with OpenVINO and Inductor: ``python -m benchmarks.precision [NAME]...
[--inductor]``.

Each model of the zoo is compiled as f32, and with ``precision="bf16"``; OpenVINO computes it with
``INFERENCE_PRECISION_HINT=bf16``, Inductor (with freezing) as a bf16 module. The engines take turns on one
thread; times are milliseconds of processor time, ratios the median of pairs. Errors are those against f32:
the largest over the largest magnitude, and the relative root mean square.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

import graphwright as gw
from benchmarks.models import MODELS
from graphwright.tools.check import distance

NAMES: Final = ("resnet50", "bert_base", "vit_b16")
SECONDS: Final = 20.0
"""Processor time of one model."""
Feeds = Mapping[str, np.ndarray[Any, Any]]
Run = Callable[[Feeds], list[Any]]


def own(path: Path, precision: str) -> Run:
    """Returns a run of graphwright on one thread."""
    model = gw.compile(path, options={"threads": 1, "precision": precision})
    return lambda feeds: list(model.run(dict(feeds)).values())


def openvino(path: Path) -> Run:
    """Returns a run of OpenVINO in bf16."""
    import openvino as ov

    settings = {
        "INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "bf16",
    }  # fmt: skip
    compiled = ov.Core().compile_model(str(path), "CPU", settings)
    return lambda feeds: list(compiled(dict(feeds)).to_tuple())


def inductor(path: Path) -> Run:
    """Returns a run of Inductor with freezing, on the exported program in bf16."""
    import torch
    import torch._inductor.config as config

    config.freezing, config.compile_threads = True, 1
    torch.set_num_threads(1)
    module = torch.export.load(path).module().to(torch.bfloat16)
    compiled = torch.compile(module)

    def run(feeds: Feeds) -> list[Any]:
        tensors = [torch.from_numpy(array) for array in feeds.values()]
        with torch.no_grad():
            made = compiled(*(t.to(torch.bfloat16) if t.is_floating_point() else t for t in tensors))
        results = made if isinstance(made, tuple | list) else [made]
        return [result.float().numpy() for result in results]

    return run


def clocked(run: Run, feeds: Feeds) -> float:
    """Returns the processor time of a run, in milliseconds."""
    start = time.process_time()
    run(feeds)
    return 1e3 * (time.process_time() - start)


def compare(name: str, with_inductor: bool) -> None:
    """Measure one model, and print a line for each engine."""
    model = MODELS[name]
    feeds = model.feeds()
    runs = {
        "f32": own(model.path(), "default"), "bf16": own(model.path(), "bf16"),
        "openvino": openvino(model.path()),
    }  # fmt: skip
    if with_inductor:
        runs["inductor"] = inductor(model.path(".pt2"))
    results = {engine: run(feeds) for engine, run in runs.items()}
    times: dict[str, list[float]] = {engine: [] for engine in runs}
    end = time.process_time() + SECONDS
    while time.process_time() < end:
        for engine, run in runs.items():
            times[engine].append(clocked(run, feeds))
    for engine in runs:
        apart = [distance(a, e) for a, e in zip(results[engine], results["f32"], strict=True)]
        ratio = statistics.median(a / b for a, b in zip(times["bf16"], times[engine], strict=True))
        print(
            f"{name:10} {engine:9} {min(times[engine]):7.1f} ms, bf16 takes {ratio:.3f} of it; error "
            f"{max(d.most for d in apart):.1e}, rms {max(d.rms for d in apart):.1e}",
            flush=True,
        )


def main() -> None:
    """Compare the models that were named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--inductor", action="store_true", help="Inductor as well, which takes minutes")
    given = parser.parse_args()
    for name in given.names:
        compare(name, given.inductor)


if __name__ == "__main__":
    main()
