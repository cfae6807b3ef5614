"""Moves the largest parts of a model that programs can run without Python into Subgraph nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from graphwright.compiler.host_nodes import bound_by
from graphwright.compiler.partition import GroupKind, Partition, partition
from graphwright.frontends.onnx.translate_foreign import translate_foreign
from graphwright.fusion.outline import outline
from graphwright.fusion.region_names import region_name
from graphwright.ir.builtin.constant import Constant, constant_of
from graphwright.ir.builtin.foreign import Foreign
from graphwright.ir.builtin.fused import Fused, region_of
from graphwright.ir.builtin.subgraph import Subgraph
from graphwright.ir.clone import clone_graph, inline_region
from graphwright.ir.graph import Graph, Module, Node
from graphwright.ir.op import Trait
from graphwright.ir.op.region_op import CallOp
from graphwright.ir.symbols import Constraint, names_in, symbol
from graphwright.ops.control.sizes_hold import SizesHold
from graphwright.passes.bind_sizes import bind_sizes
from graphwright.records import dataclass, replace

LEAST_LAUNCHES = 2
"""Nodes that do more than to give memory another shape: a program of fewer has nothing to fuse."""


@dataclass(frozen=True)
class Outlined:
    """``nodes``: the new Subgraph nodes. ``outside``: the nodes that ONNX Runtime runs, and why."""

    nodes: Sequence[Node]
    outside: dict[Node, str]


def outline_programs(module: Module) -> Outlined:
    """Moves the nodes of the entry of ``module`` that programs can run, Fused nodes included, into Subgraph
    nodes; also those in branches and loops that stay with ONNX Runtime.
    """
    programs: list[Node] = []
    outside: dict[Node, str] = {}
    pending = [module.main]
    while pending:
        graph = pending.pop()
        _outline_graph(graph, programs, outside)
        pending += [region for node in graph if not isinstance(node.op, CallOp) for region in node.regions]
    return Outlined(programs, outside)


def partition_programs(graph: Graph) -> Partition:
    """The nodes of ``graph`` that programs can run, and the reasons why ONNX Runtime runs the others."""
    return partition(graph, given={node: reason for node in graph if (reason := _why_kept(node))})


def _outline_graph(graph: Graph, programs: list[Node], outside: dict[Node, str]) -> None:
    """Adds the new nodes of ``graph`` to ``programs``, and the nodes that stay in it to ``outside``."""
    found = partition_programs(graph)
    outside |= {node: reason for node, reason in found.reasons.items() if not _chooses_by_sizes(node)}
    for group in found.groups:
        if group.kind is not GroupKind.PROGRAM:
            continue
        if count_launches(group.nodes) < LEAST_LAUNCHES:
            outside |= dict.fromkeys(group.nodes, "the program would be too small to save time")
            continue
        number = len(programs)
        node = outline(graph, group.nodes, partial(Subgraph, number=number))
        region_of(node).name = region_name(region_of(node))
        programs.append(node)
    graph.sort()


def _why_kept(node: Node) -> str:
    if isinstance(node.op, Foreign):
        return "" if node.op.is_native else "graphwright cannot run the operator in a program"
    if Trait.EFFECT in node.op.traits:
        return "it has side effects"
    return "it chooses between variants of the model by sizes" if _chooses_by_sizes(node) else ""


def _chooses_by_sizes(node: Node) -> bool:
    """Whether a node is an If on sizes, or computes its condition."""
    first = node.inputs[0] if node.inputs else None
    asked = None if first is None or first.producer is None else first.producer.op
    return isinstance(node.op, SizesHold) or isinstance(asked, SizesHold)


def count_launches(nodes: Iterable[Node]) -> int:
    """The number of nodes that launch a kernel; nodes of fused regions are counted one by one."""
    inner = [n for node in nodes for n in (region_of(node) if isinstance(node.op, Fused) else (node,))]
    return sum(Trait.VIEW not in node.op.traits and not node.is_constant for node in inner)


@dataclass(frozen=True)
class ProgramModule:
    """The source of the program of a Subgraph node. ``inputs``: the positions of the operands that it
    takes; the others are constants of its own.
    """

    module: Module
    inputs: tuple[int, ...]


def program_module(module: Module, node: Node, demands: Sequence[Constraint] = ()) -> ProgramModule:
    """The region of ``node``, a node of ``module``, as a module of its own. It assumes nothing about sizes
    except the constraints of ``module`` and ``demands``, which are known to hold.
    """
    copy = Module()
    copy.constants, copy.hints = module.constants.copy(), dict(module.hints)
    main = copy.add_graph(clone_graph(region_of(node), "main"))
    inputs = _bind_constants(main, node)
    for fused in [each for each in main if isinstance(each.op, Fused)]:
        inline_region(fused, region_of(fused), [value for value in fused.inputs if value is not None])
    bound = bound_by(main.inputs, ())
    known = module.symbols.copy()
    constraints = dict.fromkeys(c for c in (*known.constraints, *demands) if c.names <= bound)
    copy.symbols = replace(known, constraints=constraints)
    translate_foreign(copy, main)
    _name_sizes(copy)
    copy.symbols.assume_nothing()
    return ProgramModule(copy, inputs)


def _name_sizes(module: Module) -> None:
    """Replaces symbols that occur only in sums of input sizes: if an input has ``P + S`` rows, the sum is
    a symbol ``T``, and ``P`` is ``T - S``.
    """
    inputs = module.main.inputs
    for value in inputs:
        for axis in range(len(value.type.dims)):
            dim = value.type.dims[axis]
            for name in sorted(names_in(dim) - bound_by(inputs, ())):
                signs = [sign for sign in (1, -1) if name not in names_in(dim - symbol(name) * sign)]
                if signs:
                    rest = dim - symbol(name) * signs[0]
                    bind_sizes(module, {name: (module.symbols.fresh("size") - rest) * signs[0]})
                    break


def _bind_constants(main: Graph, node: Node) -> tuple[int, ...]:
    """Copies the constants among the operands of ``node`` to ``main``. Returns the positions of the
    others.
    """
    first = next(iter(main))
    inputs: list[int] = []
    for position, (value, operand) in reversed(list(enumerate(zip(main.inputs, node.inputs, strict=True)))):
        constant = constant_of(operand)
        if constant is None:
            inputs.append(position)
            continue
        held = main.insert(Node(Constant(constant.value, constant.type), (), [value.type]), first).output
        held.name = value.name
        main.replace_all_uses(value, held)
        main.remove_input(position)
    return tuple(reversed(inputs))
