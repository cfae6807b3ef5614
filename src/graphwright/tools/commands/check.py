"""``graphwright check``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import graphwright.ops
from graphwright.compiler.recompile import source_module
from graphwright.config import Options
from graphwright.errors import Collector, Diagnostic
from graphwright.frontends.onnx import load as load_onnx
from graphwright.ir.arrays import Array
from graphwright.ir.graph import Module
from graphwright.passes.buckets import selected_module
from graphwright.records import replace
from graphwright.runtime.model import Model
from graphwright.support.file_kinds import EXPORTED, kind_of_file
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.arguments import parse_constants
from graphwright.tools.arrays import described
from graphwright.tools.check import (
    EvaluationError,
    all_feeds,
    distance,
    random_hint,
    reference_outputs,
    rounding_tolerance,
)
from graphwright.tools.command_classes import Command
from graphwright.tools.console import note, say, table
from graphwright.tools.feeds import shapes_of
from graphwright.tools.flags import with_options
from graphwright.tools.measuring.engines import EngineError, is_installed, start
from graphwright.tools.models import is_package
from graphwright.tools.run_flags import RunFlags

PEER = "onnxruntime"
app = typer.Typer(add_completion=False)


@app.command(cls=Command)
@with_options
def check(
    *,
    model: ModelPath,
    onnx: Annotated[
        Path | None,
        typer.Option(
            help="The .onnx model that MODEL.om was compiled from; default: the package's own graph.",
            show_default=False,
        ),
    ] = None,
    flags: RunFlags,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help=(
                "Maximum error relative to the maximum magnitude of the output; default: 1e-4, more for "
                "models with 16-bit floats, and none if an option or the model (accuracy_level=4) lowers "
                "the precision."
            ),
            min=0,
            show_default=False,
        ),
    ] = None,
    options: Options,
) -> None:
    """Compare a model's results with an evaluation of the original in f64; a .pt2 is compared with PyTorch.

    Shows for each output the largest error relative to its greatest magnitude, and the relative root mean
    square error, of graphwright and, if it is installed, of ONNX Runtime. The exit status is 1 if
    graphwright's largest error exceeds the tolerance.

    [bold]Examples[/bold]

      graphwright check model.onnx
      graphwright check model.onnx --shape x:1,3,224,224 --tolerance 1e-5
      graphwright check model.om --onnx model.onnx -i inputs.npz
      graphwright check model.pt2
    """
    constants = parse_constants(flags.const)
    source = onnx if onnx is not None else None if is_package(model) else model
    compiled = (replace(flags, const=None) if is_package(model) else flags).open(model, options)
    feeds = flags.feeds(compiled)
    results = compiled.run(feeds)
    expected = _expected(compiled, source, feeds, constants)
    peer = _peer_results(source, feeds, constants)
    worst = _show(results, expected, peer)
    _refuse_other_shapes(results, expected)
    limit = _limit(tolerance, compiled, options)
    if limit == math.inf:
        say("  numbers are rounded to fewer bits than the model's types have: there is no default tolerance")
        return
    if not worst <= limit:
        message = f"an output is off by {worst:.2e} of its maximum magnitude, more than {limit:g}"
        hint = random_hint(source_module(compiled.package))
        raise EvaluationError(Diagnostic("tolerance", message, str(model), hint))
    say(f"  all outputs are within {limit:g}")


def _limit(tolerance: float | None, compiled: Model, options: Options) -> float:
    """The given tolerance, or the default for the types of the model."""
    if tolerance is not None:
        return tolerance
    module = source_module(compiled.package)
    rounds = options.numerics != "strict" and any(node.op.allows_bytes for node in module.walk())
    return math.inf if rounds or not options.keeps_types else rounding_tolerance(module)


def _expected(
    compiled: Model, source: Path | None, feeds: Mapping[str, Array], constants: Mapping[str, Any]
) -> dict[str, Array]:
    """The expected outputs: of a PyTorch program, those of PyTorch; of other models, those of an evaluation
    in f64.
    """
    if source is None or not _is_of_torch(source):
        return reference_outputs(_reference(compiled, source, constants, feeds), feeds)
    from graphwright.frontends.torch.source import eager_outputs  # imports torch

    return eager_outputs(source, lambda module: all_feeds(module, feeds, constants))


def _is_of_torch(source: Path) -> bool:
    return kind_of_file(source) is EXPORTED


def _reference(
    compiled: Model, source: Path | None, constants: Mapping[str, Any], feeds: Mapping[str, Array]
) -> Module:
    graphwright.ops.load()
    if source is None:
        return selected_module(source_module(compiled.package), shapes_of(feeds))
    return load_onnx(str(source), constants=constants)


def _peer_results(
    source: Path | None, feeds: Mapping[str, Array], constants: Mapping[str, Any]
) -> dict[str, Array]:
    """The outputs of ONNX Runtime; if it cannot run the model, none, and a note."""
    if source is None or _is_of_torch(source) or not is_installed(PEER):
        return {}
    try:
        return start(PEER, source, 1)(all_feeds(load_onnx(str(source)), feeds, constants))
    except EngineError as error:
        note(f"note: {error}")
    except Exception as error:  # the exception types of ONNX Runtime are unknown here
        note(f"note: {PEER} cannot run it: {error}")
    return {}


def _refuse_other_shapes(results: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raises EvaluationError with all outputs whose shape differs from that of the reference."""
    faults = Collector(EvaluationError)
    for name, result in results.items():
        shape, wanted = getattr(result, "shape", None), getattr(expected[name], "shape", None)
        if shape != wanted:
            faults.add("shape", f"output {name!r} has shape {shape}, the original's has {wanted}")
    faults.raise_if_any()


def _show(results: Mapping[str, Array], expected: Mapping[str, Array], peer: Mapping[str, Array]) -> float:
    """Shows a row for each output; returns the largest error of graphwright."""
    head = ["output", "type", "error", "relative rms", *([f"{PEER} error", "relative rms"] if peer else [])]
    rows = []
    worst = 0.0
    for name, array in results.items():
        ours = distance(array, expected[name])
        worst = max(worst, ours.most)
        theirs = [distance(peer[name], expected[name])] if name in peer else []
        errors = [f"{number:.2e}" for each in (ours, *theirs) for number in (each.most, each.rms)]
        row = [name, described(array), *errors]
        rows.append(row + [""] * (len(head) - len(row)))
    table(rows, head)
    return worst
