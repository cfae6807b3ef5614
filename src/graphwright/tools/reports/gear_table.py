"""Shows the gears of a model, with the memory and the time that each needs."""

from __future__ import annotations

import time

from graphwright import _native
from graphwright.config import Options
from graphwright.errors import FeedError
from graphwright.executable.nodes import (
    Dispatch,
    Executable,
    HostProgram,
    between_buckets,
    buckets_of,
    programs_of,
)
from graphwright.executable.specs import shapes_text
from graphwright.loading import make_model
from graphwright.records import replace
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.executor import RunError
from graphwright.runtime.model import Model
from graphwright.support.units import bytes_text
from graphwright.tools.console import say, table
from graphwright.tools.feeds import make_feeds

_OTHERS = {
    "error": "are an error",
    "pad": "are padded to the smallest gear that contains them",
    "dynamic": "run on a program for all shapes",
}
_SECONDS = 0.2
"""The seconds for the runs of one gear."""
_FEWEST, _MOST = 3, 200


def show_gears(model: Model, dispatch: Dispatch, *, timed: bool) -> None:
    """Shows a row for each gear: shapes, contents, bytes of its arena and, if ``timed``, milliseconds of its
    fastest run on random inputs. The gears share one arena, which has the size of the largest one.
    """
    gears = [_Gear(model, case) for case in buckets_of(dispatch)]
    measured = [gear.measured(timed) for gear in gears]
    rows = [
        [str(number), shapes_text(gear.executable.inputs), *gear.counts(), *cells]
        for number, (gear, (_, cells)) in enumerate(zip(gears, measured, strict=True))
    ]
    say(f"gears: {len(gears)}; other shapes {_OTHERS[between_buckets(dispatch)]}")
    table(
        rows,
        [
            "gear",
            "shapes",
            "programs",
            "tasks",
            "Python nodes",
            "arena",
            *(["fastest run"] if timed else []),
        ],
    )
    if all(arena is not None for arena, _ in measured):
        say(f"arena, shared by all gears: {bytes_text(max(arena or 0 for arena, _ in measured))}")


class _Gear:
    """One gear of a model on its own."""

    def __init__(self, model: Model, executable: Executable) -> None:
        self.executable = executable
        entry = replace(model.entry, inputs=executable.inputs, executable=executable)
        self._model = make_model(model.entry_package().with_main(entry), None, Options(threads=model.threads))

    def counts(self) -> list[str]:
        """The numbers of programs, tasks and Python nodes."""
        programs = list(programs_of(self.executable))
        targets = [target for program in programs for target in program.targets.values()]
        hosts = self.executable.hosts() if isinstance(self.executable, HostProgram) else []
        return [
            str(len(programs)),
            str(sum(len(target.task_graph.tasks) for target in targets)),
            str(len(hosts)),
        ]

    def measured(self, timed: bool) -> tuple[int | None, list[str]]:
        """The bytes of the arena, None if only a run determines them; and the cells of the row."""
        fastest = [_fastest(self._model)] if timed else []
        arena = self._arena(timed)
        return arena, ["depends on the run" if arena is None else bytes_text(arena), *fastest]

    def _arena(self, has_run: bool) -> int | None:
        executor = self._model.executor
        if isinstance(executor, Cpu):
            shapes = [spec.sizes or () for spec in self.executable.inputs]
            return executor.plan(shapes, self._model.threads or _native.threads())["arena"]
        return self._model.trim() if has_run else None


def _fastest(model: Model) -> str:
    """The milliseconds of the fastest of some runs on random inputs, or the reason why they fail."""
    feeds = make_feeds(model.inputs, None, {})
    try:
        model.run(feeds)
    except (FeedError, RunError) as error:
        return f"random inputs: {error.diagnostics[0].message}"
    best, count, end = float("inf"), 0, time.perf_counter() + _SECONDS
    while count < _FEWEST or (time.perf_counter() < end and count < _MOST):
        start = time.perf_counter()
        model.run(feeds)
        best, count = min(best, time.perf_counter() - start), count + 1
    return f"{best * 1e3:.3f} ms"
