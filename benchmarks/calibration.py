"""Compares models compiled for the measured rates of this machine with models compiled for the built-in
rates.

    python -m benchmarks.calibration            # light models of the onnx package, convolutions and products
    python -m benchmarks.calibration ppocr_rec  # models of the zoo, cases of single ops

This machine is calibrated first, or with ``--rates FILE`` its rates are read. Both forms run in turns in this
process on one thread; a figure is the median, with quartiles, of the ratio of each round's times: below 1,
the measured rates chose better. Forms with the same kernels are not timed. It writes
``benchmarks/results/calibration/CPU.json``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

import graphwright as gw
from benchmarks import RESULTS
from benchmarks.models import MODELS
from benchmarks.op_cases import CASES
from benchmarks.records import write_record
from graphwright.option_files.rate_files import cpu_model, rates_text
from graphwright.runtime.devices.this_cpu import usable_isas
from graphwright.targets.cpu.isa import ISAS
from graphwright.targets.cpu.rates import Core
from graphwright.targets.cpu.toolchain import find_toolchain
from graphwright.tools.feeds import make_feeds
from graphwright.tools.measuring.bench import paired_ratio
from graphwright.tools.measuring.engines import OURS

ROUNDS = 31
SECONDS = 0.02
"""The length of a turn."""
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
FOLDER: Final = RESULTS / "calibration"
Feeds = Mapping[str, Any]


def sources(names: list[str]) -> dict[str, tuple[Callable[[], Any], Callable[[gw.Model], Feeds]]]:
    """For each name, a function that gives the model, and one that gives its inputs."""
    found: dict[str, tuple[Callable[[], Any], Callable[[gw.Model], Feeds]]] = {}
    for name in names:
        if name in MODELS:
            zoo = MODELS[name]
            found[name] = (zoo.path, partial(_same, zoo.feeds))
        elif name in CASES:
            case = CASES[name]
            found[name] = (case.model, partial(_same, partial(case.arrays, inputs=True)))
        else:
            path = LIGHT / f"{name}.onnx"
            found[name] = (partial(Path, path), lambda model: make_feeds(model.inputs, None, {}))
    return found


def _same(feeds: Callable[[], Feeds], _: gw.Model) -> Feeds:
    return feeds()


def tasks(model: gw.Model) -> list[tuple[str, ...]]:
    """The kernels of the programs of a model, in order."""
    targets = [target for program in model.package.programs() for target in program.targets.values()]
    return [
        tuple(target.task_graph.kernels[t.kernel].symbol for t in target.task_graph.tasks)
        for target in targets
    ]


def main(names: list[str], rates: str) -> None:
    results: dict[str, dict[str, Any]] = {}
    for name, (source, feeds_of) in sources(names).items():
        models = [
            gw.compile(source(), options=gw.CompileOptions(threads=1, calibration=each))
            for each in (rates, "none")
        ]
        measured, table = models
        feeds = feeds_of(measured)
        alike = tasks(measured) == tasks(table)
        if alike:
            print(f"{name:32} the same kernels", flush=True)
            results[name] = {"same": True}
            continue
        times = in_turns([partial(model.run, feeds) for model in models])
        found = paired_ratio(*times)
        results[name] = {"same": False, **vars(found), "table_ns": float(np.median(times[1]))}
        print(f"{name:32} {found.median:.3f} ({found.low:.3f} to {found.high:.3f})", flush=True)
    changed = [each["median"] for each in results.values() if not each["same"]]
    if changed:
        print(f"geometric mean of {len(changed)} that differ: {np.exp(np.mean(np.log(changed))):.3f}")
    file = FOLDER / f"{cpu_model().lower().replace(' ', '_')}.json"
    write_record(file, [OURS, "numpy"], {"rates": json.loads(rates), "models": results})


def in_turns(runs: list[Callable[[], object]]) -> list[list[float]]:
    """Returns the nanoseconds of a run of each, by round; the first one changes from round to round."""
    counts = []
    for run in runs:
        run()
        start = time.perf_counter()
        run()
        counts.append(max(1, int(SECONDS / (time.perf_counter() - start + 1e-9))))
    times: list[list[float]] = [[] for _ in runs]
    for number in range(ROUNDS):
        for k in range(len(runs)) if number % 2 else reversed(range(len(runs))):
            start_ns = time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID)
            for _ in range(counts[k]):
                runs[k]()
            times[k].append((time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID) - start_ns) / counts[k])
    return times


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "models", nargs="*", help="names of the zoo, of cases of single ops, or of light models"
    )
    parser.add_argument("--rates", type=Path, help="a file that graphwright calibrate wrote")
    chosen = parser.parse_args()
    text = (
        chosen.rates.read_text()
        if chosen.rates
        else rates_text(
            cpu_model(), {isa: Core(ISAS[isa], find_toolchain()).rates() for isa in usable_isas()}
        )
    )
    light = sorted(path.stem for path in LIGHT.glob("*.onnx"))
    products = [name for name in CASES if name.startswith(("conv", "matmul", "gemm"))]
    main(chosen.models or [*light, *products], text)
