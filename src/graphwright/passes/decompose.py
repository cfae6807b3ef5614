"""Decomposes ops into simpler ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphwright.errors import Diagnostic, PluginError
from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op import Op
from graphwright.ir.op.plugin_ops import defined_at, guarded, is_plugin_op
from graphwright.ir.origin import Origin
from graphwright.passes.base import Pass, Record
from graphwright.passes.node_removal import drop_unused, replace_and_prune
from graphwright.passes.plugin_passes import replacement_fault
from graphwright.passes.rule_pass import UNKNOWN_RANK
from graphwright.passes.traversal import graphs
from graphwright.records import dataclass


@dataclass(frozen=True)
class Decompose(Pass):
    """Applies :meth:`Op.decompose` to every node for which ``keep`` is false, and to the
    result.

    ``depth`` bounds how often results are decomposed again, so that the pass terminates.
    """

    keep: Callable[[Node], bool]
    depth: int = 8
    name: str = "decompose"

    def run(self, module: Module, record: Record) -> bool:
        modified = False
        for graph in list(graphs(module)):
            for _ in range(self.depth):
                if not self._sweep(graph, module, record):
                    break
                modified = True
        return modified

    def _sweep(self, graph: Graph, module: Module, record: Record) -> bool:
        modified = False
        for node in graph:
            if not self.keep(node) and _decompose(node, graph, module, record):
                modified = True
        return modified


def decompose(module: Module, keep: Callable[[Node], bool]) -> Record:
    """Runs :class:`Decompose` on ``module`` and returns its record."""
    record = Record("decompose")
    record.modified = Decompose(keep).run(module, record)
    return record


def _decompose(node: Node, graph: Graph, module: Module, record: Record) -> bool:
    before = node.previous
    try:
        parts = _parts(node, Builder(module, graph, node, node.sources, Origin(type(node.op), node.origin)))
    except UNKNOWN_RANK:
        parts = None
        record.refused(node, "decompose", "the rank of an operand is not known yet")
    if parts is None:
        drop_unused(before, node)
        return False
    record.did(f"{node.op.name} decomposed")
    replace_and_prune(node, [parts] if isinstance(parts, Value) else parts)
    return True


def _parts(node: Node, builder: Builder) -> Any:
    """The result of the decomposition; for a user's op, checked for number and types of values."""
    cls = type(node.op)
    if not is_plugin_op(cls) or cls.decompose is Op.decompose:
        return node.op.decompose(builder, *node.inputs)
    doing = f"{node.op.name}.decompose"
    parts = guarded(lambda: node.op.decompose(builder, *node.inputs), cls, doing, UNKNOWN_RANK)
    fault = "" if parts is None else replacement_fault(parts, node, builder.module)
    if fault:
        message = f"{doing} {fault} (node {node.location})"
        raise PluginError(Diagnostic("plugin", message, defined_at(cls.decompose)))
    return parts
