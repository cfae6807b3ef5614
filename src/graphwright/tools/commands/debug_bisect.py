"""``graphwright debug bisect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from graphwright.config import Options
from graphwright.errors import Diagnostic
from graphwright.support.message_text import counted
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.arguments import Tolerance, require_new_folder
from graphwright.tools.check import EvaluationError, random_hint, rounding_tolerance
from graphwright.tools.console import note, progress, say, table
from graphwright.tools.debugging.bisection import Finding, Unlocated, WrongOutput, WrongStep
from graphwright.tools.debugging.bisection import bisect as find
from graphwright.tools.debugging.ddmin import Budget
from graphwright.tools.debugging.nan import ranges
from graphwright.tools.debugging.passes import WrongPass
from graphwright.tools.debugging.reduction import Reducer
from graphwright.tools.debugging.reproduction import Reproduction, shows, write
from graphwright.tools.debugging.steps import kernel_names
from graphwright.tools.debugging.subject import Subject, divisible, requested_subject
from graphwright.tools.debugging.submodel import Candidate, Divisible
from graphwright.tools.flags import with_options
from graphwright.tools.run_flags import RunFlags

SECONDS: Final = 300.0


@with_options
def bisect(
    *,
    model: ModelPath,
    flags: RunFlags,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help=(
                "Write the smallest model that shows the fault to this new folder, with inputs and a script."
            ),
            show_default=False,
        ),
    ] = None,
    tolerance: Tolerance = None,
    budget: Annotated[
        float, typer.Option(help="Time limit for reducing the model, in seconds.", min=0)
    ] = SECONDS,
    options: Options,
) -> None:
    """Find the pass or kernel that makes the results differ from an evaluation of the model in f64.

    Passes: the module after each pass is evaluated in f64, by bisection. Kernels: each step of a native run
    is compared with the NumPy references of its nodes, on the operands that it had. The exit status is 1 if
    an output exceeds the tolerance.

    [bold]Examples[/bold]

      graphwright debug bisect model.onnx
      graphwright debug bisect model.onnx -i inputs.npz -o fault
      graphwright debug bisect model.om --tolerance 1e-3
    """
    require_new_folder(output, "--output")
    with progress("compiling") as tell:
        subject = requested_subject(model, options, flags)
        limit = rounding_tolerance(subject.source) if tolerance is None else tolerance
        finding = find(subject, limit, tell)
    say(f"  outputs differ by {finding.distance.most:.2e} of their greatest magnitude")
    if finding.cause is None:
        say(f"  this is within {limit:g}")
        return
    if hint := random_hint(subject.source):
        raise EvaluationError(Diagnostic("random", "no pass is at fault", str(model), hint))
    _show(subject, finding)
    if output is not None:
        with progress("reducing the model"):
            whole = divisible(model, subject, flags.const)
            reproduction = reduced(whole, finding, options, limit, Budget(budget))
        _write(output, reproduction, options, limit)
    raise typer.Exit(1)


def _show(subject: Subject, finding: Finding) -> None:
    cause, passes = finding.cause, len(subject.history.whole)
    if isinstance(cause, WrongPass):
        say(f"  pass {cause.name} is at fault: number {cause.number} of {passes}")
        rows = [["error", cause.error or f"{cause.distance.most:.2e}"]]
        table([*rows, ["first node that changed", cause.location]])
        return
    say(f"  all {passes} modules are right")
    if isinstance(cause, WrongStep):
        _show_step(cause)
    elif isinstance(cause, WrongOutput):
        who = "the copy is wrong" if cause.by is None else f"task {cause.by} overwrites it"
        say(f"  memory is at fault: output {cause.name!r} differs from what its step computed: {who}")
    elif isinstance(cause, Unlocated):
        _show_unlocated(finding, cause)


def _show_step(cause: WrongStep) -> None:
    result, run = cause.result, cause.program.run
    tasks = run.lowered.tasks.tasks
    span = result.span
    if cause.overwritten is not None:
        by = cause.overwritten.by
        name = cause.overwritten.value.name or "an operand"
        what = "is not there" if by is None else f"is overwritten by task {by} ({tasks[by].name or 'a copy'})"
        say(f"  memory is at fault: {name} {what} when it is read")
    else:
        say(f"  kernel {', '.join(kernel_names(run, span))} is at fault")
    rows = [
        ["task", f"{span.last} of {len(tasks)}"],
        ["nodes", span.step.location],
        ["result", f"{result.value.name or '?'}: {result.value.type}"],
        ["error", f"{result.distance.most:.2e} on its own operands"],
    ]
    table(rows)
    say()
    table(ranges(result.operands), ["operand", "type", "min", "mean", "max", "not finite"])


def _show_unlocated(finding: Finding, cause: Unlocated) -> None:
    if cause.is_gone:
        say("  on one thread, reading values between tasks, the outputs are right: a race condition")
        return
    say(f"  each of {counted(finding.steps, 'step')} is right on its own operands: rounding errors add up")
    if cause.worst is not None:
        error = cause.worst.distance.most
        table([["largest error at", cause.worst.span.step.location], ["error", f"{error:.2e}"]])


def reduced(
    whole: Divisible, finding: Finding, options: Options, limit: float, budget: Budget
) -> Reproduction | None:
    """The smallest part of the model that shows the fault; None if no part does that can be written as an
    ONNX model.
    """

    def holds(part: Candidate) -> bool:
        return shows(part, options, limit) is not None

    smallest = Reducer(whole, holds, budget).reduced(whole.named(finding.sources))
    return None if smallest is None else shows(smallest, options, limit)


def _write(folder: Path, reproduction: Reproduction | None, options: Options, limit: float) -> None:
    if reproduction is None:
        note("note: no part of the model shows the fault when it is compiled alone: nothing is written")
        return
    write(
        folder, reproduction, f"A model whose compiled outputs exceed an error of {limit:g}.", options, limit
    )
    nodes = counted(len(reproduction.part.nodes), "node")
    say(f"  wrote {folder}: {nodes}, with inputs and a script")
