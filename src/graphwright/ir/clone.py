"""Copies of modules, graphs and nodes, and inlining of regions."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from graphwright.ir.graph import Graph, Module, Node, Value


def clone_module(module: Module) -> Module:
    """A deep copy of ``module``; the arrays of constants, which are immutable, are shared."""
    clone = Module()
    clone.constants = module.constants.copy()
    clone.symbols = module.symbols.copy()
    clone.signatures, clone.metadata = dict(module.signatures), dict(module.metadata)
    clone.hints = dict(module.hints)
    clone.scopes = dict(module.scopes)
    for graph in module.graphs.values():
        clone.add_graph(clone_graph(graph))
    return clone


def with_own_symbols(module: Module) -> Module:
    """A shallow copy of ``module`` with its own symbol table, so that inference on it does not change
    ``module``.
    """
    scratch = copy.copy(module)
    scratch.symbols = module.symbols.copy()
    return scratch


def clone_graph(graph: Graph, name: str = "") -> Graph:
    """A copy of ``graph`` with its own nodes and values, including regions."""
    result = Graph(name or graph.name)
    inputs: list[Value] = []
    for value in graph.inputs:
        copy = result.add_input(value.type, value.name)
        copy.layout, copy.device = value.layout, value.device
        inputs.append(copy)
    result.set_outputs(copy_nodes(graph, inputs, result, None), graph.output_names)
    return result


def copy_nodes(
    source: Graph, operands: Sequence[Value], target: Graph, before: Node | None, sources: Sequence[str] = ()
) -> list[Value]:
    """Copies the nodes of ``source`` before ``before`` in ``target``, with ``operands`` for its
    inputs.

    ``sources`` are added to the provenance of each copy. Returns the values for the outputs of
    ``source``.
    """
    copies: dict[Value, Value] = dict(zip(source.inputs, operands, strict=True))
    for node in source:
        target.insert(copy_node(node, copies, sources), before)
    return [copies[value] for value in source.outputs]


def copy_node(node: Node, copies: dict[Value, Value], sources: Sequence[str] = ()) -> Node:
    """A copy of ``node``, not yet in a graph, that reads ``copies`` of its operands; its outputs are added to
    ``copies``.
    """
    copy = Node(
        node.op,
        [None if value is None else copies[value] for value in node.inputs],
        [value.type for value in node.outputs],
        [clone_graph(region) for region in node.regions],
        node.name,
        (*node.sources, *sources),
        node.origin,
    )
    for old, new in zip(node.outputs, copy.outputs, strict=True):
        new.name, new.layout, new.device = old.name, old.layout, old.device
        copies[old] = new
    return copy


def inline_region(node: Node, region: Graph, operands: Sequence[Value]) -> None:
    """Replaces ``node`` by the nodes of ``region``, applied to ``operands``. Their outputs correspond."""
    graph = node.graph
    if graph is None:
        raise ValueError(f"{node!r} is not in a graph")
    graph.replace_node(node, copy_nodes(region, operands, graph, node, node.sources))
