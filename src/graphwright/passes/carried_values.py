"""Reduces the values that loops carry to those that change and are needed, and drops unused scan outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphwright.ir.free_symbols import symbols_in, symbols_named, symbols_of_graph
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ops.control.loop import Loop
from graphwright.passes.base import Pass, Record
from graphwright.passes.node_removal import has_effect, needed_results
from graphwright.passes.traversal import nodes_of
from graphwright.records import dataclass, replace


@dataclass(frozen=True)
class CarriedValues(Pass):
    """A loop-carried value that no iteration changes becomes a captured operand; carried values and scan
    outputs that nothing needs are dropped.
    """

    name: str = "carried_values"

    def run(self, module: Module, record: Record) -> bool:
        return any([_simplify(*loop, record) for loop in nodes_of(module, Loop)])


def _simplify(graph: Graph, node: Node, op: Loop, record: Record) -> bool:
    where, region = op.loop_carried(), node.regions[0]
    received = region.inputs[where.received]
    given = region.outputs[where.results]
    read = needed_results(node)
    needed = _needed(node, op, read)
    fixed = {k for k in range(where.count) if given[k] is received[k]}
    for k in sorted(fixed):
        _share(graph, node, node.operand(where.start + k), received[k], node.outputs[k])
    kept = [k for k in range(where.count) if k not in fixed and k in needed]
    scans = [k - where.count for k in read if k >= where.count]
    if len(kept) == where.count and len(scans) == op.scans:
        return False
    record.did("values no longer carried", where.count - len(kept))
    record.did("scan outputs dropped", op.scans - len(scans))
    _rebuild(graph, node, op, kept, scans)
    return True


def _needed(node: Node, op: Loop, read: Sequence[int]) -> set[int]:
    """Carried values that the condition, side effects, or the results ``read`` after the loop depend on."""
    where, region = op.loop_carried(), node.regions[0]
    wanted = [*region.outputs[: where.result]]
    wanted += [region.outputs[where.result + k] for k in read]
    wanted += [value for inner in region if has_effect(inner) for value in inner.inputs if value is not None]
    needed = {k for k in read if k < where.count}
    index = {region.inputs[where.receive + k]: k for k in range(where.count)}
    seen, definers = set[Value](), _definers(region)
    while wanted:
        value = wanted.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in index and index[value] not in needed:
            needed.add(index[value])
            wanted.append(region.outputs[where.result + index[value]])
        wanted += _operands(value, definers)
    return needed


def _operands(value: Value, definers: Mapping[str, Value]) -> Iterator[Value]:
    """The operands of the producer of ``value``, and the values that define the sizes that it names."""
    node = value.producer
    if node is not None:
        yield from (v for v in node.inputs if v is not None)
        names = symbols_named(node.op).union(*map(symbols_of_graph, node.regions))
        yield from (definers[name] for name in names if name in definers)


def _definers(region: Graph) -> dict[str, Value]:
    """For each symbol, the value whose type has it first."""
    values = (*region.inputs, *(value for node in region for value in node.outputs))
    return {name: value for value in reversed(values) for name in symbols_in((value.type,))}


def _share(graph: Graph, node: Node, start: Value, received: Value, output: Value) -> None:
    """Makes ``received`` a captured operand ``start``; readers of ``output`` after the loop read it too."""
    region = node.regions[0]
    graph.add_operand(node, start)
    shared = region.add_input(received.type, received.name)
    shared.layout, shared.device = received.layout, received.device
    region.replace_all_uses(received, shared)
    graph.replace_all_uses(output, start)


def _rebuild(graph: Graph, node: Node, op: Loop, kept: Sequence[int], scans: Sequence[int]) -> None:
    """Replaces ``node`` by a loop with only these carried values and scan outputs."""
    where, region = op.loop_carried(), node.regions[0]
    first, last = where.start, where.start + where.count
    results = [
        *range(where.result),
        *(where.result + k for k in kept),
        *(where.result + where.count + k for k in scans),
    ]
    names = region.output_names
    region.set_outputs([region.outputs[k] for k in results], [names[k] for k in results])
    dropped = [region.inputs[where.receive + k] for k in range(where.count) if k not in kept]
    _erase_users(region, dropped)
    for value in dropped:
        region.remove_input(value.index)
    inputs = [*node.inputs[:first], *(node.inputs[first + k] for k in kept), *node.inputs[last:]]
    outputs = [*(node.outputs[k] for k in kept), *(node.outputs[where.count + k] for k in scans)]
    smaller = replace(op, carries=len(kept), scans=len(scans))
    types = [value.type for value in outputs]
    replacement = graph.insert(Node(smaller, inputs, types, node.regions, node.name, node.sources), node)
    for old, new in zip(outputs, replacement.outputs, strict=True):
        new.layout, new.device = old.layout, old.device
        graph.replace_all_uses(old, new)
    graph.erase(node)


def _erase_users(region: Graph, values: Sequence[Value]) -> None:
    """Erases the nodes that depend on ``values``, which nothing needs."""
    gone = set(values)
    users = []
    for node in region:
        if any(value in gone for value in node.inputs):
            gone.update(node.outputs)
            users.append(node)
    for node in reversed(users):
        region.erase(node)
