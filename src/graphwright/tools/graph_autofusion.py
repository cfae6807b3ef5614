"""The command ``graph-autofusion``: a fused model for engines that run ONNX."""

from __future__ import annotations

import enum
import os
import shlex
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from graphwright.autofusion.autofuse import Autofused, Request, autofuse
from graphwright.autofusion.onnxruntime.bare_model import without_weights
from graphwright.autofusion.onnxruntime.operator_library import Library
from graphwright.autofusion.standalone import Standalone, library_name
from graphwright.config import Options
from graphwright.errors import Diagnostic, OptionError
from graphwright.export.onnx.save import stage_model
from graphwright.records import dataclass, replace
from graphwright.support.file_kinds import file_id
from graphwright.support.units import bytes_text
from graphwright.support.whole_file import whole_file
from graphwright.support.whole_folder import whole_folder
from graphwright.targets.cpu.toolchain import BUILD_SCRIPT
from graphwright.tools.arguments import (
    Sizes,
    Version,
    flag,
    parse_shapes,
    require_folder,
    require_new_folder,
)
from graphwright.tools.command_classes import Command
from graphwright.tools.console import note, progress
from graphwright.tools.exit_status import end_with
from graphwright.tools.feeds import make_feeds
from graphwright.tools.flags import STANDARD_INPUT, FlagGroup, with_options_of
from graphwright.tools.machine import versions
from graphwright.tools.measuring.bench import Ratio
from graphwright.tools.measuring.engines import LIBRARY, is_installed
from graphwright.tools.measuring.library_measurement import measure_programs, slower_programs
from graphwright.tools.reports.autofusion import show_fused


class Weights(enum.Enum):
    """The weights that are written."""

    ORIGINAL = "original"
    PACKED = "packed"


