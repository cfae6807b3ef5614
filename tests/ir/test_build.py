"""Building node by node: types, facts of constants and sizes, and errors with their place."""

from __future__ import annotations

import numpy as np
import pytest

from graphwright.errors import ModelError
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.op import Fact
from graphwright.ir.symbols import minimum, symbol
from graphwright.ir.types import F16, F32, I64, tensor

from .support import ToyAdd, ToyBranch, ToyScale, builder

N = symbol("N")


def test_types_are_inferred_as_nodes_are_added() -> None:
    b, (x, y) = new_main_graph(Module(), [("x", tensor(F32, N, 1)), ("y", tensor(F32, 3))])
    value = b(ToyAdd(), x, y)
    assert value.type == tensor(F32, N, 3)
    assert b.graph.inputs == [x, y]
    assert [v.name for v in b.graph.inputs] == ["x", "y"]


def test_constants_are_typed_and_known() -> None:
    module = Module()
    b = Builder(module, new_main_graph(module, [])[0].graph)
    assert b.const(2.0, F16).type == tensor(F16)
    assert b.const([1, 2], I64).type == tensor(I64, 2)
    value = b.const(np.array([3, 4]))
    fact = b.fact(value)
    assert fact is not None
    assert fact.elements == (3, 4)
    assert fact.data is not None
    assert b.fact(None) is None


def test_facts_of_computed_values_are_their_types() -> None:
    b, (x,) = builder(Module(), x=tensor(F32, 2))
    assert b.fact(b(ToyScale(), x)) == Fact(tensor(F32, 2))


def test_nodes_are_inserted_at_the_position_of_the_builder() -> None:
    module = Module()
    b, (x,) = builder(module, x=tensor(F32, 2))
    last = b.node(ToyScale(2.0), x)
    Builder(module, b.graph, last, ["source"]).node(ToyScale(3.0), x, name="named")
    first, second = b.graph
    assert (first.op, second.op) == (ToyScale(3.0), ToyScale(2.0))
    assert (first.sources, first.name) == (("source",), "named")


def test_errors_name_the_source_nodes() -> None:
    b, (x, y) = builder(Module(), x=tensor(F32, 2), y=tensor(F32, 3))
    b.sources = ("Add_0", "Add_1")
    with pytest.raises(ModelError, match=r"Add_0 \+ Add_1: ToyAdd: axis -1 of a broadcast: 2 and 3 differ"):
        b(ToyAdd(), x, y)
    with pytest.raises(ModelError, match="ToyAdd needs input 1"):
        b(ToyAdd(), x, None)
    with pytest.raises(ModelError, match="is negative"):
        b(ToyScale(-1.0), x)
    assert len(b.graph) == 0
    assert not x.uses


def test_equalities_that_a_broadcast_cannot_prove_stay_open_or_become_guards() -> None:
    module = Module()
    b, (x, y) = builder(module, x=tensor(F32, N), y=tensor(F32, symbol("M")))
    assert b(ToyAdd(), x, y).type == tensor(F32, symbol("broadcast"))
    assert module.symbols.undecided and not module.symbols.guards
    module.symbols.assumable = None
    assert b(ToyAdd(), x, y).type == tensor(F32, N)
    (guard,) = module.symbols.guards
    assert (str(guard), guard.node) == ("N == M", "ToyAdd")
    assert not module.symbols.constraints


@pytest.mark.parametrize("first", [True, False])
def test_a_size_of_at_most_one_is_assumed_to_be_one(first: bool) -> None:
    """The size of ``x[-1:]``: equal to another one, it would make all axes 1."""
    module = Module()
    module.symbols.assume_of(None)
    shapes = [minimum(1, symbol("M")), N] if first else [N, minimum(1, symbol("M"))]
    b, (x, y) = builder(module, x=tensor(F32, shapes[0]), y=tensor(F32, shapes[1]))
    assert b(ToyAdd(), x, y).type == tensor(F32, N)
    assert [*map(str, module.symbols.guards)] == ["min(1, M) == 1"]


def test_regions_give_the_types_of_their_outputs() -> None:
    b, (x,) = builder(Module(), x=tensor(F32, 2))
    inner, (p,) = builder(Module(), "body", p=tensor(F32, 2))
    inner.graph.set_outputs([inner(ToyScale(), p), p])
    first, second = b(ToyBranch(2), x, regions=[inner.graph])
    assert first.type == second.type == tensor(F32, 2)
