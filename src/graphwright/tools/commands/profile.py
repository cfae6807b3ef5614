"""``graphwright profile``."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from graphwright.config import Options
from graphwright.profiling.profile import Profile
from graphwright.records import dataclass
from graphwright.tools.arguments import EntryName, require_folder
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.command_classes import Command
from graphwright.tools.console import note, progress, say
from graphwright.tools.flags import FlagGroup, with_options
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


@dataclass(frozen=True)
class _TableFlags(FlagGroup):
    """The flags that say what the table shows."""

    group: Annotated[Group, typer.Option(help="What a row stands for.")] = Group.KERNEL
    sort: Annotated[Sort, typer.Option(help="The column to sort by, largest first.")] = Sort.SELF
    top: Annotated[int, typer.Option(help="Maximum number of rows.", min=1)] = 30
    as_json: Annotated[bool, typer.Option("--json", help="Print all rows as JSON with stable keys.")] = False


@dataclass(frozen=True)
class _FileFlags(FlagGroup):
    """The flags that write the profile to files."""

    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a trace for https://ui.perfetto.dev.", show_default=False),
    ] = None
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a self-contained HTML page.", show_default=False),
    ] = None

    def require_folders(self) -> None:
        """Raises BadParameter if a file cannot be written."""
        require_folder(self.trace, "--trace")
        require_folder(self.html, "--html")

    def write(self, recorded: Profile, title: str) -> None:
        """Writes the files."""
        if self.trace is not None:
            recorded.chrome_trace(self.trace)
            note(f"wrote {self.trace}")
        if self.html is not None:
            recorded.html(self.html, title=title)
            note(f"wrote {self.html}")


@app.command(cls=Command)
@with_options
def profile(
    *,
    model: ModelPath,
    flags: RunFlags,
    entry: EntryName = None,
    runs: Annotated[int, typer.Option(help="Number of runs, after one warm-up run.", min=1)] = 10,
    shown: _TableFlags,
    files: _FileFlags,
    counters: Annotated[
        bool,
        typer.Option(
            "--counters",
            help="Show cycles, instructions and cache misses, if the machine has these counters.",
        ),
    ] = False,
    options: Options,
) -> None:
    """Show where the time of a run goes: kernels, nodes of the model, or ops.

    Shows GFLOP/s of matrix multiplications and convolutions, GB/s of what tasks read and write, and the
    percentage of the roofline, the least time that the machine's rates allow for both.

    [bold]Examples[/bold]

      graphwright profile model.om
      graphwright profile model.onnx --shape x:1,3,224,224 --threads 1 --runs 100
      graphwright profile model.om --group source --sort roofline --top 10
      graphwright profile model.om --trace trace.json --html profile.html
    """
    files.require_folders()
    opened = entry_of(flags.open(model, options), entry)
    feeds = flags.feeds(opened)
    opened.run(feeds)  # the first run makes plans and allocates memory
    with progress("running"), Profile(counters=counters) as recorded:
        for _ in range(runs):
            opened.run(feeds)
    table = recorded.table(shown.sort.value, shown.group.value, shown.top)
    say(_json(table.facts(), model, runs) if shown.as_json else str(table))
    files.write(recorded, model.name)


def _json(facts: dict[str, Any], model: Path, runs: int) -> str:
    return json.dumps({"format": 1, "model": str(model), "runs": runs, **facts}, indent=2)
