"""``explain --measure``: predicted and measured times of tasks, and the largest merges with their ops run
separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphwright.support.source_names import sources_text
from graphwright.support.units import duration_text
from graphwright.tools.console import note, say, table
from graphwright.tools.measuring.predictions import Measurement, MergeTime

MOST_TASKS: Final = 20
_NAME: Final = 100


def show_measured(found: Measurement) -> None:
    """Prints the tasks, and the merges if any were measured."""
    _show_tasks(found)
    if found.merges:
        say()
        _show_merges(found.merges)


def _show_tasks(found: Measurement) -> None:
    rows = [
        [
            duration_text(task.predicted_ns) if task.predicted_ns else "-",
            duration_text(task.median_ns),
            f"{task.median_ns / task.predicted_ns:.2f}" if task.predicted_ns else "-",
            task.kernel,
            sources_text(task.name, _NAME),
        ]
        for task in found.tasks[:MOST_TASKS]
    ]
    total = found.measured_ns / found.predicted_ns if found.predicted_ns else 1.0
    rows.append(
        [duration_text(found.predicted_ns), duration_text(found.measured_ns), f"{total:.2f}", "all tasks", ""]
    )
    table(rows, ["predicted", "measured", "ratio", "kernel", "source nodes"], "")
    if len(found.tasks) > MOST_TASKS:
        note(
            f"{len(found.tasks) - MOST_TASKS} tasks with smaller differences are not shown: --json lists all"
        )


def _show_merges(merges: Sequence[MergeTime]) -> None:
    rows = [
        [
            duration_text(merge.fused_ns),
            duration_text(merge.apart_ns),
            f"{merge.ratio.median:.2f} ({merge.ratio.low:.2f} to {merge.ratio.high:.2f})",
            " + ".join(merge.nodes),
        ]
        for merge in merges
    ]
    table(rows, ["fused", "one by one", "ratio", "largest merges"], "")
