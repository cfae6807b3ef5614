"""The tables of ``graphwright inspect`` about a model: its file, interface, graph, and the programs of a
target.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from graphwright.compiler.recompile import unpacked_module
from graphwright.compiler.report import dynamic_lines
from graphwright.executable.target_code import TargetCode
from graphwright.fusion.traffic import NodeTraffic, total_of, traffic_of
from graphwright.ir.graph import Module
from graphwright.ir.sizes import SizeRange
from graphwright.package.package import Entry, Package
from graphwright.runtime.model import Model
from graphwright.support.message_text import counted
from graphwright.support.source_names import sources_text
from graphwright.support.units import bytes_text
from graphwright.tools.console import say, table
from graphwright.tools.flags import shown_path
from graphwright.tools.reports.model_facts import (
    constraint_texts,
    guard_texts,
    has_all_plugins,
    op_counts,
    size_spans,
    target_facts,
)

_NAME: Final = 70
"""The most characters of the source nodes of a kernel."""


def graph_of(model: Model) -> Module:
    """The graph of the model's entry, constants in row-major order."""
    return unpacked_module(model.entry_package())


def show_file(path: Path, package: Package | None, verified: bool) -> None:
    """Shows the name and size of the file; for a package also its targets, and whether it is trusted."""
    rows = [["file", shown_path(path)], ["size", bytes_text(path.stat().st_size)]]
    if package is not None:
        trusted = (
            "yes"
            if package.trusted
            else "no: its graph and weights were compiled again here (--trust runs its kernels)"
        )
        held = ", ".join(
            f"{isa}, whose weights are packed again when it is loaded" if isa in package.packs else isa
            for isa in package.isas()
        )
        rows += [["targets", held]] if held else []
        rows += [["trusted", trusted], *([["verified", "members, weights and graph"]] if verified else [])]
    table(rows)


def show_interface(model: Model) -> None:
    """Shows inputs, states, outputs, constraints, guards, options and the metadata of the source model."""
    entry = model.entry
    if len(model.entries) > 1:
        say("entries (--entry shows another)")
        table([[name, "shown below" if each is model else ""] for name, each in model.entries.items()])
    sides = (("inputs", entry.feeds), ("states", entry.states), ("outputs", entry.outputs))
    for title, specs in sides:
        if title == "states" and not specs:
            continue
        say(title)
        table([[spec.name, spec.type_text] for spec in specs])
    for title, lines in (
        ("constraints", constraint_texts(entry)),
        ("guards", guard_texts(entry)),
        ("options", [f"{name}={value}" for name, value in model.package.options.items()]),
    ):
        if lines:
            say(title)
            table([[line] for line in lines])
    if entry.metadata:
        say("metadata")
        table([[key, text] for key, text in entry.metadata.items()])


def _show_sizes(module: Module) -> dict[str, SizeRange]:
    """Shows the ranges of the sizes of inputs."""
    spans = size_spans(module)
    rows = [[dim, span.words] for dim, span in spans.items() if span != SizeRange()]
    if rows:
        say("sizes")
        table(rows)
    return spans


def show_dynamic(entry: Entry) -> None:
    """Shows sizes and ranks that are known only in a run, each with the node that determines it."""
    if lines := dynamic_lines(entry.report):
        say("known only at run time")
        table([[line] for line in lines])


def show_graph(model: Model) -> dict[str, SizeRange]:
    """Shows the contents of the graph; returns the ranges of the sizes of inputs."""
    spans: dict[str, SizeRange] = {}
    package = model.package
    if package.plugins:
        say("ops of plugins")
        table([[name, plugin] for name, plugin in sorted(package.plugins.items())])
    if not has_all_plugins(package):
        say("ops: load these plugins to see them")
    else:
        module = graph_of(model)
        spans = _show_sizes(module)
        _show_ops(module)
    for title, weights in (("weights", package.weights), ("weights for recompiling only", package.spare())):
        tensors = weights.tensors.values()
        if tensors or title == "weights":
            size = bytes_text(sum(tensor.size for tensor in tensors))
            say(f"{title}: {counted(len(tensors), 'tensor')}, {size}")
    return spans


def traffic_line(nodes: Sequence[NodeTraffic], module: Module) -> str:
    """The number of kernels, and the bytes that they read and write, fused and if each op were a kernel."""
    fused, unfused = total_of(nodes)
    ops, kernels = counted(sum(len(node.ops) for node in nodes), "op"), counted(len(nodes), "kernel")
    is_static = all(value.type.is_static for value in module.main.inputs)
    conversions = sum(node.fused.total for node in nodes if not node.ops)
    text = f"{ops} in {kernels}, not counting views: a run reads and writes {bytes_text(fused.total)}"
    text += f" ({bytes_text(conversions)} for layout conversions)" if conversions else ""
    if unfused.total:
        text += f", {100 - 100 * fused.total / unfused.total:.0f} % less than with a kernel for each op"
        text += f" ({bytes_text(unfused.total)})"
    return text if is_static else f"{text}; dynamic dimensions are estimated"


def show_traffic(module: Module) -> None:
    """Shows the bytes that each kernel reads and writes, and those if each op were a kernel."""
    nodes = traffic_of(module)
    say("bytes read and written in a run, excluding weights")
    sizes = [(n.name, n.fused.read, n.fused.written, n.unfused.read, n.unfused.written) for n in nodes]
    rows = [[sources_text(name, _NAME), *map(bytes_text, counts)] for name, *counts in sizes]
    table(rows, ("node", "read", "written", "op by op: read", "written")) if rows else table([["none"]])
    say(traffic_line(nodes, module))


def _show_ops(module: Module) -> None:
    counts = op_counts(module)
    regions = counted(counts["fused_regions"], "fused region")
    say(f"ops: {counts['count']}, {counts['fused']} of them in {regions}")
    table([[str(count), name] for name, count in counts["by_name"].items()] or [["none"]])
    say(traffic_line(traffic_of(module), module))


def show_target(target: TargetCode) -> None:
    """Shows the tasks, kernels and NumPy ops of one program for one ISA."""
    found = target_facts(target)
    tasks, kernels = found["tasks"], found["kernels"]
    instructions = counted(found["shape_instructions"], "instruction")
    say(f"tasks for {target.name}: {sum(tasks.values())}; shape program: {instructions}")
    table([[str(count), kind] for kind, count in tasks.items()] or [["none"]])
    say(f"kernels: {kernels['library']} of the library, {kernels['generated']} generated")
    if found["numpy_ops"]:
        say("run in NumPy, as there is no kernel")
        table([[name] for name in found["numpy_ops"]])
