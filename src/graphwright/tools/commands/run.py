"""``graphwright run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from graphwright.config import Options
from graphwright.errors import Diagnostic, FeedError
from graphwright.tools.arguments import Feeds, Seed, require_folder
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.arrays import described, write_json, write_npy, write_npz
from graphwright.tools.command_classes import Command
from graphwright.tools.console import note, table
from graphwright.tools.feeds import make_feeds
from graphwright.tools.flags import with_options
from graphwright.tools.models import ModelFlags

app = typer.Typer(add_completion=False)


@app.command(cls=Command)
@with_options
def run(
    *,
    model: ModelPath,
    input: Feeds = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write the results: all of them to an .npz or .json file, or a single one to an .npy file.",
            show_default=False,
        ),
    ] = None,
    flags: ModelFlags,
    seed: Seed = 0,
    options: Options,
) -> None:
    """Run a model once and show its results.

    Inputs that are not given are random: standard normal, or 0 and 1 for integers. The same --seed gives the
    same inputs.

    [bold]Examples[/bold]

      graphwright run model.om --input x=image.npy -o result.npy
      graphwright run model.om -i inputs.npz -o results.npz
      graphwright run model.onnx --shape x:1,3,224,224 --seed 7
      graphwright run classifier.onnx -i test_data_set_0 -o results.json
      graphwright run vad.onnx -i input=wave.npy -i sr=16000 --shape state:2,1,128
    """
    if output is not None and output.suffix not in (".npy", ".npz", ".json"):
        raise typer.BadParameter(f"{output} does not end in .npy, .npz or .json", param_hint="--output")
    require_folder(output, "--output")
    compiled = flags.open_entry(model, options)
    results = compiled.run(make_feeds(compiled.inputs, input, flags.sizes, seed, compiled.entry.constraints))
    table([_summary(n, a) for n, a in results.items()], ["output", "type", "min", "mean", "max"])
    if output is not None:
        _write(output, results)


def _summary(name: str, array: Any) -> list[str]:
    shown = described(array)
    if not isinstance(array, np.ndarray) or array.size == 0 or array.dtype.kind not in "biufV":
        return [name, shown, "", "", ""]
    wide = array.astype(np.float64)
    return [name, shown, *(f"{number:.6g}" for number in (wide.min(), wide.mean(), wide.max()))]


def _write(path: Path, results: dict[str, Any]) -> None:
    if path.suffix == ".json":
        write_json(path, results)
        return
    for name, value in results.items():
        if not isinstance(value, np.ndarray):
            message = f"output {name!r} is {described(value)}, which only a .json file can contain"
            raise FeedError(Diagnostic("array-file", message, str(path)))
    plain = {
        name: array.astype(np.str_) if array.dtype == object else array for name, array in results.items()
    }
    if path.suffix == ".npz":
        for name, kept in write_npz(path, plain).items():
            if kept != name:
                note(f"{name!r} is called {kept} in {path}")
        return
    if len(plain) != 1:
        hint = "write an .npz, or choose one with --outputs"
        raise FeedError(
            Diagnostic("array-file", f"{len(plain)} outputs do not fit into one .npy file", str(path), hint)
        )
    write_npy(path, *plain.values())
