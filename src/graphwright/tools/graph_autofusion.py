"""The command ``graph-autofusion``: a fused model for engines that run ONNX."""

from __future__ import annotations

import enum
import functools
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperCommand

from graphwright.autofusion.autofuse import Autofused, autofuse
from graphwright.autofusion.onnxruntime.bare_model import without_weights
from graphwright.autofusion.onnxruntime.operator_library import Library
from graphwright.autofusion.standalone import Standalone, library_name
from graphwright.config import Options
from graphwright.errors import Diagnostic, OptionError
from graphwright.export.onnx import FusedFunction, fused_functions
from graphwright.export.onnx.save import stage_model
from graphwright.records import replace
from graphwright.support.file_kinds import file_id
from graphwright.support.spelling import listed
from graphwright.support.whole_file import whole_file
from graphwright.support.whole_folder import whole_folder
from graphwright.tools.arguments import (
    Seed,
    Shapes,
    Sizes,
    parse_shapes,
    require_folder,
    require_new_folder,
)
from graphwright.tools.console import bytes_text, note, progress, say, table
from graphwright.tools.ending import end_with
from graphwright.tools.feeds import make_feeds
from graphwright.tools.flags import STANDARD_INPUT, with_options_of
from graphwright.tools.machine import versions
from graphwright.tools.measuring.bench import Ratio
from graphwright.tools.measuring.engines import LIBRARY, is_installed
from graphwright.tools.measuring.library_measurement import measure_programs, ratio_text, slower_programs

SHOWN: Final = 8
"""The most operators and functions that are listed."""


class Weights(enum.Enum):
    """Which weights are written."""

    ORIGINAL = "original"
    PACKED = "packed"


class Command(TyperCommand):
    """Turns errors into messages and exit codes."""

    def main(self, *arguments: Any, **settings: Any) -> NoReturn:
        end_with(lambda: super(Command, self).main(*arguments, **settings))


