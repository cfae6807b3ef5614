"""Gives a model a second form, for likely sizes, and an If that chooses between this form and the one for all
sizes.

An operator on values with two dynamic dimensions broadcasts one of them or none, depending on the sizes. A
program assumes one of these cases. If it assumes that the sizes agree, one program often runs the whole
model. Without assumptions, the model takes several programs, with nodes of ONNX Runtime between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import onnx

from graphwright.autofusion.onnxruntime.programs import LEAST_LAUNCHES, count_launches, partition_programs
from graphwright.ir.build import Builder
from graphwright.ir.clone import clone_graph, clone_module
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Graph, Module, Node
from graphwright.ir.symbols import Constraint, Expr
from graphwright.ops.control.if_ import If
from graphwright.ops.control.sizes_hold import SizesHold
from graphwright.ops.core.identity import Identity
from graphwright.passes.manager import PassManager, Scheduled

CHOICE: Final = "graphwright.likely_sizes"
"""The metadata key of the If."""


def likely_form(module: Module, passes: Sequence[Scheduled], verify: bool) -> Module | None:
    """A copy of ``module`` that assumes likely sizes; its guards are these assumptions. ``passes`` infer the
    types of the copy and simplify it.

    None if the copy has no use: one program runs ``module`` without assumptions, or the copy needs several
    programs too.
    """
    if partition_programs(module.main).is_whole and not module.symbols.undecided:
        return None
    likely = clone_module(module)
    likely.symbols.assume_of(frozenset(symbols_in(value.type for value in module.main.inputs)))
    PassManager(passes, verify).run(likely)
    pays = count_launches(likely.main) >= LEAST_LAUNCHES and bool(likely.symbols.guards)
    is_one = pays and partition_programs(likely.main).is_whole
    return likely if is_one and not likely.symbols.undecided else None


def joined_forms(general: Module, likely: Module) -> Module:
    """A copy of ``general`` whose entry chooses between its graph and that of ``likely``."""
    module = clone_module(general)
    source = module.main
    module.constants.merge(likely.constants)
    joined = Graph(source.name)
    inputs = [joined.add_input(value.type, value.name) for value in source.inputs]
    known = {**module.symbols.ranges, **likely.symbols.ranges}
    builder = Builder(module, joined)
    shaped = [value for value in inputs if value.type.shape]
    axes = tuple(tuple(_axis_name(dim) for dim in value.type.dims) for value in shaped)
    holds = builder(SizesHold(tuple(map(str, likely.symbols.guards)), axes), *shaped)
    regions = [clone_graph(likely.main, "likely_sizes"), clone_graph(source, "all_sizes")]
    choice = builder.node(If(len(source.outputs)), holds, *inputs, regions=regions)
    for value, wanted in zip(choice.outputs, source.outputs, strict=True):
        value.type = wanted.type
    module.symbols.ranges = known  # without the symbols created for results of regions
    joined.set_outputs(choice.outputs, source.output_names)
    module.graphs[source.name] = joined
    return module


def _axis_name(dim: object) -> str:
    return str(dim) if isinstance(dim, Expr) and str(dim).isidentifier() else ""


def mark_choice(model: onnx.ModelProto) -> None:
    """Notes in the metadata of the If of ``model`` that the If chooses between the two forms."""
    (choice,) = (node for node in model.graph.node if node.op_type == If.name)
    choice.metadata_props.add(key=CHOICE, value="then_branch is for likely sizes, else_branch for all")


def without_choice(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with only the form for all sizes."""
    marked = [n for n in model.graph.node if any(entry.key == CHOICE for entry in n.metadata_props)]
    if len(marked) != 1 or marked[0].op_type != If.name:
        return model
    branches = {attribute.name: attribute.g for attribute in marked[0].attribute}
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    del plain.graph.node[:]
    for node in model.graph.node:
        if node is not marked[0] and node != marked[0]:
            plain.graph.node.append(node)
    general = branches["else_branch"]
    plain.graph.node.extend(general.node)
    plain.graph.value_info.extend(general.value_info)
    for inner, name in zip(general.output, marked[0].output, strict=True):
        plain.graph.node.append(onnx.NodeProto(op_type=Identity.name, input=[inner.name], output=[name]))
    return plain


def chosen_by_sizes(graph: Graph) -> Node | None:
    """The If of ``graph`` that :func:`joined_forms` made."""
    for node in graph:
        if isinstance(node.op, SizesHold):
            return next(user for user in node.output.users if isinstance(user.op, If))
    return None


def demands_by_graph(graph: Graph) -> Mapping[Graph | None, tuple[Constraint, ...]]:
    """For the region with the form for likely sizes, if ``graph`` has one: the constraints on sizes that hold
    in it, because the If checks them.
    """
    choice = chosen_by_sizes(graph)
    if choice is None:
        return {}
    holds = choice.operand(0).producer
    assert holds is not None
    assert isinstance(holds.op, SizesHold)
    return {choice.regions[0]: holds.op.constraints}
