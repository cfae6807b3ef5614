"""``graphwright bench``."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from graphwright import _native
from graphwright.config import Options
from graphwright.errors import Collector, FeedError
from graphwright.frontends.onnx import load as load_onnx
from graphwright.ir.arrays import Array
from graphwright.records import dataclass, replace
from graphwright.runtime.model import Model
from graphwright.support.source_names import sources_text
from graphwright.support.units import bytes_text, duration_text
from graphwright.support.whole_file import whole_file
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.arguments import parse_constants, require_folder
from graphwright.tools.check import all_feeds
from graphwright.tools.command_classes import Command
from graphwright.tools.console import note, progress, say, table
from graphwright.tools.flags import FlagGroup, with_options
from graphwright.tools.machine import machine, versions
from graphwright.tools.measuring.bench import Measured, Run, TaskRow, measure, ratio, record, task_times
from graphwright.tools.measuring.engines import ENGINES, ONNX_PEERS, OURS, is_installed
from graphwright.tools.models import is_package
from graphwright.tools.run_flags import RunFlags

_NAME = 100
"""The most characters of the source nodes of a task."""
app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class _RoundFlags(FlagGroup):
    """The flags that say how long to measure."""

    rounds: Annotated[
        int, typer.Option(help="Number of rounds; in each round every engine runs once.", min=1)
    ] = 20
    round_seconds: Annotated[
        float, typer.Option(help="Seconds that each engine runs per round.", min=0.001)
    ] = 0.1


@dataclass(frozen=True)
class _TaskFlags(FlagGroup):
    """The flags that also measure single tasks."""

    per_task: Annotated[bool, typer.Option("--per-task", help="Also show the time of every task.")] = False
    top: Annotated[int, typer.Option(help="Maximum number of tasks that --per-task shows.", min=1)] = 20


@app.command(cls=Command)
@with_options
def bench(
    *,
    model: ModelPath,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ENGINES",
            help=f"Engines to compare with: {', '.join(ONNX_PEERS)}. Repeatable, or a list with commas.",
            show_default=False,
        ),
    ] = None,
    flags: RunFlags,
    symbolic: Annotated[
        bool,
        typer.Option(
            "--symbolic", help="Compile for dynamic dimensions; --shape then applies only to the inputs."
        ),
    ] = False,
    duration: _RoundFlags,
    tasks: _TaskFlags,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="Write the machine, versions and all times to a JSON file.",
            show_default=False,
        ),
    ] = None,
    options: Options,
) -> None:
    """Measure the speed of a model, alone or compared with other engines in the same run.

    Each engine runs in its own process. The engines take turns, round by round, while the others are stopped;
    a ratio is the median of the rounds' ratios, with quartiles. Above 1, graphwright is faster.

    [bold]Examples[/bold]

      graphwright bench model.om
      graphwright bench model.onnx --shape x:1,3,224,224 --threads 2
      graphwright bench model.onnx --against openvino --json result.json
      graphwright bench model.onnx --per-task --top 10
    """
    peers = _peers(against or (), model)
    require_folder(json_file, "--json")
    compiled = (replace(flags, shape=None) if symbolic else flags).open(model, options)
    _refuse_containers(compiled)
    feeds = flags.feeds(compiled)
    theirs = all_feeds(load_onnx(str(model)), feeds, parse_constants(flags.const)) if peers else {}
    options = replace(options, threads=options.threads or _native.cpu_count())
    compiled.run(feeds)  # invalid feeds are reported here, not in another process
    runs = {peer: (model, theirs) for peer in peers}
    results = _measure(compiled, feeds, runs, duration, options)
    _show(results)
    rows = task_times(compiled, feeds, threads=options.threads) if tasks.per_task else []
    if tasks.per_task:
        _show_tasks(rows, tasks.top)
    if json_file is not None:
        facts = record(sys.argv, model, options.threads, feeds, results)
        _write(json_file, {**facts, "tasks": [vars(row) for row in rows]}, peers)


def _write(path: Path, facts: Mapping[str, Any], peers: Sequence[str]) -> None:
    """Writes ``facts`` as JSON, after the machine and the versions of the engines."""
    software = {"machine": machine(), "versions": versions([OURS, "numpy", *peers])}
    with whole_file(path) as file:
        file.write(json.dumps({**software, **facts}, indent=1).encode() + b"\n")


def _refuse_containers(model: Model) -> None:
    """Raises an error for inputs that are not tensors, which cannot be passed to other processes."""
    faults = Collector(FeedError)
    for spec in model.inputs:
        if spec.dtype.element is not None:
            faults.add("feed-dtype", f"input {spec.name!r} is {spec.dtype}: only models of tensors are timed")
    faults.raise_if_any()


def _peers(against: Sequence[str], model: Path) -> list[str]:
    peers = [name.strip() for given in against for name in given.split(",") if name]
    for name in peers:
        if name not in ONNX_PEERS:
            raise typer.BadParameter(
                f"{name!r} is not one of {', '.join(ONNX_PEERS)}", param_hint="--against"
            )
        if not is_installed(name):
            raise typer.BadParameter(
                f"{name} is not installed: pip install {ENGINES[name].package}", param_hint="--against"
            )
    if peers and is_package(model):
        raise typer.BadParameter("other engines read .onnx models, not packages", param_hint="--against")
    return list(dict.fromkeys(peers))


def _measure(
    compiled: Model,
    feeds: Mapping[str, Array],
    peers: Mapping[str, Run],
    duration: _RoundFlags,
    options: Options,
) -> dict[str, Measured]:
    """Measures ``compiled`` on ``feeds``, and each of the ``peers`` on its model and its feeds."""
    with tempfile.TemporaryDirectory() as folder, progress("measuring") as update:
        package = Path(folder) / "model.om"
        compiled.save(package)
        return measure(
            {OURS: (package, feeds), **peers},
            options.threads,
            duration.rounds,
            duration.round_seconds,
            lambda done: update(f"measuring: round {done} of {duration.rounds}"),
            options,
        )


def _show(results: Mapping[str, Measured]) -> None:
    rows = []
    for name, measured in results.items():
        figures = measured.summary()
        times = [duration_text(figures[key]) for key in ("min_ns", "median_ns", "p95_ns")]
        started = [duration_text(seconds * 1e9) for seconds in (measured.load_s, measured.first_s)]
        rate = f"{figures['runs_per_second']:.4g}"
        rows.append([name, measured.version, *times, rate, *started, bytes_text(measured.peak_bytes)])
    table(rows, ["engine", "version", "min", "median", "p95", "runs/s", "load", "first run", "memory"])
    for name, measured in results.items():
        if name != OURS:
            found = ratio(measured, results[OURS])
            say(f"  {name} / {OURS}: {found.median:.2f} ({found.low:.2f} to {found.high:.2f})")
    counters = results[OURS].counters
    if "plans" in counters:
        names = ("plan_hits", "plan_misses", "plan_evictions")
        counted = (f"{name.removeprefix('plan_')} {counters[name]}" for name in names)
        say(f"  plans: kept {counters['plans']}, {', '.join(counted)}")


def _show_tasks(tasks: Sequence[TaskRow], top: int) -> None:
    total = sum(task.median_ns for task in tasks) or 1.0
    rows: list[list[Any]] = [
        [
            str(t.task),
            duration_text(t.median_ns),
            f"{100 * t.median_ns / total:.1f} %",
            t.kernel,
            sources_text(t.name, _NAME),
        ]
        for t in tasks[:top]
    ]
    table(rows, ["task", "median", "share", "kernel", "source nodes"])
    if len(tasks) > top:
        note(f"{len(tasks) - top} faster tasks are not shown: --top {len(tasks)} shows all")