@dataclass(frozen=True)
class OutputFlags(FlagGroup):
    """The flags that say which files are written."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The ONNX model to write; default: MODEL_fused.onnx in this folder.",
            show_default=False,
        ),
    ] = None
    inline: Annotated[
        bool,
        typer.Option(
            "--inline", help="Write the nodes of fused operators instead of functions, for OpenVINO."
        ),
    ] = False
    library: Annotated[
        bool,
        typer.Option(
            "--library",
            help="Also write OUTPUT.so: operators for ONNX Runtime, with code for AVX2 and AVX-512; --isa v3 "
            "or v4 writes one of them.",
        ),
    ] = False
    standalone: Annotated[
        bool,
        typer.Option(
            "--standalone",
            help="Also write libOUTPUT.so next to OUTPUT: a library that runs the whole model by itself, for "
            "programs in C and C++.",
        ),
    ] = False
    emit_sources: Annotated[
        Path | None,
        typer.Option(
            "--emit-sources",
            metavar="DIR",
            help="Write the C sources of the library to this folder, and build.sh, which compiles them. "
            "Implies --library.",
            show_default=False,
        ),
    ] = None
    weights: Annotated[
        Weights,
        typer.Option(
            "--weights",
            help="original: the weights are in OUTPUT, with --library in OUTPUT.data. packed: only the "
            "library has them, and the model does not run without it; implies --library.",
        ),
    ] = Weights.ORIGINAL
    external_weights: Annotated[
        bool,
        typer.Option("--external-weights", help="Write weights to OUTPUT.data, even if they fit in OUTPUT."),
    ] = False

    @property
    def has_library(self) -> bool:
        """Whether the library for ONNX Runtime is wanted, also by a flag that implies it."""
        return self.library or self.emit_sources is not None or self.weights is Weights.PACKED

    def target(self, model: Path) -> Path:
        """The path of the ONNX model to write. Raises BadParameter if flags contradict each other, or a path
        cannot be written.
        """
        if self.output is None and model.name == STANDARD_INPUT:
            message = "is required if the model comes from standard input"
            raise typer.BadParameter(message, param_hint="--output")
        if self.output == Path("-"):
            raise typer.BadParameter("models are not written to standard output", param_hint="--output -")
        if self.has_library and self.inline:
            message = "the library implements the functions of the model, and with --inline there are none"
            raise typer.BadParameter(message, param_hint="--inline")
        if self.weights is Weights.PACKED and self.external_weights:
            message = "packed weights are in the library, and not in OUTPUT.data"
            raise typer.BadParameter(message, param_hint="--external-weights")
        target = self.output or Path(f"{model.stem}_fused.onnx")
        require_folder(target, "--output")
        require_new_folder(self.emit_sources, "--emit-sources")
        if target.exists() and model.exists() and target.samefile(model):
            raise typer.BadParameter("it is the input itself: name another file", param_hint="--output")
        return target


@dataclass(frozen=True)
class MeasureFlags(FlagGroup):
    """The flags that measure the programs of the library."""

    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help=(
                "Run the model in ONNX Runtime with and without each program of the library, and leave "
                "the slower ones to ONNX Runtime. Implies --library."
            ),
        ),
    ] = False
    shape: Annotated[
        list[str] | None,
        flag("--shape", "NAME:SIZES", "Sizes of an input for --measure, as in x:1,3,224,224. Repeatable."),
    ] = None
    seed: Annotated[int, typer.Option(help="Seed of the random inputs of --measure.", min=0)] = 0

    @property
    def sizes(self) -> Sizes:
        """The sizes of --shape."""
        return parse_shapes(self.shape)

    def require_engine(self) -> None:
        """Raises BadParameter for --shape without --measure, and for --measure without ONNX Runtime."""
        if self.sizes and not self.measure:
            message = "gives the sizes for --measure, and has no effect without it"
            raise typer.BadParameter(message, param_hint="--shape")
        if self.measure and not is_installed(LIBRARY):
            raise typer.BadParameter("needs ONNX Runtime: pip install onnxruntime", param_hint="--measure")


class FuseCommand(Command):
    """Turns errors into messages and exit codes."""

    def main(self, *arguments: Any, **settings: Any) -> NoReturn:
        end_with(lambda: super(FuseCommand, self).main(*arguments, **settings))


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command(cls=FuseCommand, no_args_is_help=True)
@with_options_of(
    "plugins", "no_autoload", "external_data", "isa", "fusion_rules", "opt_level", "threads", "debug"
)
def fuse(
    *,
    model: Annotated[
        Path,
        typer.Option("--input", "-i", help="The ONNX model; - reads standard input.", show_default=False),
    ],
    outputs: OutputFlags,
    measuring: MeasureFlags,
    redo: Annotated[
        bool,
        typer.Option(
            "--redo", help="Inline the functions of a model that was fused before, and fuse it again."
        ),
    ] = False,
    version: Version = False,
    options: Options,
) -> None:
    """Fuse the operators of an ONNX model, and write an ONNX model that every engine can run.

    Fused operators are functions in the model, of the domain graphwright.fused, named after their operators.

    [bold]Examples[/bold]

      graph-autofusion --input model.onnx --output model_fused.onnx
      graph-autofusion -i model.onnx -o for_openvino.onnx --inline
      graph-autofusion -i model.onnx -o fused.onnx --library
      graph-autofusion -i model.onnx -o fused.onnx --measure --shape x:1,3,224,224
      graph-autofusion -i model.onnx -o fused.onnx --standalone
    """
    outputs = replace(outputs, library=outputs.has_library or measuring.measure)
    target = outputs.target(model)
    measuring.require_engine()
    request = Request(
        inline=outputs.inline,
        redo=redo,
        library=outputs.library,
        standalone=outputs.standalone,
        version=versions(["graphwright"])["graphwright"],
    )
    with progress(f"fusing {model}") as update:
        fused = autofuse(model, request, options)
        ratios = _measure(fused, measuring, options, update) if measuring.measure else {}
        if slower := slower_programs(ratios):
            again = autofuse(model, replace(request, unserved=slower, standalone=False), options)
            fused = replace(again, standalone=fused.standalone)
        written = _write(fused, target, outputs, options)
    show_fused(fused, ratios)
    for line in written:
        note(line)


def _measure(
    fused: Autofused, flags: MeasureFlags, options: Options, progress: Callable[[str], None]
) -> dict[str, Ratio]:
    """Measures each program of the library against the nodes of ONNX Runtime."""
    if fused.operator_library is None or not fused.operator_library.operators:
        return {}
    feeds = make_feeds(fused.inputs, None, flags.sizes, flags.seed)
    return measure_programs(fused.model, fused.operator_library, feeds, options.threads, progress)


def _write(fused: Autofused, target: Path, outputs: OutputFlags, options: Options) -> list[str]:
    """Writes all files, or none if one of them cannot be written. Returns a line of text for each."""
    model, operators = fused.model, fused.operator_library
    has_operators = operators is not None and bool(operators.operators)
    if outputs.weights is Weights.PACKED and operators is not None:
        model, operators = without_weights(model, operators)
    standalone = target.with_name(library_name(target.stem))
    _refuse_sources(fused, target, standalone)
    external = outputs.external_weights or (has_operators and outputs.weights is Weights.ORIGINAL)
    with ExitStack() as stack:
        files, sources = stage_model(stack, model, target, external=external), {}
        if operators is not None and has_operators:
            files.append(_stage_library(stack, operators, target.with_name(f"{target.name}.so")))
            if outputs.emit_sources is not None:
                sources = operators.sources(options)
                stack.enter_context(whole_folder(outputs.emit_sources, sources))
        if fused.standalone is not None:
            files.append(_stage_library(stack, fused.standalone, standalone))
    lines = [f"wrote {file} ({bytes_text(file.stat().st_size)})" for file in files]
    if sources:
        folder = outputs.emit_sources
        script = shlex.quote(f"{folder}/{BUILD_SCRIPT}")
        lines.append(f"wrote {folder} (files: {len(sources)}); sh {script} builds the library")
    return lines


def _refuse_sources(fused: Autofused, model: Path, standalone: Path) -> None:
    """Raises an error if the output would replace a file with weights of the source model."""
    beside_model = (model.with_name(f"{model.name}.{suffix}") for suffix in ("data", "so"))
    for path in (model, *beside_model, standalone):
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
