"""Partitions of graphs: nodes on the host, subgraphs, and sizes that one step binds for later ones."""

from __future__ import annotations

import numpy as np

from graphwright.compiler.partition import GroupKind, Partition, partition
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I64, STRING, TensorType, tensor
from graphwright.ops.core.binary import Add
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.identity import Identity
from graphwright.ops.core.non_zero import NonZero
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.shape import Shape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unary import Relu
from graphwright.ops.core.unique import Unique
from graphwright.passes.dead_code import DeadCode
from graphwright.passes.fixpoints import SHAPES
from graphwright.passes.manager import run_passes

N = symbol("N")


def start(*types: TensorType) -> tuple[Module, Builder, tuple[Value, ...]]:
    module = Module()
    b, values = new_main_graph(module, [(f"x{k}", type) for k, type in enumerate(types)])
    return module, b, values


def finish(module: Module, *outputs: Value) -> Partition:
    module.main.set_outputs(outputs, [f"y{k}" for k in range(len(outputs))])
    return partition(module.main)


def names(found: Partition) -> list[tuple[str, list[str]]]:
    return [(group.kind.name, [node.op.name for node in group.nodes]) for group in found.groups]


def test_a_graph_without_python_nodes_is_one_program() -> None:
    module, b, (x,) = start(tensor(F32, N, 3))
    found = finish(module, b(Relu(), x))
    assert found.is_whole and names(found) == [("PROGRAM", ["Relu"])]


def test_a_graph_with_string_inputs_is_not_one_program() -> None:
    module, b, (x, text) = start(tensor(F32, N), tensor(STRING, 2))
    assert not finish(module, b(Relu(), x), text).is_whole


def test_nodes_of_the_host_run_before_programs_that_could_run_as_well() -> None:
    """Nodes that need both results, and nodes that need neither, are then in one program."""
    module, b, (x,) = start(tensor(F32, N))
    places = b(NonZero(), x)
    found = finish(module, b(Exp(), x), b(Add(), places, places))
    assert names(found) == [("HOST", ["NonZero"]), ("PROGRAM", ["Exp", "Add"])]


def test_programs_are_as_few_as_a_path_needs() -> None:
    module, b, (x,) = start(tensor(F32, N))
    first = b(NonZero(), b(Relu(), x))  # program, host
    second = b(Unique(0), first)[0]  # the host goes on
    third = b(NonZero(), b(Add(), second, second))  # program, host
    late, early = b(Add(), third, third), b(Exp(), x)
    found = finish(module, late, early)
    assert [kind for kind, _ in names(found)] == ["PROGRAM", "HOST", "PROGRAM", "HOST", "PROGRAM"]
    assert names(found)[0][1] == ["Relu", "Exp"] and names(found)[1][1] == ["NonZero", "Unique"]


def test_a_node_that_uses_a_size_runs_after_the_node_that_binds_it() -> None:
    module, b, (x,) = start(tensor(F32, N))
    places = b(NonZero(), b(Relu(), x))
    zeros = b(ConstantOfShape(0.0, F32, (places.type.dims[1],)))
    found = finish(module, b(Exp(), zeros), places)
    assert names(found)[1:] == [("HOST", ["NonZero"]), ("PROGRAM", ["ConstantOfShape", "Exp"])]


def test_nodes_after_an_unknown_rank_are_a_separate_program() -> None:
    module, b, (x, shape) = start(tensor(F32, N), tensor(I64, symbol("L")))
    known = [TensorType(F32, None)]
    reshaped = b(Reshape(), x, shape, known=known)
    found = finish(module, b(Exp(), reshaped, known=known), b(Relu(), x))
    kinds = {node.op.name: group.kind for group in found.groups for node in group.nodes}
    assert kinds == {"Reshape": GroupKind.HOST, "Exp": GroupKind.UNRANKED, "Relu": GroupKind.PROGRAM}
    assert found.reasons[reshaped.producer] == "the rank of its result is data-dependent"


def test_the_reason_for_a_data_dependent_size_is_given() -> None:
    module, b, (x, last) = start(tensor(F32, N), tensor(I64, 1))
    zero = b.const([0], I64)
    made = b(Slice(), x, zero, last, zero)
    found = finish(module, made)
    assert found.reasons == {made.producer: f"the size {made.type.dims[0]} is data-dependent"}


def test_a_node_that_binds_a_used_size_is_not_dead_code() -> None:
    module, b, (x,) = start(tensor(F32, N))
    places = b(NonZero(), x)
    zeros = b(ConstantOfShape(0.0, F32, (places.type.dims[1],)))
    module.main.set_outputs([zeros], ["y"])
    run_passes(module, DeadCode())
    assert [node.op.name for node in module.main] == ["NonZero", "ConstantOfShape"]
    module.main.set_outputs([b(Relu(), x)], ["y"])
    run_passes(module, DeadCode())
    assert [node.op.name for node in module.main] == ["Relu"]


def test_a_size_that_becomes_known_is_known_in_attributes_too() -> None:
    module, b, (x, y) = start(tensor(F32, 4), tensor(F32, 2))
    joined = b(Concat(0), b(Identity(), x), y)
    count = b(Shape(), b(NonZero(), joined))
    zeros = b(ConstantOfShape(), b(Slice((1,), (2,), (0,), (1,)), count))
    module.main.set_outputs([b(Exp(), zeros)], ["z"])
    run_passes(module, SHAPES)
    array = np.array([0, 1, 0, 1], np.float32)
    for value, given in ((x, array), (y, array[:2])):
        held = Constant(module.constants.add(given), value.type)
        constant = module.main.insert(Node(held, (), (value.type,)), next(iter(module.main)))
        module.main.replace_all_uses(value, constant.output)
    run_passes(module, SHAPES)
    assert module.main.outputs[0].type == tensor(F32, 3)
