"""``graphwright profile``."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from graphwright.config import Options
from graphwright.profiling.profile import Profile
from graphwright.tools.arguments import EntryName, require_folder
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.console import note, progress, say
from graphwright.tools.flags import with_options
from graphwright.tools.models import entry_of
from graphwright.tools.run_flags import RunFlags

app = typer.Typer(add_completion=False)


class Group(enum.StrEnum):
    """The kind of rows of the table."""

    KERNEL = "kernel"
    SOURCE = "source"
    OP = "op"


class Sort(enum.StrEnum):
    """The columns by which rows can be sorted."""

    SELF = "self"
    TOTAL = "total"
    CALLS = "calls"
    NAME = "name"
    OPERATIONS = "operations"
    BYTES = "bytes"
    ROOFLINE = "roofline"


@app.command()
@with_options
def profile(
    *,
    model: ModelPath,
    flags: RunFlags,
    entry: EntryName = None,
    runs: Annotated[int, typer.Option(help="Number of runs, after one warm-up run.", min=1)] = 10,
    group: Annotated[Group, typer.Option(help="What a row stands for.")] = Group.KERNEL,
    sort: Annotated[Sort, typer.Option(help="The column to sort by, largest first.")] = Sort.SELF,
    top: Annotated[int, typer.Option(help="Maximum number of rows.", min=1)] = 30,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a trace for https://ui.perfetto.dev.", show_default=False),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a self-contained HTML page.", show_default=False),
    ] = None,
    counters: Annotated[
        bool,
        typer.Option(
            "--counters",
            help="Show cycles, instructions and cache misses, if the machine has these counters.",
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print all rows as JSON with stable keys."),
    ] = False,
    options: Options,
) -> None:
    """Show where the time of a run goes: kernels, nodes of the model, or ops.

    Shows GFLOP/s of matrix multiplications and convolutions, GB/s of what tasks read and write, and the
    percentage of the roofline, the least time that the machine's rates allow for both.

    \b
    [bold]Examples[/bold]

    \b
      graphwright profile model.om
      graphwright profile model.onnx --shape x:1,3,224,224 --threads 1 --runs 100
      graphwright profile model.om --group source --sort roofline --top 10
      graphwright profile model.om --trace trace.json --html profile.html
    """
    require_folder(trace, "--trace")
    require_folder(html, "--html")
    opened = entry_of(flags.open(model, options), entry)
    feeds = flags.feeds(opened)
    opened.run(feeds)  # the first run makes plans and allocates memory
    with progress("running"), Profile(counters=counters) as recorded:
        for _ in range(runs):
            opened.run(feeds)
    table = recorded.table(sort.value, group.value, top)
    say(_json(table.facts(), model, runs) if as_json else str(table))
    if trace is not None:
        recorded.chrome_trace(trace)
        note(f"wrote {trace}")
    if html is not None:
        recorded.html(html, title=model.name)
        note(f"wrote {html}")


def _json(facts: dict[str, Any], model: Path, runs: int) -> str:
    return json.dumps({"format": 1, "model": str(model), "runs": runs, **facts}, indent=2)
