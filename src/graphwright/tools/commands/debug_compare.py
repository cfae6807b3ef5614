"""``graphwright debug compare``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from graphwright.config import Options
from graphwright.support.message_text import counted, listed
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.arguments import Tolerance
from graphwright.tools.arrays import described
from graphwright.tools.check import rounding_tolerance
from graphwright.tools.console import progress, say, table
from graphwright.tools.debugging.comparison import (
    ONNXRUNTIME,
    OURS,
    REFERENCE,
    Difference,
    Values,
    differences,
    first_beyond,
    values_of_peer,
    values_of_subject,
)
from graphwright.tools.debugging.subject import open_subject, requested_subject
from graphwright.tools.flags import with_options
from graphwright.tools.models import is_package
from graphwright.tools.run_flags import RunFlags

ENGINES: Final = (OURS, ONNXRUNTIME, REFERENCE)
MOST_ROWS: Final = 20
HEAD: Final = ["value", "type", "absolute error", "relative error"]


@with_options
def compare(
    *,
    model: ModelPath,
    other: Annotated[
        Path,
        typer.Argument(help="The model to compare with: .onnx or .om.", metavar="OTHER", show_default=False),
    ],
    engine: Annotated[
        str, typer.Option("--with", metavar="ENGINE", help=f"The engine that runs OTHER: {listed(ENGINES)}.")
    ] = OURS,
    flags: RunFlags,
    tolerance: Tolerance = None,
    all: Annotated[bool, typer.Option("--all", help="Show every value that both runs have.")] = False,
    options: Options,
) -> None:
    """Compare two runs on the same inputs, value by value, and name the first that exceeds the tolerance.

    Intermediate values are compared if both runs have one of that name; values inside a fused kernel are
    not compared. The exit status is 1 if a value exceeds the tolerance.

    [bold]Examples[/bold]

      graphwright debug compare old.om new.om
      graphwright debug compare model.om model.onnx --with onnxruntime
      graphwright debug compare model.onnx model.onnx --with fp64 --all
    """
    _require_engine(engine, other)
    with progress("running both"):
        subject = requested_subject(model, options, flags)
        ours = values_of_subject(subject)
        theirs = _values_of_other(other, engine, options, subject.feeds, [*ours.arrays])
    found = differences(ours, theirs)
    inner = [each for each in found if each.name not in ours.outputs]
    _show(found, ours, all)
    limit = rounding_tolerance(subject.source) if tolerance is None else tolerance
    beyond = first_beyond(found, limit)
    outputs, others = len(found) - len(inner), counted(len(inner), "intermediate value")
    say(f"  {counted(outputs, 'output')} and {others} compared")
    if beyond is None:
        say(f"  all are within {limit:g}")
        return
    say(f"  {beyond.name} is the first value with an error above {limit:g}")
    raise typer.Exit(1)


def _require_engine(engine: str, other: Path) -> None:
    if engine not in ENGINES:
        raise typer.BadParameter(f"{engine!r} is not one of {listed(ENGINES)}", param_hint="--with")
    if engine != OURS and is_package(other):
        raise typer.BadParameter(f"{engine} runs .onnx models, not packages", param_hint="--with")


def _values_of_other(other: Path, engine: str, options: Options, feeds: Any, wanted: Sequence[str]) -> Values:
    if engine == OURS:
        sizes = {name: list(array.shape) for name, array in feeds.items() if hasattr(array, "shape")}
        return values_of_subject(open_subject(other, options, shapes=sizes, feeds=feeds))
    return values_of_peer(engine, other, feeds, wanted)


def _show(found: Sequence[Difference], ours: Values, everything: bool) -> None:
    """Shows the outputs, and the other values with the largest differences, in the order of the run."""
    inner = [each for each in found if each.name not in ours.outputs]
    shown = {each.name for each in sorted(inner, key=lambda each: -each.relative)[:MOST_ROWS]}
    rows = [
        [each.name, _types(each), f"{each.absolute:.2e}", f"{each.relative:.2e}"]
        for each in found
        if everything or each.name in ours.outputs or each.name in shown
    ]
    table(rows, HEAD)


def _types(each: Difference) -> str:
    first, second = described(each.first), described(each.second)
    return first if each.first.shape == each.second.shape else f"{first}, not {second}"
