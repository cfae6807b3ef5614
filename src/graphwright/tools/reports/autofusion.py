"""The report of ``graph-autofusion``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from graphwright.autofusion.autofuse import Autofused
from graphwright.autofusion.onnxruntime.operator_library import Library
from graphwright.export.onnx import FusedFunction, fused_functions
from graphwright.support.spelling import listed
from graphwright.tools.console import bytes_text, say, table
from graphwright.tools.measuring.bench import Ratio
from graphwright.tools.measuring.library_measurement import ratio_text

SHOWN: Final = 8
"""The most operators and functions that are listed."""


def show_fused(fused: Autofused, ratios: Mapping[str, Ratio]) -> None:
    """Prints what was fused, and which parts the libraries run. ``ratios``: the measured times of programs
    relative to ONNX Runtime.
    """
    summary, library = fused.summary, fused.operator_library
    before, after = summary.before, summary.after
    saved = before.activation_bytes - after.activation_bytes
    percent = f"{100 * saved / max(before.activation_bytes, 1):.0f} %"
    moved = f"{bytes_text(before.activation_bytes)} -> {bytes_text(after.activation_bytes)}"
    rows = [
        ("operators", _counts(summary.operators)),
        *([("kept", _counts(summary.foreign))] if summary.foreign else []),
        ("candidates", f"{summary.candidates} possible merges, {summary.merges} made"),
        ("fused", f"{summary.fused_nodes} nodes into {summary.regions}"),
        ("launches", f"{before.launches} -> {after.launches}"),
        ("bytes moved", f"{moved}, {percent} less, excluding weights"),
        (
            "benefit",
            f"up to {summary.benefit_ms:.2f} ms a run, if memory traffic and launches limit its speed",
        ),
    ]
    table(rows, indent="")
    if summary.assumed_sizes:
        say(f"Dynamic dimensions are estimated as {listed(list(summary.assumed_sizes))}.")
    functions = fused_functions(fused.model.proto)
    if functions and library is None:
        say()
        rows_of = [(each.name, str(each.nodes), str(each.calls)) for each in functions[:SHOWN]]
        table(rows_of, ("function", "nodes", "calls"), "")
    if library is not None and library.likely_sizes:
        say(f"One program runs the whole model where sizes fit: {listed(library.likely_sizes)}.")
    if fused.standalone is not None and fused.standalone.assumed:
        say(f"The standalone library runs inputs with {listed(fused.standalone.assumed)}, and no others.")
    if library is not None:
        _report_library(library, functions, ratios)


def _report_library(
    library: Library, functions: Sequence[FusedFunction], ratios: Mapping[str, Ratio]
) -> None:
    """Prints which parts of the model the library runs, and why it does not run the others."""
    nodes = {each.name: each.nodes for each in functions}
    count = len(library.operators) + len(library.refused)
    say(f"The library serves {len(library.operators)} of {count} programs.")
    rows = [(each.name, str(nodes[each.name]), _served_text(each.name, ratios)) for each in library.operators]
    rows += [(name, str(nodes[name]), why) for name, why in library.refused.items()]
    rows += [
        (f"operator {name}", "", f"left to ONNX Runtime: {why}") for name, why in library.outside.items()
    ]
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
