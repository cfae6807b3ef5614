"""The report of ``graph-autofusion``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from graphwright.autofusion.autofuse import Autofused
from graphwright.autofusion.onnxruntime.operator_library import Library
from graphwright.export.onnx import FusedFunction, fused_functions
from graphwright.support.message_text import counted, listed
from graphwright.support.units import bytes_text
from graphwright.tools.console import paragraph, say, table
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
    total = summary.operators.total()
    percent = f"{100 * saved / max(before.activation_bytes, 1):.0f} %"
    moved = f"{bytes_text(before.activation_bytes)} -> {bytes_text(after.activation_bytes)}"
    rows = [
        ("operators", _counts(summary.operators)),
        *([("kept", f"{_counts(summary.foreign)}, as they are in the model")] if summary.foreign else []),
        ("candidates", f"{summary.candidates} possible merges, {summary.merges} made"),
        ("fused", f"{summary.fused_nodes} of {total} nodes into {counted(summary.regions, 'operator')}"),
        ("launches", f"{before.launches} -> {after.launches}"),
        ("bytes moved", f"{moved}, {percent} less, excluding weights"),
        (
            "benefit",
            f"up to {summary.benefit_ms:.2f} ms a run, if memory and launches limit its speed",
        ),
    ]
    table(rows, indent="")
    if summary.assumed_sizes:
        _say_wrapped(f"Dynamic dimensions are estimated as {listed(list(summary.assumed_sizes))}.")
    functions = fused_functions(fused.model.proto)
    if functions and library is None:
        say()
        rows_of = [(each.name, str(each.nodes), str(each.calls)) for each in functions[:SHOWN]]
        table(rows_of, ("function", "nodes", "calls"), "")
        if others := len(functions) - len(rows_of):
            say(f"and {counted(others, 'other function')}")
    if library is not None and library.likely_sizes:
        _say_wrapped(f"One program runs the whole model where sizes fit: {listed(library.likely_sizes)}.")
    if fused.standalone is not None and fused.standalone.assumed:
        assumed = listed(fused.standalone.assumed)
        _say_wrapped(f"The standalone library runs inputs with {assumed}, and no others.")
    if library is not None:
        _report_library(library, functions, ratios)


def _report_library(
    library: Library, functions: Sequence[FusedFunction], ratios: Mapping[str, Ratio]
) -> None:
    """Prints which parts of the model the library runs, and why it does not run the others."""
    nodes = {each.name: each.nodes for each in functions}
    count = len(library.operators) + len(library.refused)
    if not library.operators:
        say("No library is written: ONNX Runtime runs all nodes.")
    else:
        served = f"{len(library.operators)} of {count} programs"
        _say_wrapped(f"The library runs {served} (parts that graphwright can compile).")
    rows = [(each.name, str(nodes[each.name]), _served_text(each.name, ratios)) for each in library.operators]
    rows += [(name, str(nodes[name]), f"ONNX Runtime: {why}") for name, why in library.refused.items()]
    rows += [(f"operator {name}", "", f"ONNX Runtime: {why}") for name, why in library.outside.items()]
    if rows:
        say()
        table(rows, ("program", "nodes", "run by"), "")


def _served_text(name: str, ratios: Mapping[str, Ratio]) -> str:
    measured = f": the model takes {ratio_text(ratios[name])} of the time with it" if name in ratios else ""
    return f"the library{measured}"


def _counts(operators: Counter[str]) -> str:
    """``Conv 40, Mul 30 and 9 other operators``."""
    common = ", ".join(f"{name} {count}" for name, count in operators.most_common(SHOWN))
    others = len(operators) - SHOWN
    return f"{common} and {counted(others, 'other operator')}" if others > 0 else common


def _say_wrapped(text: str) -> None:
    say(paragraph(text, most_lines=8))
