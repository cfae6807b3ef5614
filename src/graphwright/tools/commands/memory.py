"""``graphwright memory``."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import graphwright.ops
from graphwright.config import Options, to_environment
from graphwright.executable.nodes import host_programs_of
from graphwright.ir.sizes import SizeRange
from graphwright.package.write import write_package
from graphwright.records import dataclass
from graphwright.runtime.memory_use import Memory, ProgramMemory
from graphwright.runtime.model import Model
from graphwright.support.units import bytes_text
from graphwright.support.whole_file import whole_file
from graphwright.tools.arguments import AsJson, Sizes, require_folder
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.command_classes import Command
from graphwright.tools.console import note, paragraph, say, table
from graphwright.tools.feeds import input_sizes, make_feeds
from graphwright.tools.flags import FlagGroup, with_options
from graphwright.tools.measuring.footprint import Footprint, measure
from graphwright.tools.models import ModelFlags
from graphwright.tools.reports.memory_advice import Advice, advice_for, short_sources
from graphwright.tools.reports.memory_html import page
from graphwright.tools.reports.memory_tables import feed_shapes_text, is_sized, totals

MOST_BUFFERS: Final = 8
"""The most buffers that are shown for the peak."""
app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class _Request(FlagGroup):
    """The flags that say what to show, and where it goes."""

    measured: Annotated[
        bool,
        typer.Option(
            "--measure",
            help=(
                "Load the package, run it once in another process, and compare the memory of that "
                "process with the prediction."
            ),
        ),
    ] = False
    as_json: AsJson = False
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw the arena over time in one self-contained HTML file.",
            show_default=False,
        ),
    ] = None

    def require_one_answer(self) -> None:
        """Raises BadParameter if the flags contradict each other, or the file cannot be written."""
        if self.as_json and self.html is not None:
            raise typer.BadParameter("use only one of --json and --html")
        require_folder(self.html, "--html")


@app.command(cls=Command)
@with_options
def memory(
    *,
    model: ModelPath,
    flags: ModelFlags,
    request: _Request,
    options: Options,
) -> None:
    """Show the memory used by a model and a run: weights, arena, scratch, plans, and the peak.

    Nothing runs without --measure. --shape sets dynamic dimensions; a range counts as its maximum.

    [bold]Examples[/bold]

      graphwright memory model.om --shape x:1,3,224,224
      graphwright memory model.onnx --shape x:1,3,224,224 --threads 1
      graphwright memory model.om --shape x:1,3,224,224 --measure
      graphwright memory model.om --shape x:1,3,224,224 --json
      graphwright memory model.om --shape x:1,3,224,224 --html arena.html
    """
    request.require_one_answer()
    graphwright.ops.load()
    opened = flags.open_entry(model, options)
    sizes = _largest(flags.sizes)
    shapes = _known_shapes(opened, sizes)
    used = opened.memory(shapes, threads=options.threads)
    found = _measured(opened, sizes, options) if request.measured else None
    advice = advice_for(opened, used, shapes)
    if request.as_json:
        say(json.dumps({**used.facts(), **_measured_facts(found)}, indent=2))
        return
    taken = None if found is None else found.increase
    _show(used, taken, advice)
    if request.html is not None:
        with whole_file(request.html) as file:
            file.write(page(model.name, used, advice, taken).encode())
        note(f"wrote {request.html}")


def _largest(sizes: Sizes) -> Sizes:
    """``sizes`` with the upper bound in place of each range that has one."""
    return {
        name: [
            size if not isinstance(size, SizeRange) or size.largest is None else size.largest
            for size in shape
        ]
        for name, shape in sizes.items()
    }


def _known_shapes(model: Model, sizes: Sizes) -> dict[str, tuple[int, ...]] | None:
    """The shapes of all inputs; None if there are dynamic dimensions and no shape is given."""
    inputs = model.entry.inputs
    return input_sizes(inputs, sizes, model.entry.constraints) if sizes or is_sized(inputs, sizes) else None


# -- measured


def _measured(model: Model, sizes: Sizes, options: Options) -> Footprint:
    """The memory of a process that loads a package of the model and runs it once, as the operating system
    counts it.
    """
    feeds = make_feeds(model.inputs, None, sizes)
    with tempfile.TemporaryDirectory(prefix="graphwright-") as folder:
        path = Path(folder) / "model.om"
        write_package(model.entry_package(), path, None)
        return measure(
            "graphwright",
            path,
            feeds,
            options.threads,
            imported="ops" if _runs_in_python(model) else "runtime",
            environment=to_environment(options),
        )


def _runs_in_python(model: Model) -> bool:
    """Whether Python runs nodes, or passes values between several programs."""
    executable = model.entry.executable
    if executable is None or any(host_programs_of(executable)):
        return True
    targets = (target for program in model.entry.programs() for target in program.targets.values())
    return any(target.stored.hosts for target in targets)


def _measured_facts(found: Footprint | None) -> dict[str, Any]:
    return {"measured": None if found is None else found.increase}


# -- as text


def _show(used: Memory, measured: int | None, advice: Sequence[Advice]) -> None:
    known = [program for program in used.programs if program.timeline is not None]
    rows = [[title, bytes_text(size), what] for title, size, what in totals(used, measured)]
    table(rows, ["", "bytes", ""])
    if len(used.programs) > 1:
        say("programs")
        table([_program_row(program) for program in used.programs], ["program", "shapes", "arena", "live"])
    if len(known) < len(used.programs):
        say("dynamic dimensions: --shape sets those of inputs; data-dependent ones are known only in a run")
    if known:
        _show_peak(max(known, key=lambda program: program.arena))
    if advice:
        say("what would lower it")
        table([[each.text, each.effect] for each in advice])
    say("not counted:")
    for each in used.not_counted:
        say(paragraph(f"  {each}"))


def _program_row(program: ProgramMemory) -> list[str]:
    if program.timeline is None or program.shapes is None:
        return [program.name, "known only in a run", "-", "-"]
    return [
        program.name,
        feed_shapes_text(program.shapes),
        bytes_text(program.arena),
        bytes_text(program.live),
    ]


def _show_peak(program: ProgramMemory) -> None:
    line = program.timeline
    if line is None or not line.at_peak:
        return
    named = f" of {program.name}" if program.name else ""
    task = short_sources([line.tasks[line.peak]])
    say(f"live at the peak{named}: task {line.peak} of {len(line.tasks)}, {task}")
    rows = [
        [
            bytes_text(buffer.bytes),
            str(buffer.offset),
            f"{buffer.first} to {buffer.last}",
            short_sources([buffer.title]),
            short_sources(buffer.nodes),
        ]
        for buffer in line.at_peak[:MOST_BUFFERS]
    ]
    table(rows, ["bytes", "offset", "tasks", "value", "made by"])
    if len(line.at_peak) > MOST_BUFFERS:
        say(f"  and {len(line.at_peak) - MOST_BUFFERS} more")
