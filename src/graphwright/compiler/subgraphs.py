"""Subgraphs of a partitioned graph: copies nodes into a closed region, makes a region a module that is
compiled by itself, and makes the compiled graph the region again.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.compiler.host_nodes import bound_by
from graphwright.errors import Diagnostic, PackageError
from graphwright.executable.nodes import SIZE_INPUT
from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.builtin.subgraph import Subgraph
from graphwright.ir.clone import clone_graph, copy_node
from graphwright.ir.free_symbols import symbols_in, symbols_of
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.symbols import symbol
from graphwright.ir.types import U8, TensorType
from graphwright.records import replace
from graphwright.support.unique_names import UniqueNames


def closed_copy(nodes: Sequence[Node], name: str) -> tuple[Graph, list[Value], list[Value]]:
    """Copies ``nodes`` to a closed graph. Returns the graph, the values that it receives as inputs, and the
    results of ``nodes`` that are read outside of them.
    """
    inside = set(nodes)
    read = dict.fromkeys(value for node in nodes for value in node.inputs if value is not None)
    outside = [value for value in read if value.producer not in inside]
    inputs = [value for value in outside if not is_constant(value)]
    region = Graph(name)
    copies = {value: region.add_input(value.type, value.name) for value in inputs}
    for value in outside:
        if value.producer is not None and is_constant(value):
            region.append(copy_node(value.producer, copies))
    for node in nodes:
        region.append(copy_node(node, copies))
    graph = nodes[0].graph
    assert graph is not None
    results = [value for node in nodes for value in node.outputs]
    outputs = [value for value in results if value in graph.outputs or not inside.issuperset(value.users)]
    taken = UniqueNames()
    region.set_outputs([copies[v] for v in outputs], [taken.take(v.name or "value") for v in outputs])
    return region, inputs, outputs


def subgraph_module(module: Module, number: int) -> Module:
    """Subgraph ``number`` of a partitioned ``module`` as a module of its own. Raises PackageError if there is
    none.
    """
    found = (n for n in module.walk() if isinstance(n.op, Subgraph) and n.op.number == number)
    node = next(found, None)
    if node is None:
        raise PackageError(
            Diagnostic(
                "damaged-package", f"the graph has no subgraph {number}", hint="compile the model again"
            )
        )
    return module_of(module, node.regions[0], unbound_sizes(node.regions[0]))


def module_of(module: Module, region: Graph, sizes: Sequence[str]) -> Module:
    """``region`` as the entry graph of a new module. An additional input for each of ``sizes`` binds that
    size.
    """
    subgraph = Module()
    subgraph.constants, subgraph.hints = module.constants.copy(), dict(module.hints)
    main = subgraph.add_graph(clone_graph(region, "main"))
    taken = UniqueNames()
    for value in main.inputs:
        value.name = taken.take(value.name or "value")
    for size in sizes:
        main.add_input(TensorType(U8, (symbol(size), 0)), taken.take(f"{SIZE_INPUT}{size}"))
    table = module.symbols
    bound = bound_by(main.inputs, ())
    computed = symbols_in(v.type for v in main.inputs) - symbols_in(v.type for v in module.main.inputs)
    subgraph.symbols = replace(
        table.copy(),
        host_sizes=table.host_sizes | computed,
        constraints={c: None for c in table.constraints if c.names <= bound},
        guards={g: None for g in table.guards if g.names <= bound},
    )
    return subgraph


def unbound_sizes(region: Graph) -> tuple[str, ...]:
    """The symbols that ``region`` uses and that the shapes of its inputs do not bind."""
    needed = set[str]().union(*map(symbols_of, region))
    return tuple(sorted(needed - bound_by(region.inputs, ())))


def compiled_region(main: Graph, node: Node) -> Graph:
    """The compiled ``main`` as the region of its Subgraph node, without the inputs that bind sizes."""
    for index in range(len(main.inputs) - 1, len(node.inputs) - 1, -1):
        main.remove_input(index)
    main.name = node.regions[0].name
    return main
