"""Compares models compiled with ``--tune`` with the same models compiled without it.

    python -m benchmarks.tuning                     # models of the zoo that take seconds to compile
    python -m benchmarks.tuning mobilenet_v2 --seconds 60

Each model is tuned for at most ``--seconds``, with an empty record. Then the tuned and the untuned program
run in turns in this process on one thread, timed by its processor clock (:mod:`benchmarks.fusion.paired`):
the figure is the median of the blocks' ratios, tuned over untuned, with its 98 % interval. Programs of which
nothing was changed are not timed. Of the workloads that were measured it says of how many the predicted way
was kept. It writes ``benchmarks/results/tuning/CPU.json``, where measured models replace those that are
there.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Final

import graphwright as gw
from benchmarks import RESULTS
from benchmarks.calibration import tasks
from benchmarks.fusion.paired import Blocks, estimate
from benchmarks.models import MODELS
from benchmarks.records import write_record
from graphwright.compiler.tuning import STAGE
from graphwright.option_files.rate_files import cpu_model
from graphwright.option_files.tuning_records import Workloads, parsed
from graphwright.tools.measuring.engines import OURS
from graphwright.tuning import store

NAMES: Final = (
    *("mobilenet_v2", "ppocr_cls", "ppocr_rec", "ppocr_det", "resnet50", "bert_base", "light_squeezenet"),
    *("light_shufflenet", "light_inception_v1", "light_densenet121", "vit_b16", "ddddocr_det"),
)
TIMED_SECONDS: Final = 12.0
"""Of the processor, for the figure of one model."""
FOLDER: Final = RESULTS / "tuning"


def measure(name: str, seconds: int, folder: Path) -> dict[str, Any]:
    """Tunes and compares a model of the zoo; ``folder`` gets the tuning record and kernels."""
    model = MODELS[name]
    feeds = model.feeds("default", seed=0)
    shapes = {key: array.shape for key, array in feeds.items()}

    said = [""]

    def observe(stage: str, product: object) -> None:
        said.extend([str(product)] if stage == STAGE else [])

    def compiled(**options: Any) -> gw.Model:
        given = gw.CompileOptions(threads=1, cache_dir=folder, **options)
        return gw.compile(model.path(), shapes=shapes, options=given, observe=observe)

    start = time.perf_counter()
    tuned = compiled(tune=seconds)
    taken = time.perf_counter() - start
    untuned = compiled(tuning="none")
    file = folder / "tuning" / store.FILE
    known = parsed(file.read_text()).workloads if file.exists() else {}
    found: dict[str, Any] = {"seconds": round(taken, 1), "said": said[-1], **summary(known)}
    if tasks(tuned) == tasks(untuned) and not found["changed"]:
        return {**found, "same": True, "ratio": 1.0}
    blocks = Blocks({"before": runs(untuned, feeds), "after": runs(tuned, feeds)})
    times = estimate(blocks, TIMED_SECONDS)
    ratios = {
        key: math.exp(value)
        for key, value in (("ratio", times.median), ("low", times.low), ("high", times.high))
    }
    return {**found, "same": False, **ratios, "blocks": times.blocks, "untuned_ns": blocks.least_ns["before"]}


def runs(model: gw.Model, feeds: Mapping[str, Any]) -> Callable[[int], None]:
    """A function that runs ``model`` a given number of times."""

    def run(count: int) -> None:
        for _ in range(count):
            model.run(feeds)

    return run


def summary(known: Workloads) -> dict[str, Any]:
    """The numbers of workloads and alternatives that were measured; of workloads with an alternative that is
    faster than the predicted one in the whole interval; and of those that were changed.
    """
    measured = {name: each for name, each in known.items() if any(each.times.values())}
    changed = [each for each in measured.values() if each.taken != each.base]
    gains = ((each, each.times[each.taken]) for each in changed)
    return {
        "workloads": len(measured),
        "ways": sum(len([t for t in each.times.values() if t]) for each in measured.values()),
        "faster": sum(any(t and t.high < 1 for t in each.times.values()) for each in measured.values()),
        "changed": len(changed),
        "changes": [f"{each.taken} for {each.base}: {t.median:.3f}" for each, t in gains if t],
    }


def line(name: str, found: Mapping[str, Any]) -> str:
    """The line for the terminal."""
    kept = f"{found['workloads']} workloads, of {found['faster']} a way is faster, {found['changed']} changed"
    ratio = (
        "the same" if found["same"] else f"{found['ratio']:.3f} ({found['low']:.3f} to {found['high']:.3f})"
    )
    return f"{name:20} {ratio:24} {kept}, {found['said']}, {found['seconds']:.0f} s"


def write(made: Mapping[str, Any]) -> None:
    """Put ``made`` into the file of this CPU."""
    file = FOLDER / f"{cpu_model().lower().replace(' ', '_')}.json"
    kept = json.loads(file.read_text())["models"] if file.exists() else {}
    write_record(file, [OURS, "numpy"], {"models": {**kept, **made}})


def main(names: list[str], seconds: int) -> None:
    made: dict[str, Any] = {}
    for name in names or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            made[name] = measure(name, seconds, Path(folder))
        print(line(name, made[name]), flush=True)
        write(made)
    ratios = [each["ratio"] for each in made.values()]
    kept = sum(each["workloads"] - each["changed"] for each in made.values())
    count = sum(each["workloads"] for each in made.values())
    mean = geometric_mean(ratios)
    print(f"geometric mean of {len(ratios)}: {mean:.3f}; {kept} of {count} workloads as predicted")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tuning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="names of the zoo")
    parser.add_argument("--seconds", type=int, default=300, help="most time to tune one model")
    chosen = parser.parse_args()
    main(chosen.models, chosen.seconds)
