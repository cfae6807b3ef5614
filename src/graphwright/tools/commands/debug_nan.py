"""``graphwright debug nan``."""

from __future__ import annotations

import typer

from graphwright.config import Options
from graphwright.runtime.first_nan import NAN, first_nan
from graphwright.support.message_text import counted
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.arrays import described
from graphwright.tools.console import note, progress, say, table
from graphwright.tools.debugging.nan import FirstNan, find_nan, has, ranges
from graphwright.tools.debugging.steps import kernel_names
from graphwright.tools.debugging.subject import requested_subject
from graphwright.tools.flags import with_options
from graphwright.tools.run_flags import RunFlags


@with_options
def nan(
    *,
    model: ModelPath,
    flags: RunFlags,
    options: Options,
) -> None:
    """Find the first task that produces NaN or infinity from finite operands.

    The model runs natively once, with its own kernels and memory plan; each value is copied after its task.
    The exit status is 1 if there is such a task.

    [bold]Examples[/bold]

      graphwright debug nan model.onnx -i inputs.npz
      graphwright debug nan model.om --shape x:1,3,224,224
    """
    with progress("running the model"):
        subject = requested_subject(model, options, flags)
        found = find_nan(subject)
    for name, array in subject.feeds.items():
        if has(NAN, array):
            note(f"note: input {name!r} has NaN")
    if found is None:
        count = sum(len(program.run.lowered.tasks.tasks) for program in subject.programs)
        tasks = counted(count, "task")
        say(f"  none of the {tasks} produces NaN or infinity from finite operands")
        return
    _show(found)
    raise typer.Exit(1)


def _show(found: FirstNan) -> None:
    result, span = found.result, found.result.span
    run = found.program.run
    kernels, tasks = kernel_names(run, span), run.lowered.tasks.tasks
    say(first_nan(f"task {span.last}", found.count, result.got.size, kind=found.kind).message)
    own = "give the same result in f64: the model itself computes it"
    ours = "give finite results in f64: the range of the type is too small, or the kernel is wrong"
    rows = [
        ["task", f"{span.last} of {len(tasks)}"],
        ["kernel", ", ".join(kernels)],
        ["nodes", span.step.location],
        ["inside", f"{found.node.location} is the first of these with {found.node_kind}"],
        ["result", f"{result.value.name or '?'}, {described(result.got)}"],
        ["operands", own if found.in_f64 else ours],
    ]
    table(rows)
    say()
    table(ranges(result.operands), ["operand", "type", "min", "mean", "max", "not finite"])
