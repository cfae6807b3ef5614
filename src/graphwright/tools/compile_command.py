"""``graphwright compile``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphwright.config import Options
from graphwright.package.package import Package
from graphwright.tools.arguments import Constants, Outputs, Shapes, parse_shapes, require_folder, with_options
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.console import bytes_text, note
from graphwright.tools.gear_arguments import (
    Batches,
    Between,
    Combine,
    Combined,
    GearShapes,
    Images,
    Others,
    parse_gears,
)
from graphwright.tools.models import open_model
from graphwright.tools.progress import Watch, stages
from graphwright.tools.stages_table import stages_text

app = typer.Typer(add_completion=False)


@app.command()
@with_options
def compile(
    model: ModelPath,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The package to write; default: MODEL.om in this folder.",
            show_default=False,
        ),
    ] = None,
    shape: Shapes = None,
    const: Constants = None,
    outputs: Outputs = None,
    gears: GearShapes = None,
    dynamic_batch: Batches = None,
    dynamic_image: Images = None,
    combine: Combined = Combine.ZIP,
    between: Others = Between.ERROR,
    print_after: Annotated[
        list[str] | None,
        typer.Option(metavar="PASS", help="Print the graph after this pass. Repeatable.", show_default=False),
    ] = None,
    print_after_all: Annotated[
        bool, typer.Option("--print-after-all", help="Print the graph after every pass.")
    ] = False,
    time_passes: Annotated[bool, typer.Option("--time-passes", help="Print what each stage took.")] = False,
    *,
    options: Options,
) -> None:
    """Compile a model into a package, which runs without a compiler.

    \b
    [bold]Examples[/bold]

    \b
      graphwright compile model.onnx -o model.om
      graphwright compile model.onnx -o model.om --shape x:1,3,224,224
      graphwright compile model.onnx -o model.om --shape x:N=1..16,3,H=64..2048%32,W=64..2048%32
      graphwright compile model.onnx -o model.om --dynamic-batch 1,2,4,8
      graphwright compile vad.onnx -o vad.om --const sr=16000 --outputs output
      graphwright compile model.onnx --print-after fuse --time-passes
      graphwright compile model.onnx --plugin my_ops.py --plugin my_rules.py

    Sizes that are not given stay symbolic: the package then runs every shape that the model allows. Gears
    are shapes that get programs of their own: as fast as if the model were compiled for that shape alone.
    """
    target = output or Path(f"{model.stem}.om")
    require_folder(target, "--output")
    wanted = parse_gears(gears, dynamic_batch, dynamic_image, combine, between)
    watch = Watch(["*"] if print_after_all else print_after or [])
    with stages(watch) as observe:
        compiled = open_model(
            model,
            options,
            shapes=parse_shapes(shape),
            constants=const,
            outputs=outputs,
            gears=wanted,
            observe=observe,
        )
    watch.warn_unknown()
    if time_passes:
        watch.report_times()
    compiled.save(target)
    note(f"wrote {target} ({bytes_text(target.stat().st_size)}{_kernels_text(compiled.package)})")


def _kernels_text(package: Package) -> str:
    """What the package holds where it is not one program for all that the model takes."""
    if package.between:
        return f"; {len(package.variants) - (package.between == 'dynamic')} gears"
    if package.variants:
        return f"; {len(package.variants)} variants for ranks of its inputs"
    if package.stages is not None:
        return f"; {stages_text(package.stages)}: inspect says why"
    if package.targets:
        return ""
    return "; kernels are made at the first feed, which decides ranks: --shape for each input makes them here"
