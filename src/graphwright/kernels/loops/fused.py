"""Kernels for Fused nodes: generated from the region, or a library contraction (or two products with the same
left factor) with the rest of the region as its epilogue.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from graphwright.ir.builtin.fused import UNNAMED, Fused, Schedule, region_of, region_values
from graphwright.ir.graph import Graph, Node, Value
from graphwright.kernels.candidates.choose import choose
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.contractions import Contraction, contraction_of
from graphwright.kernels.candidates.epilogues import epilogue_of
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Hook, Launch, Run
from graphwright.layout.forms import anchors_of
from graphwright.layout.physical import has_layouts, physical_region
from graphwright.loop_nests import FLAT, RegionKernel, hook_kernel, region_kernel, schedule_of
from graphwright.passes.cse import region_key
from graphwright.records import replace
from graphwright.support.escaping import identifier


@candidate(Fused, blocks=True)
def fused(node: Node[Fused], context: Context) -> Launch | Run | str:
    """One generated kernel for the region. If it has contractions: a library kernel with an epilogue, or
    separate kernels for the contractions before the rest.
    """
    region = region_of(node)
    _lay_out_constants(node, region, context)
    physical = physical_region(region) if has_layouts(region) else region
    anchors = anchors_of(region)
    if not anchors:
        return _generated(node, physical, _schedule(node), context)
    action = _with_epilogue(node, region, physical, anchors, context)
    if isinstance(action, str):
        return _in_turn(node, region, physical, anchors, context)
    return action


def _lay_out_constants(node: Node, region: Graph, context: Context) -> None:
    """Packs constants that the region reads in a blocked layout."""
    for position, inner in enumerate(region.inputs):
        value = node.inputs[position]
        if value is None or node.graph is None or inner.layout is None or context.constant(value) is None:
            continue
        node.graph.replace_input(node, position, context.packed(value, inner.layout))


def _in_turn(
    node: Node, region: Graph, physical: Graph, anchors: Sequence[Node], context: Context
) -> Run | str:
    """Contractions without an epilogue, then a generated kernel for the rest of the region."""
    runs: list[Run] = []
    results: list[Value] = []
    for anchor in anchors:
        alone = _in_outer_graph(anchor, _outer(node, region), context)
        choice = choose(alone, context)
        if not isinstance(choice.action, Run):
            return "; ".join(choice.reasons)
        context.weighed += choice.others
        runs.append(choice.action)
        results.append(alone.output)
    inside = anchors_of(physical)
    rest, inner = _without(physical, inside)
    outer = {inner[v]: value for v, value in _outer(node, physical).items() if v in inner}
    outer |= {inner[anchor.output]: value for anchor, value in zip(inside, results, strict=True)}
    epilogue = _generated(node, rest, schedule_of(rest, context.target.limits), context, outer)
    launches = chain.from_iterable(run.launches for run in runs)
    temporaries = chain.from_iterable(run.temporaries for run in runs)
    return Run((*launches, epilogue), temporaries=tuple(temporaries))


def _in_outer_graph(anchor: Node, outer: dict[Value, Value], context: Context) -> Node:
    """``anchor`` as a node on values of the outer graph; its result is a temporary if the outer graph has no
    value for it.
    """
    inputs = [None if v is None else outer[v] for v in anchor.inputs]
    alone = Node(anchor.op, inputs, [anchor.output.type], name=anchor.name, sources=anchor.sources)
    result = outer.get(anchor.output)
    alone.outputs = (
        context.temporary(anchor.output.type, "contraction", anchor.output.layout)
        if result is None
        else result,
    )
    return alone


def _without(region: Graph, anchors: Sequence[Node]) -> tuple[Graph, dict[Value, Value]]:
    """``region`` with the results of ``anchors`` as inputs, and the map from old to new values."""
    rest = Graph(f"{region.name}_tail")
    results = (anchor.output for anchor in anchors)
    inner = {v: rest.add_input(v.type, v.name) for v in (*region.inputs, *results)}
    for node in region:
        if node in anchors:
            continue
        operands = [None if v is None else inner[v] for v in node.inputs]
        copy = rest.append(Node(node.op, operands, [v.type for v in node.outputs], sources=node.sources))
        inner |= dict(zip(node.outputs, copy.outputs, strict=True))
    rest.set_outputs([inner[v] for v in region.outputs if v.producer not in anchors])
    return rest, inner


def _schedule(node: Node[Fused]) -> Schedule:
    assert node.op.schedule is not None  # the pass before gave it one
    return node.op.schedule


def _generated(
    node: Node,
    region: Graph,
    schedule: Schedule,
    context: Context,
    outer: dict[Value, Value] | None = None,
) -> Launch:
    """The launch of the kernel of a region; ``outer`` maps its values to outer ones, by default those of
    ``node``.
    """
    generated = _kernel_of(region, schedule, context)
    ref = context.generate(generated.kernel, node.location)
    operands, writes = _operands(outer or _outer(node, region), generated)
    sizes = dict(zip(generated.kernel.sizes, generated.sizes, strict=True))
    return Launch(
        ref,
        operands,
        writes,
        generated.sizes,
        *context.cost_of(ref, generated.kernel).at(sizes, context.target.machine),
        in_place=_in_place(generated, operands, writes),
    )


def _kernel_of(region: Graph, schedule: Schedule, context: Context) -> RegionKernel:
    """The kernel of a region, made once for equal regions, as layers of a model repeat."""
    values = region_values(region)
    key, known = region_key(region), context.generated.regions
    if key not in known:
        known[key] = region_kernel(region, schedule, context.constants, _name(region)), values
    kernel, theirs = known[key]
    here = dict(zip(theirs, values, strict=True))
    return replace(kernel, parameters=tuple(here[value] for value in kernel.parameters))


def _with_epilogue(
    node: Node[Fused], region: Graph, physical: Graph, anchors: Sequence[Node], context: Context
) -> Launch | Run | str:
    anchor, *others = anchors
    found = contraction_of(anchor.op)
    if found is None:
        return f"{anchor.op.name} has no kernel that takes an epilogue"
    launch, groups, channel_axis = found
    outer = _outer(node, region)
    inputs = tuple(None if v is None else outer[v] for v in anchor.inputs)
    known = None
    if not others:
        axis = channel_axis % max(1, len(anchor.output.type.dims))
        known = epilogue_of(region, anchor, axis, context.constants)
    if known is not None:
        bias, residual = (None if v is None else outer[v] for v in (known.bias, known.residual))
        epilogue = replace(known, bias=bias, residual=residual)
        result = launch(Contraction(anchor, inputs, node.output, epilogue=epilogue), context)
        if not isinstance(result, str):
            return result
    name = f"{_name(region)}_hook"
    results = [each.output for each in anchors_of(physical)]
    tail = hook_kernel(physical, _schedule(node), results, groups(anchor), context.constants, name)
    operands, writes = _operands(_outer(node, physical), tail)
    hook = Hook(context.generate(tail.kernel, node.location), operands, writes, tail.sizes)
    second = outer[others[0].operand(1)] if others else None
    return launch(Contraction(anchor, inputs, None, hook, _tiles(node, anchor), second), context)


def _tiles(node: Node, anchor: Node) -> Value | None:
    """The only result of ``node``, if it has the type and the layout of the contraction's result."""
    if len(node.outputs) > 1:
        return None
    alike = node.output.type == anchor.output.type and node.output.layout == anchor.output.layout
    return node.output if alike else None