def show_version(wanted: bool) -> None:
    """Show the version and end, if that is ``wanted``."""
    if wanted:
        say(versions(["graphwright"])["graphwright"])
        raise typer.Exit()


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command(cls=Command, no_args_is_help=True)
@with_options_of(
    "plugins", "no_autoload", "external_data", "isa", "fusion_rules", "opt_level", "threads", "debug"
)
def fuse(
    model: Annotated[
        Path,
        typer.Option("--input", "-i", help="The ONNX model; - reads standard input.", show_default=False),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The ONNX model to write; default: MODEL_fused.onnx in this folder.",
            show_default=False,
        ),
    ] = None,
    inline: Annotated[
        bool,
        typer.Option(
            "--inline", help="Write the nodes of fused operators instead of functions, for OpenVINO."
        ),
    ] = False,
    library: Annotated[
        bool,
        typer.Option(
            "--library",
            help="Also write OUTPUT.so: operators for ONNX Runtime's register_custom_ops_library.",
        ),
    ] = False,
    standalone: Annotated[
        bool,
        typer.Option(
            "--standalone",
            help="Also write libOUTPUT.so next to OUTPUT: a library that runs the whole model by itself, for "
            "programs in C and C++.",
        ),
    ] = False,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help=(
                "Run the model in ONNX Runtime with and without each program of the library, and leave "
                "the slower ones to ONNX Runtime. Implies --library."
            ),
        ),
    ] = False,
    shape: Shapes = None,
    seed: Seed = 0,
    emit_sources: Annotated[
        Path | None,
        typer.Option(
            "--emit-sources",
            metavar="DIR",
            help="Write the C sources of the library to this folder, and build.sh, which compiles them. "
            "Implies --library.",
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        Weights,
        typer.Option(
            "--weights",
            help="original: the model has its weights, in OUTPUT.data with --library. packed: only the "
            "library has them, and the model does not run without it; implies --library.",
        ),
    ] = Weights.ORIGINAL,
    redo: Annotated[
        bool,
        typer.Option(
            "--redo", help="Inline the functions of a model that was fused before, and fuse it again."
        ),
    ] = False,
    external_weights: Annotated[
        bool,
        typer.Option("--external-weights", help="Write weights to OUTPUT.data, even if they fit in OUTPUT."),
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
    *,
    options: Options,
) -> None:
    """Fuse the operators of an ONNX model, and write an ONNX model that every engine can run.

    \b
    [bold]Examples[/bold]

    \b
      graph-autofusion --input model.onnx --output model_fused.onnx
      graph-autofusion -i model.onnx -o for_openvino.onnx --inline
      graph-autofusion -i model.onnx -o fused.onnx --library
      graph-autofusion -i model.onnx -o fused.onnx --library --measure --shape x:1,3,224,224
      graph-autofusion -i model.onnx -o fused.onnx --standalone

    Fused operators are functions in the model, of the domain graphwright.fused, named after their operators.
    """
    if output is None and model.name == STANDARD_INPUT:
        raise typer.BadParameter("is required if the model comes from standard input", param_hint="--output")
    target = output or Path(f"{model.stem}_fused.onnx")
    library = library or measure or emit_sources is not None or weights is Weights.PACKED
    if library and inline:
        raise typer.BadParameter(
            "the library implements the functions of the model, and with --inline there are none",
            param_hint="--inline",
        )
    if weights is Weights.PACKED and external_weights:
        raise typer.BadParameter(
            "packed weights are in the library, and not in OUTPUT.data", param_hint="--external-weights"
        )
    if measure and not is_installed(LIBRARY):
        raise typer.BadParameter("needs ONNX Runtime: pip install onnxruntime", param_hint="--measure")
    require_folder(target, "--output")
    require_new_folder(emit_sources, "--emit-sources")
    if target.exists() and model.exists() and target.samefile(model):
        raise typer.BadParameter("it is the input itself: name another file", param_hint="--output")
    fuse_leaving = functools.partial(
        autofuse,
        model,
        options=options,
        inline=inline,
        redo=redo,
        library=library,
        version=versions(["graphwright"])["graphwright"],
    )
    with progress(f"fusing {model}") as update:
        fused = fuse_leaving(standalone=standalone)
        ratios = _measure(fused, parse_shapes(shape), seed, options, update) if measure else {}
        if slower := slower_programs(ratios):
            fused = replace(fuse_leaving(left=slower), standalone=fused.standalone)
        serves = fused.operator_library is not None and bool(fused.operator_library.operators)
        model_, operators = fused.model, fused.operator_library
        if weights is Weights.PACKED and operators is not None:
            model_, operators = without_weights(model_, operators)
        alone = target.with_name(library_name(target.stem))
        _refuse_sources(fused, target, alone)
        beside = external_weights or (serves and weights is Weights.ORIGINAL)
        with ExitStack() as stack:  # all files or none
            files, sources = stage_model(stack, model_, target, external=beside), {}
            if serves and operators is not None:
                files.append(_stage_library(stack, operators, target.with_name(f"{target.name}.so")))
                if emit_sources is not None:
                    sources = operators.sources(options)
                    stack.enter_context(whole_folder(emit_sources, sources))
            if fused.standalone is not None:
                files.append(_stage_library(stack, fused.standalone, alone))
    _report(fused, ratios)
    for file in files:
        note(f"wrote {file} ({bytes_text(file.stat().st_size)})")
    if sources:
        note(f"wrote {emit_sources} (files: {len(sources)}); sh {emit_sources}/build.sh builds the library")


def _measure(
    fused: Autofused, shapes: Sizes, seed: int, options: Options, progress: Callable[[str], None]
) -> dict[str, Ratio]:
    """Measures each program of the library against the nodes of ONNX Runtime."""
    if fused.operator_library is None or not fused.operator_library.operators:
        return {}
    feeds = make_feeds(fused.inputs, None, shapes, seed)
    return measure_programs(fused.model, fused.operator_library, feeds, options.threads, progress)


def _refuse_sources(fused: Autofused, model: Path, alone: Path) -> None:
    """Raises an error if the output would replace a file with weights of the source model."""
    for path in (model, *(model.with_name(f"{model.name}.{suffix}") for suffix in ("data", "so")), alone):
        with suppress(OSError):
            if file_id(os.stat(path)) in fused.read:
                message = "the model was read from this file, which the output would replace"
                raise OptionError(Diagnostic("source-file", message, str(path), "name another --output"))


def _stage_library(stack: ExitStack, library: Library | Standalone, path: Path) -> Path:
    """Writes ``library``; the file is moved to ``path`` when ``stack`` ends."""
    file = stack.enter_context(whole_file(path))
    library.write(file)
    file.flush()
    return path


def _report(fused: Autofused, ratios: Mapping[str, Ratio]) -> None:
    """Prints a report to stdout. ``ratios`` are the measured times of programs relative to ONNX Runtime."""
    before, after = fused.before, fused.after
    saved = before.activation_bytes - after.activation_bytes
    percent = f"{100 * saved / max(before.activation_bytes, 1):.0f} %"
    moved = f"{bytes_text(before.activation_bytes)} -> {bytes_text(after.activation_bytes)}"
    rows = [
        ("operators", _counts(fused.operators)),
        *([("kept", _counts(fused.foreign))] if fused.foreign else []),
        ("candidates", f"{fused.candidates} merges of two neighbours, {fused.merges} made"),
        ("fused", f"{fused.fused_nodes} nodes into {fused.regions}"),
        ("launches", f"{before.launches} -> {after.launches}"),
        ("bytes moved", f"{moved}, {percent} less, excluding weights"),
        ("benefit", f"up to {fused.benefit_ms:.2f} ms a run, if memory traffic and launches limit its speed"),
    ]
    table(rows, indent="")
    if fused.open_sizes:
        say(f"Dynamic dimensions are estimated as {listed(list(fused.open_sizes))}.")
    functions = fused_functions(fused.model.proto)
    if functions and fused.operator_library is None:
        say()
        rows_of = [(each.name, str(each.nodes), str(each.calls)) for each in functions[:SHOWN]]
        table(rows_of, ("function", "nodes", "calls"), "")
    if fused.likely_sizes:
        say(f"One program runs the whole model where sizes fit: {listed(fused.likely_sizes)}.")
    if fused.standalone is not None and fused.standalone.assumed:
        say(f"The standalone library runs inputs with {listed(fused.standalone.assumed)}, and no others.")
    if fused.operator_library is not None:
        _report_library(fused.operator_library, fused.outside, functions, ratios)


def _report_library(
    library: Library,
    outside: Mapping[str, str],
    functions: Sequence[FusedFunction],
    ratios: Mapping[str, Ratio],
) -> None:
    """Prints which parts of the model the library runs, and why it does not run the others."""
    nodes = {each.name: each.nodes for each in functions}
    count = len(library.operators) + len(library.refused)
    say(f"The library serves {len(library.operators)} of {count} programs.")
    rows = [(each.name, str(nodes[each.name]), _served_text(each.name, ratios)) for each in library.operators]
    rows += [(name, str(nodes[name]), why) for name, why in library.refused.items()]
    rows += [(f"operator {name}", "", f"left to ONNX Runtime: {why}") for name, why in outside.items()]
    if rows:
        say()
        table(rows, ("function", "nodes", "library"), "")


def _served_text(name: str, ratios: Mapping[str, Ratio]) -> str:
    measured = f": the model takes {ratio_text(ratios[name])} of the time with it" if name in ratios else ""
    return f"served{measured}"


def _counts(operators: Counter[str]) -> str:
    """``Conv 40, Mul 30, 9 more``."""
    common = [f"{name} {count}" for name, count in operators.most_common(SHOWN)]
    others = len(operators) - len(common)
    return ", ".join([*common, *([f"{others} more"] if others else [])])
