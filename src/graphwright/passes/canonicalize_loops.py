"""Removes loops that never run, inlines loops that run once, and drops conditions that always hold. A
data-dependent trip count becomes a symbolic size if a scan output has that many rows.
"""

from __future__ import annotations

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.clone import copy_nodes
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.symbols import names_in
from graphwright.ir.types import I64, TensorType
from graphwright.ops.control.loop import Loop
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.range import Range
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.passes.base import Pass, Record
from graphwright.passes.fixed_sizes import refined_sizes, replace_and_refine
from graphwright.passes.traversal import nodes_of
from graphwright.records import dataclass, replace


@dataclass(frozen=True)
class CanonicalizeLoops(Pass):
    """A loop that never runs yields its initial values and empty scan outputs; the body of a loop that runs
    once replaces it; a constant true condition of a counted loop is dropped. Where a trip count is
    data-dependent, the loop counts along a Range whose size is the number of rows of its scan outputs, so
    that shapes alone determine it.
    """

    name: str = "canonicalize_loops"

    def run(self, module: Module, record: Record) -> bool:
        modified = False
        while any([_simplify(module, *loop, record) for loop in nodes_of(module, Loop)]):
            modified = True  # a body may contain loops, and a loop without its condition may run once
        return modified


def _simplify(module: Module, graph: Graph, node: Node, op: Loop, record: Record) -> bool:
    build = Builder(module, graph, node, node.sources)
    facts = [build.fact(value) for value in node.inputs]
    if op.never_runs(*facts):
        rows = _no_rows(build, node, op)
        if rows is None:
            record.refused(node, "remove", "the size of a scan output is not known")
            return False
        replace_and_refine(module, node, [*_starts(node, op), *rows], {})
        record.did("loops that never run removed")
        return True
    if op.conditional and _is_true(build, node.operand(op.counted)) and _gives_true(module, node):
        return _without_condition(graph, node, op, record)
    if not op.conditional and op.trips_of(facts) == 1 and None not in node.inputs:
        _inline(build, graph, node, op)
        record.did("loops that run once inlined")
        return True
    return op.counted and op.scans > 0 and not op.conditional and _measure(build, graph, node, op, record)


def _starts(node: Node, op: Loop) -> list[Value]:
    first = op.loop_carried().start
    return [node.operand(first + k) for k in range(op.carries)]


def _no_rows(build: Builder, node: Node, op: Loop) -> list[Value] | None:
    """Empty scan outputs; None if one has sizes that only an iteration determines."""
    types = [value.type for value in node.outputs[op.carries :]]
    known = symbols_in(value.type for value in node.inputs if value is not None)
    sizes = [dim for type in types for dim in (type.shape or ())[1:]]
    if any(type.shape is None for type in types) or not all(known.issuperset(names_in(dim)) for dim in sizes):
        return None
    return [build(ConstantOfShape(0, type.dtype, (0, *type.dims[1:]))) for type in types]


def _is_true(build: Builder, value: Value) -> bool:
    fact = build.fact(value)
    return fact is not None and fact.data is not None and bool(fact.data.all())


def _gives_true(module: Module, node: Node) -> bool:
    region = node.regions[0]
    return _is_true(Builder(module, region), region.outputs[0])


def _without_condition(graph: Graph, node: Node, op: Loop, record: Record) -> bool:
    if not op.counted and op.trips is None:
        record.refused(node, "drop the condition", "the loop has no trip count and would never end")
        return False
    region = node.regions[0]
    names = region.output_names
    region.set_outputs(region.outputs[1:], names[1:])
    inputs = [*node.inputs[: op.counted], *node.inputs[op.counted + 1 :]]
    types = [value.type for value in node.outputs]
    lean = replace(op, conditional=False)
    replacement = graph.insert(Node(lean, inputs, types, node.regions, node.name, node.sources), node)
    graph.replace_node(node, replacement.outputs)
    record.did("conditions dropped")
    return True


def _measure(build: Builder, graph: Graph, node: Node, op: Loop, record: Record) -> bool:
    """Replaces the trip count by a vector whose size is the number of rows of the scan outputs."""
    count, rows = node.operand(0), node.outputs[op.carries].type
    if count.type.shape != () or rows.shape is None or not str(rows.shape[0]).isidentifier():
        return False
    zero, one = (build.const(np.array(k, np.int64)) for k in (0, 1))
    size = TensorType(I64, rows.shape[:1])
    vector = graph.insert(Node(Range(), (zero, count, one), (size,), sources=node.sources), node)
    graph.replace_input(node, 0, vector.output)
    record.did("trip counts made sizes")
    return True


def _inline(build: Builder, graph: Graph, node: Node, op: Loop) -> None:
    region, number = node.regions[0], build.const(np.array(0, np.int64))
    received = [number, *(value for value in node.inputs[op.loop_carried().start :] if value is not None)]
    results = copy_nodes(region, received, graph, node, node.sources)
    scanned = zip(results[op.carries :], node.outputs[op.carries :], strict=True)
    rows = [build(Unsqueeze((0,)), value, known=[stacked.type]) for value, stacked in scanned]
    sizes = refined_sizes(region.inputs, received)
    replace_and_refine(build.module, node, [*results[: op.carries], *rows], sizes)
