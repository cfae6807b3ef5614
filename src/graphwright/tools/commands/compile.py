"""``graphwright compile``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, BinaryIO, Final, TextIO

import typer

import graphwright as gw
from graphwright.config import Options
from graphwright.executable.nodes import Dispatch, HostProgram, buckets_of
from graphwright.package.package import Entry
from graphwright.package.sign import user_key
from graphwright.package.write import write_package
from graphwright.records import dataclass
from graphwright.runtime.model import Model
from graphwright.support.units import bytes_text
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.arguments import States, require_folder, require_new_folder
from graphwright.tools.command_classes import Command
from graphwright.tools.console import note
from graphwright.tools.flags import STANDARD_INPUT, FlagGroup, with_options
from graphwright.tools.gear_flags import GearFlags
from graphwright.tools.models import CompileFlags, is_package
from graphwright.tools.progress import StageTimer, stages
from graphwright.tools.reports.host_program_table import host_program_text

STANDARD_OUTPUT: Final = Path("-")
app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class _OutputFlags(FlagGroup):
    """The flags that say which files are written."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The package to write, - for standard output; default: MODEL.om in this folder.",
            show_default=False,
        ),
    ] = None
    emit_sources: Annotated[
        Path | None,
        typer.Option(
            "--emit-sources",
            metavar="DIR",
            help="Write each generated kernel to this new folder, as a C program that checks and times it; "
            "build.sh builds and runs all of them.",
            show_default=False,
        ),
    ] = None

    def target(self, model: Path, *, prints: bool) -> Path:
        """The path of the package. Raises BadParameter if the files cannot be written; ``prints``: the
        command prints other text to standard output.
        """
        target = self.output or _default_output(model)
        if target == STANDARD_OUTPUT:
            _require_plain_output(prints)
        else:
            require_folder(target, "--output")
            _refuse_same_file(target, model)
        require_new_folder(self.emit_sources, "--emit-sources")
        return target


@dataclass(frozen=True)
class _PassFlags(FlagGroup):
    """The flags that print the graph and the time of passes."""

    print_after: Annotated[
        list[str] | None,
        typer.Option(metavar="PASS", help="Print the graph after this pass. Repeatable.", show_default=False),
    ] = None
    print_after_all: Annotated[
        bool, typer.Option("--print-after-all", help="Print the graph after every pass.")
    ] = False
    time_passes: Annotated[bool, typer.Option("--time-passes", help="Print the time of each stage.")] = False

    @property
    def prints(self) -> bool:
        """Whether anything is printed."""
        return bool(self.print_after) or self.print_after_all or self.time_passes

    def timer(self) -> StageTimer:
        """Observes a compilation, and prints the graph after the requested passes."""
        return StageTimer(["*"] if self.print_after_all else self.print_after or [])


@app.command(cls=Command)
@with_options
def compile(
    *,
    model: ModelPath,
    files: _OutputFlags,
    flags: CompileFlags,
    state: States = None,
    gears: GearFlags,
    passes: _PassFlags,
    options: Options,
) -> None:
    """Compile a model to a package, which runs without a compiler.

    Dimensions without a given size stay dynamic: the package runs every shape that the model allows. Gears
    (shape buckets) are shapes with static programs of their own.

    [bold]Examples[/bold]

      graphwright compile model.onnx -o model.om
      graphwright compile model.onnx -o model.om --shape x:1,3,224,224
      graphwright compile model.onnx -o model.om --shape x:N=1..16,3,64..512%32,?
      graphwright compile model.onnx -o model.om --dynamic-batch 1,2,4,8
      graphwright compile vad.onnx -o vad.om --const sr=16000 --outputs output
      graphwright compile vad.onnx --shape state:2,1,128 --state state=stateN
      graphwright compile - -o - < model.onnx > model.om
      graphwright compile model.pt2 -o model.om
      graphwright compile model.onnx --print-after fuse --time-passes
      graphwright compile model.onnx --shape x:1,3,224,224 --tune 60
      graphwright compile model.onnx --emit-sources kernels
      graphwright compile model.onnx --plugin my_ops.py --plugin my_rules.py
    """
    target = files.target(model, prints=passes.prints)
    if flags.shape and is_package(model):
        message = "a package keeps the sizes that it was compiled for: give the .onnx model"
        raise typer.BadParameter(message, param_hint="--shape")
    key = user_key(options.key_folder, create=True) if is_package(model) else None
    wanted = gears.requested()
    timer = passes.timer()
    with stages(timer) as observe:
        compiled = flags.open(model, options, gears=wanted, states=state, observe=observe)
    timer.warn_unknown()
    if passes.time_passes:
        timer.report_times()
    if files.emit_sources is not None:
        _emit_sources(compiled, files.emit_sources)
    if target == STANDARD_OUTPUT:
        _save(compiled, sys.stdout.buffer, key)
        sys.stdout.buffer.flush()
        return
    _save(compiled, target, key)
    note(f"wrote {target} ({bytes_text(target.stat().st_size)}{_kernels_text(compiled.entry)})")


def _save(compiled: Model, target: Path | BinaryIO, key: bytes | None) -> None:
    """Writes the package. ``key`` signs one that was loaded, even if another key had signed it."""
    if key is None:
        compiled.save(target)
    else:
        write_package(compiled.package, target, key)


def _emit_sources(compiled: Model, folder: Path) -> None:
    files = gw.emit_sources(compiled, folder)
    note(f"wrote {folder} (generated kernels: {len(files) - 1}); sh {files[-1]} builds and runs them")


def _default_output(model: Path) -> Path:
    if model.name == STANDARD_INPUT:
        message = "is required if the model comes from standard input or a pipe, as in -o model.om or -o -"
        raise typer.BadParameter(message, param_hint="--output")
    return Path(f"{model.stem}.om")


def _require_plain_output(prints: bool) -> None:
    """Raises an error for other output on the same stream as the package, and for a terminal."""
    if prints:
        message = "the package goes to standard output, where passes and times would mix with it"
        raise typer.BadParameter(message, param_hint="--output -")
    output: TextIO | None = sys.stdout
    if output is None or output.isatty():
        what = "closed" if output is None else "a terminal"
        raise typer.BadParameter(f"standard output is {what}: redirect it", param_hint="--output -")


def _refuse_same_file(target: Path, model: Path) -> None:
    """Raises an error if the package would replace the model, also through a link."""
    if target.exists() and model.exists() and target.samefile(model):
        message = f"{str(target)!r} is the model itself, which the package would replace"
        raise typer.BadParameter(message, param_hint="--output")


def _kernels_text(entry: Entry) -> str:
    """Describes packages that are not a single program for all shapes."""
    main = entry.executable
    if isinstance(main, HostProgram):
        return f"; {host_program_text(main)}: graphwright inspect shows why"
    if not isinstance(main, Dispatch) or len(main.cases) == 1:
        return ""
    if gears := buckets_of(main):
        return f"; {len(gears)} gears"
    if main.cases:
        return f"; programs for {len(main.cases)} ranks of its inputs"
    return "; it has no kernels, as ranks are known only at the first run: give --shape for each input"
