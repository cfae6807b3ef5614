"""The verifier of the graph IR. It checks all rules, and shows each violation in the text of the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from graphwright.errors import Collector, GraphwrightError, ModelError, VerifyError
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.builtin.fused import Fused, Schedule, region_of, region_values
from graphwright.ir.clone import with_own_symbols
from graphwright.ir.graph import Graph, Module, Node, Role, Signature, Value
from graphwright.ir.inference.infer import compatible, infer_node, input_facts
from graphwright.ir.op import ConstRef, Fact, InferError
from graphwright.ir.op.region_op import region_op
from graphwright.ir.symbols import RELATIONS
from graphwright.ir.text.printer import Listing, same_value
from graphwright.ir.types import type_of
from graphwright.records import dataclass

Part = tuple[str, int]
"""The part of a node that a fault refers to: ``op``, ``input``, ``output`` or ``type``, and its index."""
OP: Part = ("op", 0)


@dataclass(frozen=True)
class _Fault:
    message: str
    node: Node | None = None
    part: Part = OP


def verify(module: Module, where: str = "") -> None:
    """Checks all rules of the IR. Raises a VerifyError with all violations.

    - Producers precede consumers, and use lists match operands.
    - Regions only use their own values.
    - Constants are in the pool.
    - Operands that are not optional are present.
    - The ops accept their attributes (``verify``) and infer the types of their outputs (``infer``).
    - Layouts have the rank of their values.
    - Names of the inputs and of the outputs of an entry are unique.

    ``where``: what ran before, such as a pass; part of the message.
    """
    faults = Collector(VerifyError)
    for message in _module_faults(module):
        faults.add("verify", message, where)
    scratch = with_own_symbols(module)
    seen: set[Graph] = set()
    for graph in module.graphs.values():
        _verify_graph(graph, scratch, [Fact(v.type) for v in graph.inputs], seen, faults, where)
    faults.raise_if_any()


def _module_faults(module: Module) -> Iterator[str]:
    for name, graph in module.graphs.items():
        if name != graph.name:
            yield f"graph {graph.name!r} is kept under the name {name!r}"
    for graph, count in Counter(module.graphs.values()).items():
        if count > 1:
            yield f"graph {graph.name!r} is in the module twice"
    for symbol, bounds in module.symbols.ranges.items():
        if bounds.high is not None and bounds.low > bounds.high:
            yield f"symbol {symbol} has an empty range [{bounds.low}, {bounds.high}]"
    for symbol, divisor in module.symbols.multiples.items():
        if divisor < 1:
            yield f"symbol {symbol} is a multiple of {divisor}"
    for constraint in (*module.symbols.constraints, *module.symbols.guards):
        if constraint.relation not in RELATIONS:
            yield f"constraint {constraint} has an unknown relation"
    yield from _signature_faults(module)


def _signature_faults(module: Module) -> Iterator[str]:
    for name, signature in module.signatures.items():
        graph = module.graphs.get(name)
        if graph is None:
            yield f"signature of {name!r}: the module has no such graph"
            continue
        if len(signature.roles) != len(graph.inputs):
            yield f"signature of {name!r} has {len(signature.roles)} roles for {len(graph.inputs)} inputs"
        for output, source in signature.aliases:
            if not (0 <= output < len(graph.outputs) and 0 <= source < len(graph.inputs)):
                yield f"signature of {name!r}: the graph has no output {output} or no input {source}"
            elif graph.outputs[output].type != graph.inputs[source].type:
                next_type, kept = graph.outputs[output].type, graph.inputs[source].type
                yield f"output {output} of {name!r}, {next_type}, is the next value of input {source}, {kept}"
        yield from _state_faults(name, signature)
        yield from _start_faults(name, signature, graph, module)
        # The same value may be an output twice.
        results = dict.fromkeys(zip(graph.output_names, graph.outputs, strict=True))
        names = (("inputs", [v.name for v in graph.inputs]), ("outputs", [name for name, _ in results]))
        for what, texts in names:
            for text, count in Counter(texts).items():
                if count > 1 and text:
                    yield f"{count} {what} of {name!r} are called {text!r}"


def _state_faults(name: str, signature: Signature) -> Iterator[str]:
    states = [number for number, role in enumerate(signature.roles) if role is Role.STATE]
    if sorted(source for _, source in signature.aliases) != states:
        rule = "each state must have one output as its next value, and other inputs none"
        yield f"signature of {name!r}: {rule}"
    if len({output for output, _ in signature.aliases}) < len(signature.aliases):
        yield f"signature of {name!r}: an output is the next value of two states"


def _start_faults(name: str, signature: Signature, graph: Graph, module: Module) -> Iterator[str]:
    """Faults in the initial values of states."""
    for number, ref in signature.initial_values:
        if not 0 <= number < len(graph.inputs) or signature.roles[number] is not Role.STATE:
            yield f"signature of {name!r}: input {number} has an initial value, but is not a state"
        elif ref not in module.constants:
            yield f"signature of {name!r}: input {number} starts as {ref}, which is not in the pool"
        elif type_of(module.constants[ref]) != graph.inputs[number].type:
            kept, start = graph.inputs[number].type, type_of(module.constants[ref])
            yield f"input {number} of {name!r} has type {kept}, but its initial value {ref} has type {start}"


def _verify_graph(
    graph: Graph,
    module: Module,
    inputs: Sequence[Fact | None],
    seen: set[Graph],
    faults: Collector,
    where: str,
) -> list[Fact]:
    """Checks ``graph`` and its regions. Returns the facts of its outputs, for the node that owns it."""
    if graph in seen:
        faults.add("verify", f"graph {graph.name!r} is the region of more than one node", where)
        return [Fact(value.type) for value in graph.outputs]
    seen.add(graph)
    broken = _broken_links(graph)
    if broken:
        faults.add("verify", f"{graph.name}: {broken}", where)
        return [Fact(value.type) for value in graph.outputs]
    found = [*_structure_faults(graph), *(f for node in graph for f in _node_faults(node, module))]
    facts = {v: fact for v, fact in zip(graph.inputs, inputs, strict=False) if fact is not None}
    for value, fact in facts.items():
        if not compatible(value.type, fact.type, module.symbols):
            found.append(_Fault(f"input {value!r} receives {fact.type}"))
    bad = {fault.node for fault in found}
    for node in graph:
        outside = [
            _verify_graph(region, module, _region_facts(node, i, facts, found), seen, faults, where)
            for i, region in enumerate(node.regions)
        ]
        if node not in bad:
            found += _type_faults(node, facts, module, outside)
    if found:
        _report(graph, found, faults, where)
    return [facts.get(value, Fact(value.type)) for value in graph.outputs]


def _report(graph: Graph, found: Sequence[_Fault], faults: Collector, where: str) -> None:
    """Adds the faults of ``graph`` to ``faults``, with excerpts of its text."""
    listing = Listing(graph, {})
    for fault in found:
        location = f"{where}: " if where else ""
        location += fault.node.location if fault.node is not None else graph.name
        faults.add("verify", f"{fault.message}{_excerpt(listing, fault)}", location)


def _excerpt(listing: Listing, fault: _Fault) -> str:
    """The header of the graph, the node and its predecessor, and a caret under the faulty part."""
    if fault.node is None:
        return ""
    position = listing.positions[fault.node]
    start, end = position.columns.get(fault.part, position.columns[OP])
    first = listing.lines[0] if position.line > 0 else ""
    before = [listing.lines[position.line - 1]] if position.line > 1 else []
    gap = ["  ..."] if position.line > 2 else []
    caret = " " * start + "^" * max(1, end - start)
    return "".join(f"\n    {line}" for line in (first, *gap, *before, listing.lines[position.line], caret))


def _broken_links(graph: Graph) -> str | None:
    """The fault of a list of nodes with broken links, which cannot be traversed or printed; None if it is
    valid.
    """
    visited: set[Node] = set()
    previous: Node | None = None
    for node in graph:
        if node in visited:
            return f"the list of nodes has a cycle at {node!r}"
        if node.graph is not graph or node.previous is not previous:
            return f"{node!r} is not linked to its neighbors"
        visited.add(node)
        previous = node
    return None if len(visited) == len(graph) else f"it counts {len(graph)} nodes, but has {len(visited)}"


def _structure_faults(graph: Graph) -> Iterator[_Fault]:
    for i, value in enumerate(graph.inputs):
        if value.owner is not graph or value.producer is not None or value.index != i:
            yield _Fault(f"input {i} of {graph.name}, {value!r}, has a wrong owner or index")
    nodes = set(graph)
    defined: set[Value] = set(graph.inputs)
    for node in graph:
        for i, operand in enumerate(node.inputs):
            if operand is not None and operand not in defined:
                yield _Fault(_undefined(operand, graph, nodes), node, ("input", i))
        for i, value in enumerate(node.outputs):
            if value.producer is not node or value.index != i:
                yield _Fault(f"output {i}, {value!r}, has a wrong producer or index", node, ("output", i))
            defined.add(value)
    values = [*graph.inputs, *(value for node in graph for value in node.outputs)]
    yield from _use_faults(graph, values)
    for value in graph.outputs:
        if value not in defined:
            yield _Fault(f"output {value!r} of {graph.name} is not a value of this graph")
    yield from _layout_faults(values)


def _use_faults(graph: Graph, values: Sequence[Value]) -> Iterator[_Fault]:
    """Faults of the use lists of ``values``."""
    uses: dict[Value, set[tuple[Node, int]]] = {}
    for node in graph:
        for i, operand in enumerate(node.inputs):
            if operand is not None:
                uses.setdefault(operand, set()).add((node, i))
    for value in values:
        expected = uses.get(value, set())
        if set(value.uses) != expected:
            yield _Fault(_wrong_uses(value, expected), value.producer, ("output", value.index))


def _undefined(operand: Value, graph: Graph, nodes: set[Node]) -> str:
    if operand.producer in nodes:
        return f"{operand!r} is used before it is defined"
    home = operand.graph
    if home is None:
        return f"{operand!r} belongs to no graph: its producer was erased"
    return (
        f"{operand!r} belongs to {home.name}: a region can only use its own values; pass others as operands"
    )


def _wrong_uses(value: Value, expected: set[tuple[Node, int]]) -> str:
    recorded = set(value.uses)
    missing = [f"input {i} of {node!r}" for node, i in expected - recorded]
    stale = [f"input {i} of {node!r}" for node, i in recorded - expected]
    parts = [f"misses {', '.join(missing)}"] * bool(missing) + [f"has stale {', '.join(stale)}"] * bool(stale)
    return f"the use list of {value!r} {' and '.join(parts)}"


def _layout_faults(values: Sequence[Value]) -> Iterator[_Fault]:
    for value in values:
        layout, rank = value.layout, value.type.rank
        if layout is None:
            continue
        axes_fit = rank is not None and sorted(layout.order) == list(range(rank))
        if not axes_fit or any(not 0 <= axis < len(layout.order) or size < 1 for axis, size in layout.blocks):
            yield _Fault(f"{layout} does not fit {value.type}", value.producer, ("type", value.index))


def _node_faults(node: Node, module: Module) -> Iterator[_Fault]:
    op = node.op
    for i, operand in enumerate(node.inputs):
        if operand is None and i not in op.optional_inputs:
            yield _Fault(f"{op.name} needs input {i}", node, ("input", i))
    if len(node.outputs) != op.output_count():
        yield _Fault(f"{op.name} has {op.output_count()} outputs, not {len(node.outputs)}", node)
    for name, attribute in op.attributes().items():
        if isinstance(attribute, ConstRef) and attribute not in module.constants:
            yield _Fault(f"{name} {attribute} is not in the constant pool", node)
    if isinstance(op, Constant) and op.value in module.constants:
        held = type_of(module.constants[op.value])
        if not same_value(held, op.type):
            yield _Fault(f"the pool holds {held}", node, ("type", 0))
    if isinstance(op, Fused) and op.schedule is not None and len(node.regions) == 1:
        yield from _schedule_faults(node, op.schedule)


def _schedule_faults(node: Node, schedule: Schedule) -> Iterator[_Fault]:
    values, axes = region_values(region_of(node)), range(len(schedule.axes))
    if len(schedule.walks) != len(values):
        maps = f"{len(schedule.walks)} indexing maps (walks)"
        yield _Fault(f"the schedule has {maps}, but the region has {len(values)} values", node)
    for axis in sorted({*schedule.reduced, *chain.from_iterable(schedule.walks)} - {*axes}):
        yield _Fault(f"the schedule uses axis {axis}, but has only axes 0 to {len(axes) - 1}", node)


def _region_facts(
    node: Node, index: int, facts: dict[Value, Fact], found: list[_Fault]
) -> Sequence[Fact | None]:
    inputs = input_facts(node, facts)
    expected = len(node.regions[index].inputs)
    try:
        given = region_op(node.op).region_inputs(index, inputs)
    except NotImplementedError:
        found.append(_Fault(f"{node.op.name} has no regions", node))
        return [None] * expected
    except (InferError, GraphwrightError, LookupError, ValueError) as error:
        found.append(_Fault(f"region {index}: {error}", node))
        return [None] * expected
    if len(given) != expected:
        found.append(_Fault(f"region {index} has {expected} inputs and receives {len(given)}", node))
    return given


def _type_faults(
    node: Node, facts: dict[Value, Fact], module: Module, inside: Sequence[Sequence[Fact]]
) -> list[_Fault]:
    """Faults of the types of ``node``, compared with those that its op infers. Adds its outputs to
    ``facts``.
    """
    outputs = iter(inside)
    try:
        inferred = infer_node(node, facts, module, lambda _region, _inputs: next(outputs))
    except ModelError as error:
        return [_Fault(diagnostic.message, node) for diagnostic in error.diagnostics]
    except NotImplementedError:
        return [_Fault(f"{node.op.name} cannot infer its outputs", node)]
    if len(inferred) != len(node.outputs):
        return [_Fault(f"{node.op.name} infers {len(inferred)} outputs", node)]
    found = []
    for i, (value, fact) in enumerate(zip(node.outputs, inferred, strict=True)):
        if compatible(value.type, fact.type, module.symbols):
            facts[value] = fact.with_type(value.type)
        else:
            found.append(_Fault(f"{node.op.name} infers {fact.type} here", node, ("type", i)))
    return found
