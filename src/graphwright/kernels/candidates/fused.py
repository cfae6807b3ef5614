"""Fused nodes: a kernel generated from the region, or a contraction with the rest of the region as its
epilogue.
"""

from __future__ import annotations

from graphwright.ir.fused import Fused, Schedule, region_of, region_values
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.region_name import region_name
from graphwright.kernels.candidates.choose import choose
from graphwright.kernels.candidates.epilogues import epilogue_of
from graphwright.kernels.candidates.registry import (
    Context,
    Contraction,
    candidate,
    contraction_of,
)
from graphwright.kernels.launch import Hook, Launch, Run
from graphwright.layout.forms import anchor_of
from graphwright.layout.physical import has_layouts, physical_region
from graphwright.loop_nests import FLAT, RegionKernel, hook_kernel, region_kernel, schedule_of
from graphwright.passes.cse import region_key
from graphwright.records import replace


@candidate(Fused, blocks=True)
def fused(node: Node[Fused], context: Context) -> Run | str:
    """One kernel for the region; with a contraction in it, the library's with an epilogue, or two kernels."""
    region = region_of(node)
    _lay_out_constants(node, region, context)
    walked = physical_region(region) if has_layouts(region) else region
    anchor = anchor_of(region)
    if anchor is None:
        return Run((_generated(node, walked, _schedule(node), context),))
    made = _with_epilogue(node, region, walked, anchor, context)
    if isinstance(made, str):
        return _in_two(node, region, walked, anchor, context)
    return Run((made,)) if isinstance(made, Launch) else made


def _lay_out_constants(node: Node, region: Graph, context: Context) -> None:
    """Bring constants that the region reads in blocks into them."""
    for position, inner in enumerate(region.inputs):
        value = node.inputs[position]
        if value is None or node.graph is None or inner.layout is None or context.constant(value) is None:
            continue
        node.graph.replace_input(node, position, context.packed(value, inner.layout))


def _in_two(node: Node, region: Graph, walked: Graph, anchor: Node, context: Context) -> Run | str:
    """A contraction that takes no epilogue, then the rest of the region as a kernel of its own."""
    outer = _outer(node, region)
    alone = Node(anchor.op, [None if v is None else outer[v] for v in anchor.inputs], [anchor.output.type],
                 name=anchor.name, sources=anchor.sources)  # fmt: skip
    if anchor.output in outer:
        alone.outputs = (outer[anchor.output],)
    else:
        alone.outputs = (context.temporary(anchor.output.type, "contraction", anchor.output.layout),)
    choice = choose(alone, context)
    found = choice.made
    if not isinstance(found, Run):
        return "; ".join(choice.reasons)
    result = anchor_of(walked)
    assert result is not None
    rest, inner = _without(walked, result)
    places = {inner[v]: value for v, value in _outer(node, walked).items() if v in inner}
    places[inner[result.output]] = alone.output
    epilogue = _generated(node, rest, schedule_of(rest, context.target.limits), context, places)
    return Run((*found.launches, epilogue), temporaries=found.temporaries)


def _without(region: Graph, anchor: Node) -> tuple[Graph, dict[Value, Value]]:
    """``region`` with the result of ``anchor`` as an input, and what its values have become."""
    rest = Graph(region.name)
    inner = {v: rest.add_input(v.type, v.name) for v in (*region.inputs, anchor.output)}
    for node in region:
        if node is anchor:
            continue
        operands = [None if v is None else inner[v] for v in node.inputs]
        copy = rest.append(Node(node.op, operands, [v.type for v in node.outputs], sources=node.sources))
        inner |= dict(zip(node.outputs, copy.outputs, strict=True))
    rest.set_outputs([inner[v] for v in region.outputs if v is not anchor.output])
    return rest, inner


def _schedule(node: Node[Fused]) -> Schedule:
    assert node.op.schedule is not None  # the pass before gave it one
    return node.op.schedule


