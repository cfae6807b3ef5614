"""Compares predicted and measured times of tasks, by kernel family: ``python -m benchmarks.cost MODEL...``.

The prediction is the ``work`` of a launch at the shapes of the run: nanoseconds of one core. The measured
time is the least of some traced runs on one thread. An error is max(predicted, measured) /
min(predicted, measured). ``all`` takes the models that are in the cache, ``ops`` the cases of single ops.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

import graphwright as gw
from benchmarks.models import MODELS
from benchmarks.op_cases import CASES
from graphwright.executable.nodes import programs_of
from graphwright.low_ir.tasks import TaskKind
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.events.task_calls import record_tasks

RUNS = 7
LEAST_NS = 2000
"""Shorter tasks are left out: the clock and the cache's state decide their time."""
GENERATED = "generated"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Timed:
    """A task that ran: the time that was predicted and the one that was measured, in nanoseconds."""

    source: str
    node: str
    symbol: str
    family: str
    predicted: int
    measured: int

    @property
    def error(self) -> float:
        """The factor by which the prediction is too high or too low."""
        least, most = sorted((max(self.predicted, 1), max(self.measured, 1)))
        return most / least


def main(names: Sequence[str], isa: str | None, tasks: bool) -> None:
    """Print a table of families: tasks, share of the measured time, median error, bias."""
    found: dict[str, list[Timed]] = defaultdict(list)
    for name in names:
        for timed in timed_tasks(name, isa):
            found[timed.family].append(timed)
            if tasks:
                print(f"{timed.predicted:10} {timed.measured:10}  {timed.symbol:40} {name}: {timed.node}")
    total = sum(timed.measured for group in found.values() for timed in group)
    print(f"{'family':24} {'tasks':>6} {'share':>7} {'median error':>13} {'median bias':>12}")
    for family, group in sorted(found.items(), key=lambda item: -sum(t.measured for t in item[1])):
        print(_line(family, group, total))
    print(_line("all", [timed for group in found.values() for timed in group], total))


def _line(family: str, group: Sequence[Timed], total: int) -> str:
    share = sum(timed.measured for timed in group) / total
    error = median(timed.error for timed in group)
    bias = median(timed.predicted / timed.measured for timed in group)
    return f"{family:24} {len(group):6} {share:7.1%} {error:13.2f} {bias:12.2f}"


def timed_tasks(name: str, isa: str | None = None) -> Iterator[Timed]:
    """The tasks of a model or a case of one op that take long enough to be measured."""
    model, feeds = _model(name, isa)
    if not isinstance(model.executor, Cpu):
        return
    arrays = [np.asarray(feeds[spec.name], order="C") for spec in model.inputs]
    registers = model.executor.plan([array.shape for array in arrays], 1)["registers"]
    least: dict[int, int] = {}
    for _ in range(RUNS):
        for event in record_tasks(lambda: model.executor.run(arrays, None, 1))[1]:
            taken = event.end - event.start
            least[event.task] = min(least.get(event.task, taken), taken)
    assert model.entry.executable is not None
    (program,) = programs_of(model.entry.executable)
    (target,) = program.targets.values()
    for number, task in enumerate(target.task_graph.tasks):
        if task.kind is not TaskKind.LAUNCH or least.get(number, 0) < LEAST_NS:
            continue
        kernel = target.task_graph.kernels[task.kernel]
        family = GENERATED if kernel.module else family_of(kernel.symbol)
        yield Timed(name, task.name, kernel.symbol, family, registers[task.work], least[number])


def _model(name: str, isa: str | None) -> tuple[gw.Model, Mapping[str, Array]]:
    options = gw.CompileOptions(threads=1) if isa is None else gw.CompileOptions(threads=1, isa=isa)
    if name in MODELS:
        return gw.compile(MODELS[name].path(), options=options), MODELS[name].feeds("default", seed=0)
    return gw.compile(CASES[name].model(), options=options), CASES[name].arrays(inputs=True)


def family_of(symbol: str) -> str:
    """The family of a kernel: ``direct`` for ``gw_direct_planar_f32``."""
    return re.sub(r"_(f32|f64|u8|i8|i32|planar|packed|rows|[a-z]*\d+)+$", "", symbol.removeprefix("gw_"))


def names_of(given: Sequence[str]) -> list[str]:
    """The names in ``given``, with ``all`` and ``ops`` expanded."""
    groups = {"all": [name for name, zoo in MODELS.items() if zoo.cached_file().exists()], "ops": list(CASES)}
    return [name for each in given for name in groups.get(each, [each])]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", choices=[*MODELS, *CASES, "all", "ops"], metavar="MODEL")
    parser.add_argument("--isa", help="compile for this one")
    parser.add_argument("--tasks", action="store_true", help="print each task as well")
    chosen = parser.parse_args()
    main(names_of(chosen.models), chosen.isa, chosen.tasks)