def _name(region: Graph) -> str:
    """The region's name as a valid identifier: a region that was read from a file may have any name."""
    return identifier(region.name, UNNAMED)


def _outer(node: Node, region: Graph) -> dict[Value, Value]:
    """The map from inputs and outputs of the region to values of the outer graph."""
    known: dict[Value, Value] = {}
    for inner, value in zip(region.inputs, node.inputs, strict=True):
        if value is not None:
            known[inner] = value
    return known | dict(zip(region.outputs, node.outputs, strict=True))


def _operands(outer: dict[Value, Value], kernel: RegionKernel) -> tuple[tuple[Value, ...], tuple[int, ...]]:
    first_output = len(kernel.parameters) - kernel.output_count
    return tuple(outer[v] for v in kernel.parameters), tuple(range(first_output, len(kernel.parameters)))


def _in_place(
    kernel: RegionKernel, operands: tuple[Value, ...], writes: tuple[int, ...]
) -> tuple[tuple[Value, Value], ...]:
    """Pairs (output, input) that access the same elements in the same order, if nothing is read after the
    first store.
    """
    if kernel.rereads or len(writes) > 1:
        return ()
    parameters = kernel.kernel.parameters
    return tuple(
        (operands[w], operands[r])
        for w in writes
        for r in range(len(operands))
        if r not in writes
        and parameters[r].shape == parameters[w].shape
        and kernel.parameter_axes[r] == kernel.parameter_axes[w] != FLAT
        and parameters[r].dtype.bytes == parameters[w].dtype.bytes
        and operands.count(operands[r]) == 1
    )
