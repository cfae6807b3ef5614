"""Kernel selection: chooses the launches for every node of a fused graph."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.cost.choices import NOTHING_MEASURED, Choices
from graphwright.errors import Diagnostic, PluginError
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.interfaces.blocked_form import BlockedForm
from graphwright.ir.op import Trait
from graphwright.ir.op.plugin_ops import defined_at
from graphwright.kernels.candidates import registry
from graphwright.kernels.candidates.choose import choose
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.generated import GeneratedKernels
from graphwright.kernels.launch import (
    Alias,
    Branch,
    CarriedValue,
    Host,
    Launch,
    NativeLoop,
    Run,
    SelectedNode,
)
from graphwright.ops.control.case import Case
from graphwright.ops.control.if_ import If
from graphwright.ops.control.loop import CONDITION, Loop
from graphwright.records import dataclass
from graphwright.targets.base import Target


@dataclass(frozen=True)
class Selection:
    """The steps in order, and the kernels to compile for them."""

    steps: tuple[SelectedNode, ...]
    generated: GeneratedKernels
    chosen: Sequence[object] = ()
    """The choices between kernels, for tuning records, and a :class:`KernelChoice` for each node."""


def select_kernels(
    module: Module,
    graph: Graph,
    target: Target,
    numerics: str = "default",
    generated: GeneratedKernels | None = None,
    choices: Choices = NOTHING_MEASURED,
) -> Selection:
    """Chooses kernels for ``graph`` and the regions of its control flow. Packed constants are added to the
    graph. ``generated`` has the kernels of other graphs; those of this graph are added to it.
    """
    registry.load()
    generated = GeneratedKernels() if generated is None else generated
    context = Context(target, module.constants, module.symbols, numerics, generated, choices)
    steps = _steps(graph, context)
    return Selection(steps, context.generated, context.chosen)


def _steps(graph: Graph, context: Context) -> tuple[SelectedNode, ...]:
    nodes = [node for node in graph if not node.is_constant]
    steps = tuple(_step(node, context) for node in nodes)
    for step in steps:
        _read_packed(graph, step, context)
    return steps


def _read_packed(graph: Graph, step: SelectedNode, context: Context) -> None:
    """Lets the node read the packed constants that its launches read."""
    if not isinstance(step.action, Run):
        return
    read = {o for launch in step.action.launches if isinstance(launch, Launch) for o in launch.operands}
    for position, value in enumerate(step.node.inputs):
        for packed in context.packed_from(value) if value is not None else ():
            if packed in read:
                graph.replace_input(step.node, position, packed)


def _step(node: Node, context: Context) -> SelectedNode:
    if isinstance(node.op, If | Case):
        return SelectedNode(
            node, Branch(node.operand(0), tuple(_steps(region, context) for region in node.regions))
        )
    if isinstance(node.op, Loop):
        return SelectedNode(node, _native_loop(node, node.op, context))
    if Trait.VIEW in node.op.traits:
        return SelectedNode(node, Alias(node.operand(0)))
    choice = choose(node, context)
    if (remark := choice.remark(node)) is not None:
        context.chosen.append(remark)
    if choice.action is not None:
        return SelectedNode(node, choice.action, choice.alternatives)
    values = (*node.inputs, *node.outputs)
    if isinstance(node.op, BlockedForm) and any(value is not None and value.layout for value in values):
        raise _no_kernel_on_blocks(node, choice.reasons)
    return SelectedNode(node, Host("; ".join(choice.reasons) or f"{node.op.name} has no native kernel"))


def _no_kernel_on_blocks(node: Node, reasons: Sequence[str]) -> PluginError:
    """The error for an op whose ``blocked_form`` promises a kernel that does not exist; references need
    row-major operands.
    """
    op = type(node.op)
    message = f"{op.name} accepts channel-blocked layouts, but no kernel does: {'; '.join(reasons) or 'none'}"
    hint = "register a candidate that accepts these layouts, or return a reason from blocked_form"
    return PluginError(Diagnostic("plugin-layout", f"{message} (node {node.location})", defined_at(op), hint))


def _native_loop(node: Node, loop: Loop, context: Context) -> NativeLoop:
    where, region = loop.loop_carried(), node.regions[0]
    first, last = where.start, where.start + where.count
    starts = [node.operand(k) for k in range(first, last)]
    received = region.inputs[where.received]
    carried = list(map(CarriedValue, starts, received, region.outputs[where.result :], node.outputs))
    condition = Value(CONDITION, "condition") if loop.conditional else None
    if condition is not None:  # neither the body nor code after the loop reads it
        carried.append(CarriedValue(node.operand(loop.counted), condition, region.outputs[0], condition))
    scanned = region.outputs[where.result + where.count :]
    count = node.operand(0) if loop.counted else None
    vector = count is not None and count.type.rank == 1
    shared = zip(node.inputs[last:], region.inputs[where.receive + where.count :], strict=True)
    return NativeLoop(
        _steps(region, context),
        region.inputs[0],
        tuple(carried),
        tuple(zip(scanned, node.outputs[where.count :], strict=True)),
        tuple((outer, inner) for outer, inner in shared if outer is not None),
        count.type.dims[0] if count is not None and vector else loop.trips,
        None if vector else count,
        condition,
    )


def host_steps(steps: Sequence[SelectedNode]) -> list[tuple[Node, str]]:
    """Nodes that run in Python, with the reason."""
    found: list[tuple[Node, str]] = []
    for step in steps:
        if isinstance(step.action, Host):
            found.append((step.node, step.action.reason))
        for block in step.blocks:
            found += host_steps(block)
    return found
