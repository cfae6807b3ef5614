"""``explain --layouts``: the layout of each value, the nodes that requested it, and the remaining
conversions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from graphwright.compiler.recompile import compiled_module
from graphwright.compiler.remark_text import decode_remarks
from graphwright.compiler.remarks import Remarks
from graphwright.cost.nominal import nominal
from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.builtin.fused import Fused
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.layout.blocks import blocks_name, is_blocked, lanes_of
from graphwright.layout.channels_last import CHANNELS_LAST
from graphwright.layout.remarks import ROWS, LayoutCopy, LayoutRequest, value_name
from graphwright.ops.core.transpose import Transpose
from graphwright.package.package import Package
from graphwright.records import dataclass
from graphwright.support.escaping import terminal
from graphwright.support.message_text import counted
from graphwright.support.source_names import sources_text
from graphwright.support.units import bytes_text, duration_text
from graphwright.tools.console import note, paragraph, say, table

MOST_ROWS: Final = 10
"""The most requests and conversions that are shown, which are the largest ones."""
MOST_NAMES: Final = 4
_NAME: Final = 40


@dataclass(frozen=True)
class Layouts:
    """The values of a graph by layout, with constants separate, and the remarks of the layout passes."""

    values: dict[str, list[str]]
    weights: dict[str, list[str]]
    requests: Sequence[LayoutRequest]
    copies: Sequence[tuple[LayoutCopy, int]]
    """Each conversion with the bytes that it moves in a run; dynamic dimensions are estimated."""

    @classmethod
    def of(cls, package: Package) -> Layouts:
        """The layouts of the main entry. Raises PackageError."""
        module, remarks = compiled_module(package), decode_remarks(package.main.remarks)
        values: dict[str, list[str]] = {}
        weights: dict[str, list[str]] = {}
        for value in _values(module):
            found = weights if is_constant(value) else values
            found.setdefault(_layout_name(value), []).append(_name(value))
        requests = sorted(remarks.requests, key=lambda r: -(r.saves or 0))
        copies = [(copy, nominal(copy.moved, module.symbols)) for copy in _remaining_copies(remarks, module)]
        return cls(values, weights, requests, sorted(copies, key=lambda each: -each[1]))


def _values(module: Module) -> Iterator[Value]:
    for graph in module.graphs.values():
        yield from _values_of(graph)


def _values_of(graph: Graph) -> Iterator[Value]:
    """The values in memory, which excludes the values inside fused regions."""
    yield from graph.inputs
    for node in graph:
        yield from node.outputs
        for region in () if isinstance(node.op, Fused) else node.regions:
            yield from _values_of(region)


def _layout_name(value: Value) -> str:
    if value.layout is None:
        return ROWS
    return blocks_name(lanes_of(value.layout)) if is_blocked(value) else str(value.layout)


def _name(value: Value) -> str:
    called = value_name(value)
    return called if value.producer is None or not value.name else f"{value.name} of {called}"


def _remaining_copies(remarks: Remarks, module: Module) -> Iterator[LayoutCopy]:
    """The conversions that remain after later passes: most transposes become part of loads and stores."""
    nodes: Iterator[Node] = (node for graph in module.graphs.values() for node in graph)
    transposes = Counter(node.location for node in nodes if isinstance(node.op, Transpose))
    planes = {copy.value for copy in remarks.copies if copy.layout == CHANNELS_LAST}
    for copy in remarks.copies:
        is_transpose = copy.layout == CHANNELS_LAST or (copy.layout == ROWS and copy.value in planes)
        if not is_transpose:
            yield copy
        elif transposes[copy.value]:
            transposes[copy.value] -= 1
            yield copy


def layout_facts(package: Package) -> dict[str, Any]:
    """All values as JSON. Raises PackageError."""
    found = Layouts.of(package)
    return {
        "values": found.values,
        "weights": found.weights,
        "requests": [{"node": r.location, "layout": r.layout, "saves_ns": r.saves} for r in found.requests],
        "copies": [
            {"value": c.value, "layout": c.layout, "reader": c.reader, "why": c.why, "bytes": moved}
            for c, moved in found.copies
        ],
    }


def show_layouts(package: Package) -> None:
    """Shows the values by layout, then requests and conversions, the largest first."""
    found = Layouts.of(package)
    for layout, names in sorted(found.values.items(), key=lambda item: -len(item[1])):
        say(paragraph(f"{counted(len(names), 'value')} in {layout}: {_names(names)}", 4))
    constants = sum(map(len, found.weights.values()))
    packed = constants - len(found.weights.get(ROWS, ()))
    if packed:
        say(f"{packed} of {counted(constants, 'constant')} packed for their kernels")
    _show_requests(found.requests)
    _show_copies(found.copies)


def _show_requests(requests: Sequence[LayoutRequest]) -> None:
    if not requests:
        return
    say(f"requested by {counted(len(requests), 'node')}; the others follow their neighbors")
    saves = ["-" if r.saves is None else duration_text(r.saves) for r in requests[:MOST_ROWS]]
    rows = [
        [sources_text(r.location, _NAME), r.layout, saved] for r, saved in zip(requests, saves, strict=False)
    ]
    table(rows, ["node", "layout", "faster by"])


def _show_copies(copies: Sequence[tuple[LayoutCopy, int]]) -> None:
    total = sum(moved for _, moved in copies)
    say(f"remaining layout conversions: {len(copies)}, {bytes_text(total)} in a run")
    rows = [
        [
            bytes_text(moved) if moved else "none",
            f"{sources_text(copy.value, _NAME)} into {copy.layout}",
            sources_text(copy.reader, _NAME),
            copy.why,
        ]
        for copy, moved in copies[:MOST_ROWS]
    ]
    if rows:
        table(rows, ["moves", "value", "read by", "why"])
    if len(copies) > MOST_ROWS:
        note(f"{len(copies) - MOST_ROWS} conversions that move fewer bytes are not shown: --json lists all")


def _names(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > MOST_NAMES else ""
    return ", ".join(map(_shown, names[:MOST_NAMES])) + more


def _shown(name: str) -> str:
    value, of, location = name.rpartition(" of ")
    return f"{terminal(value, _NAME)}{of}{sources_text(location, _NAME)}"