def _generated(
    node: Node,
    region: Graph,
    schedule: Schedule,
    context: Context,
    places: dict[Value, Value] | None = None,
) -> Launch:
    """The kernel of a region; ``places``: the outer values behind its own, those of ``node`` by default."""
    made = _kernel_of(region, schedule, context)
    ref = context.generate(made.kernel, node.place)
    operands, writes = _operands(places or _outer(node, region), made)
    sizes = dict(zip(made.kernel.sizes, made.sizes, strict=True))
    return Launch(
        ref,
        operands,
        writes,
        made.sizes,
        *context.cost_of(ref, made.kernel).at(sizes, context.target.machine),
        in_place=_in_place(made, operands, writes),
    )


def _kernel_of(region: Graph, schedule: Schedule, context: Context) -> RegionKernel:
    """The kernel of a region, made once for equal ones: layers of a model repeat."""
    values = region_values(region)
    key, known = region_key(region), context.generated.regions
    if key not in known:
        known[key] = region_kernel(region, schedule, context.constants, region_name(region)), values
    made, theirs = known[key]
    here = dict(zip(theirs, values, strict=True))
    return replace(made, parameters=tuple(here[value] for value in made.parameters))


def _with_epilogue(
    node: Node[Fused], region: Graph, walked: Graph, anchor: Node, context: Context
) -> Launch | Run | str:
    found, result = contraction_of(anchor.op), anchor_of(walked)
    if found is None or result is None:
        return f"{anchor.op.name} has no kernel that takes an epilogue"
    launch, groups, channel_axis = found
    outer = _outer(node, region)
    inputs = tuple(None if v is None else outer[v] for v in anchor.inputs)
    known = epilogue_of(
        region, anchor, channel_axis % max(1, len(anchor.output.type.dims)), context.constants
    )
    if known is not None:
        bias, residual = (None if v is None else outer[v] for v in (known.bias, known.residual))
        epilogue = replace(known, bias=bias, residual=residual)
        made = launch(Contraction(anchor, inputs, node.output, epilogue=epilogue), context)
        if not isinstance(made, str):
            return made
    name = f"{region_name(region)}_hook"
    tail = hook_kernel(walked, _schedule(node), result.output, groups(anchor), context.constants, name)
    operands, writes = _operands(_outer(node, walked), tail)
    hook = Hook(context.generate(tail.kernel, node.place), operands, writes, tail.sizes)
    return launch(Contraction(anchor, inputs, None, hook, _tiles(node, anchor)), context)


def _tiles(node: Node, anchor: Node) -> Value | None:
    """The only result of ``node``, if it has a place for each element of the contraction's."""
    if len(node.outputs) > 1:
        return None
    alike = node.output.type == anchor.output.type and node.output.layout == anchor.output.layout
    return node.output if alike else None


def _outer(node: Node, region: Graph) -> dict[Value, Value]:
    """Values of the region that the outer graph knows: its inputs and outputs."""
    known: dict[Value, Value] = {}
    for inner, value in zip(region.inputs, node.inputs, strict=True):
        if value is not None:
            known[inner] = value
    return known | dict(zip(region.outputs, node.outputs, strict=True))


def _operands(outer: dict[Value, Value], made: RegionKernel) -> tuple[tuple[Value, ...], tuple[int, ...]]:
    first_output = len(made.parameters) - made.output_count
    return tuple(outer[v] for v in made.parameters), tuple(range(first_output, len(made.parameters)))


def _in_place(
    made: RegionKernel, operands: tuple[Value, ...], writes: tuple[int, ...]
) -> tuple[tuple[Value, Value], ...]:
    """Pairs that walk the same elements in the same order, when nothing is read after the first store."""
    if made.rereads or len(writes) > 1:
        return ()
    parameters = made.kernel.parameters
    return tuple(
        (operands[w], operands[r])
        for w in writes
        for r in range(len(operands))
        if r not in writes
        and parameters[r].shape == parameters[w].shape
        and made.walks[r] == made.walks[w] != FLAT
        and parameters[r].dtype.bytes == parameters[w].dtype.bytes
        and operands.count(operands[r]) == 1
    )
