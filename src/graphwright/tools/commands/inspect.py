"""``graphwright inspect``."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeGuard

import typer

import graphwright.ops
from graphwright.api import compile as compile_model
from graphwright.compiler.recompile import source_module, unpacked_module
from graphwright.config import Options
from graphwright.errors import Diagnostic, FeedError
from graphwright.executable.nodes import Dispatch, Executable, HostProgram, Program, accepts, buckets_of
from graphwright.executable.target_code import TargetCode
from graphwright.ir.text import print_module
from graphwright.ir.verify import verify as verify_module
from graphwright.kernels.library.write import argument_names
from graphwright.loading import make_model
from graphwright.low_ir.text import print_program
from graphwright.package.package import Package
from graphwright.package.read import read_package
from graphwright.package.sign import known_keys
from graphwright.passes.buckets import selected_module
from graphwright.passes.manager import run_passes
from graphwright.passes.unfuse import Unfuse
from graphwright.records import dataclass, replace
from graphwright.runtime.model import Model
from graphwright.targets.cpu.isa import ISAS
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.arguments import Sizes
from graphwright.tools.command_classes import Command
from graphwright.tools.console import say
from graphwright.tools.feeds import input_sizes
from graphwright.tools.flags import FlagGroup, with_options
from graphwright.tools.gear_flags import GearFlags
from graphwright.tools.models import ModelFlags, is_package
from graphwright.tools.reports.gear_table import show_gears
from graphwright.tools.reports.host_program_table import show_host_program
from graphwright.tools.reports.memory_tables import is_sized, show_footprint, show_memory
from graphwright.tools.reports.model_facts import has_all_plugins, model_facts
from graphwright.tools.reports.model_tables import (
    graph_of,
    show_dynamic,
    show_file,
    show_graph,
    show_interface,
    show_target,
    show_traffic,
)

app = typer.Typer(add_completion=False)


class Level(enum.StrEnum):
    """The three IRs."""

    HIGH = "high"
    MID = "mid"
    LOW = "low"


@dataclass(frozen=True)
class _Request(FlagGroup):
    """The flags that say what to show."""

    ir: Annotated[
        Level | None,
        typer.Option(
            help="Print the ops (high), the graph with fused regions (mid), or tasks and loops (low).",
            show_default=False,
        ),
    ] = None
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Also check the digests of a package's weights, and verify its graph."),
    ] = False
    report: Annotated[
        bool, typer.Option("--report", help="Print what the compiler did, what it did not optimize, and why.")
    ] = False
    measured: Annotated[
        bool,
        typer.Option(
            "--measure",
            help=(
                "Load a package, run it once in another process, and show the memory of that process; "
                "measure its gears."
            ),
        ),
    ] = False
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the facts as JSON; keys are stable between versions."),
    ] = False

    def require_one_answer(self) -> None:
        """Raises BadParameter if the flags ask for JSON and for text."""
        if self.as_json and (self.ir is not None or self.report or self.measured):
            raise typer.BadParameter("--json cannot be combined with --ir, --report or --measure")


@app.command(cls=Command)
@with_options
def inspect(
    *,
    model: ModelPath,
    flags: ModelFlags,
    gears: GearFlags,
    request: _Request,
    options: Options,
) -> None:
    """Show a model's inputs, outputs, constraints, ops, weights, tasks and memory.

    The memory is that of one run: the size of the arena, and its lower bound, the most bytes live at once.

    [bold]Examples[/bold]

      graphwright inspect model.om
      graphwright inspect model.om --shape x:1,3,224,224 --threads 2
      graphwright inspect model.om --ir low
      graphwright inspect model.om --report
      graphwright inspect model.om --verify
      graphwright inspect model.om --measure
      graphwright inspect model.om --json
    """
    request.require_one_answer()
    graphwright.ops.load()
    sizes = flags.sizes
    origin = _read(model, request.verify, options) if is_package(model) else None
    opened = flags.open_entry(model, options, gears=gears.requested())
    executable = opened.entry.executable
    if isinstance(executable, Dispatch) and is_sized(opened.entry.inputs, sizes):
        opened = _for_sizes(opened, executable, sizes, options)
    if request.ir is not None:
        say(_ir_text(opened, request.ir))
    elif request.report:
        _show_report(opened)
    elif request.as_json:
        say(json.dumps(_facts(model, origin, opened, sizes, options), indent=2))
    else:
        show_file(model, origin, request.verify)
        _show_model(opened, sizes, options, timed=request.measured)
        if request.measured and not _has_gears(opened.entry.executable):
            show_footprint(model, origin, opened, sizes, options)


def _show_report(model: Model) -> None:
    say(model.report())
    if has_all_plugins(model.package):
        show_traffic(graph_of(model))


def _show_model(model: Model, sizes: Sizes, options: Options, *, timed: bool) -> None:
    """Shows the interface, the graph, the executable and the memory of a run; ``timed`` measures gears."""
    show_interface(model)
    show_dynamic(model.entry)
    spans = show_graph(model)
    executable = model.entry.executable
    if executable is not None and _show_executable(model, executable, timed=timed):
        show_memory(model, sizes, spans, options.threads)


def _show_executable(model: Model, executable: Executable, *, timed: bool) -> bool:
    """Shows the tree of the executable; returns whether the memory of a run still has to be shown."""
    if isinstance(executable, Program):
        for target in executable.targets.values():
            show_target(target)
        return True
    if isinstance(executable, HostProgram):
        show_host_program(executable)
        return True
    if _has_gears(executable):
        show_gears(model, executable, timed=timed)
        return False
    for case in executable.cases:
        if len(executable.cases) > 1:
            say(f"program for {', '.join(f'{spec.name} {spec.type_text}' for spec in case.inputs)}")
        _show_executable(model, case, timed=timed)
    say("other shapes: compiled at the first run")
    return True


def _has_gears(executable: Executable | None) -> TypeGuard[Dispatch]:
    return bool(buckets_of(executable))


def _facts(
    path: Path, origin: Package | None, opened: Model, sizes: Sizes, options: Options
) -> dict[str, Any]:
    """The facts that ``--json`` prints."""

    def memory() -> tuple[Mapping[str, Sequence[int]], int, int] | None:
        if _has_gears(opened.entry.executable) or not is_sized(opened.entry.inputs, sizes):
            return None
        shapes = input_sizes(opened.entry.inputs, sizes)
        used = opened.memory(shapes, threads=options.threads)
        return (shapes, used.arena, used.live) if used.is_known else None

    module = graph_of(opened) if has_all_plugins(opened.package) else None
    facts = model_facts(path, opened, module, memory)
    facts["file"]["trusted"] = None if origin is None else origin.trusted
    return facts


def _read(path: Path, verify: bool, options: Options) -> Package:
    """The package in the file; with ``verify``, all hashes and its graph are checked."""
    keys = known_keys(options)
    package = read_package(path, trust=options.trust, keys=keys, use_mmap=True, verify=verify)
    for name in package.entries if verify else ():
        verify_module(unpacked_module(package.only(name)), str(path))
    return package


def _for_sizes(model: Model, dispatch: Dispatch, sizes: Sizes, options: Options) -> Model:
    """The executable for inputs of these sizes: a case of ``dispatch``, or one that is compiled now."""
    package = model.entry_package()
    shapes = input_sizes(package.main.inputs, sizes, package.main.constraints)
    for case in dispatch.cases:
        if accepts(case, list(shapes.values())) and not case.guards:
            entry = replace(package.main, inputs=case.inputs, outputs=case.outputs, executable=case)
            return make_model(package.with_main(entry), None, options)
    return compile_model(selected_module(source_module(package), shapes), shapes=shapes, options=options)


# -- the IRs --------------------------------------------------------------------------------------------


def _ir_text(model: Model, level: Level) -> str:
    if level is Level.MID:
        return model.entry.graph.rstrip()
    if level is Level.HIGH:
        module = graph_of(model)
        run_passes(module, Unfuse(), verify_each=False)
        return print_module(module, constants="short").rstrip()
    programs = model.entry.programs()
    if not any(program.targets for program in programs):
        message = "the tasks depend on the ranks of the inputs"
        raise FeedError(Diagnostic("unknown-rank", message, hint="give --shape for every input"))
    if len(programs) == 1:
        return "\n".join(map(_target_text, programs[0].targets.values()))
    return "\n".join(
        f"// program {number}\n{_target_text(target)}"
        for number, program in enumerate(programs)
        for target in program.targets.values()
    )


def _target_text(target: TargetCode) -> str:
    loops = "\n".join(text for name, text in target.sources.items() if name.endswith(".loops"))
    names = argument_names(ISAS[target.name]) if target.library else None
    return f"// tasks for {target.name}\n{print_program(target.task_graph, loops, names)}".rstrip()
