"""``graphwright plugins``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from graphwright import plugins as loaded
from graphwright.config import Options
from graphwright.errors import Diagnostic, PluginError
from graphwright.fusion.rules.base import FusionRule
from graphwright.fusion.rules.registry import registered_fusion_rules
from graphwright.ir.op import Op, registered_ops
from graphwright.ir.op.plugin_ops import is_plugin_op, plugin_of
from graphwright.ir.text import print_op
from graphwright.kernels.candidates.context import Candidate
from graphwright.kernels.candidates.registry import registered_candidates
from graphwright.passes.plugin_passes import PluginPass, Point, registered_passes
from graphwright.tools.command_classes import Command
from graphwright.tools.console import note, say, table
from graphwright.tools.flags import with_options
from graphwright.tools.samples import SampleResult, run_samples

app = typer.Typer(add_completion=False)


@app.command(cls=Command)
@with_options
def plugins(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files, modules or installed plugins; default: all installed plugins.",
            metavar="[PLUGIN]...",
            show_default=False,
        ),
    ] = None,
    *,
    options: Options,
) -> None:
    """List what plugins register, and test the samples of their ops.

    A sample runs on one, two and three threads, which must give the same bits, and is compared with the op's
    NumPy reference; symbolic sizes get several values. The exit status is 1 if a sample fails.

    [bold]Examples[/bold]

      graphwright plugins my_ops.py my_rules.py
      graphwright plugins
    """
    loaded.load(*(names or ()))
    if not names and not options.plugins:
        loaded.autoload()
    ops = [cls for cls in registered_ops().values() if is_plugin_op(cls)]
    kernels = [(op, function) for op, function in registered_candidates() if is_plugin_op(function)]
    passes = registered_passes()
    rules = registered_fusion_rules()
    if not (ops or kernels or passes or rules):
        say("  no plugin is loaded")
    _show(ops, kernels, passes, rules)
    if lacking := [cls.name for cls in ops if not cls.samples]:
        note(f"not tested, because they have no samples: {', '.join(lacking)}")
    faults = _show_samples([(cls, each) for cls in ops for each in run_samples(cls, options)])
    if faults:
        raise PluginError(*faults)


def _show(
    ops: Sequence[type[Op]],
    kernels: Sequence[tuple[type[Op], Candidate]],
    passes: Sequence[tuple[Point, PluginPass]],
    rules: Sequence[FusionRule],
) -> None:
    """Shows the source of each registration; for ops also their mappings and kernels, for rules their
    stage.
    """
    own = {op for op, _ in kernels}
    listed = {
        ("op", "plugin", "ONNX", "runs as"): [
            [cls.name, plugin_of(cls), _mapped(cls), _way(cls, cls in own)] for cls in ops
        ],
        ("kernel", "plugin", "of the op"): [[f.__name__, plugin_of(f), op.name] for op, f in kernels],
        ("rule or pass", "plugin", "at"): [[each.name, each.plugin, point] for point, each in passes],
        ("fusion rule", "plugin", "does"): [[r.name, plugin_of(r.pattern), r.does] for r in rules],
    }
    for head, rows in listed.items():
        if rows:
            table(rows, head)


def _mapped(cls: type[Op]) -> str:
    return ", ".join(f"{'.'.join([*key[2:], key[0]])} {key[1]}" for key in cls.onnx)


def _way(cls: type[Op], has_kernel: bool) -> str:
    if cls.expression is not Op.expression:
        return "an expression"
    if has_kernel:
        return "a kernel"
    return "simpler ops" if cls.decompose is not Op.decompose else "NumPy"


def _show_samples(tried: list[tuple[type[Op], SampleResult]]) -> list[Diagnostic]:
    """Shows a row for each sample, and the faults of failed ones."""
    rows = [
        [print_op(each.sample.op), each.shapes, each.ran, "failed" if each.fault else "passed"]
        for cls, each in tried
    ]
    if rows:
        table(rows, ["sample of", "operands", "ran", "result"])
    return [
        Diagnostic("sample", f"{print_op(each.sample.op)} of {each.shapes}: {each.fault}", plugin_of(cls))
        for cls, each in tried
        if each.fault
    ]
