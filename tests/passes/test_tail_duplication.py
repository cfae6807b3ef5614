"""Branches with results of different rank: the nodes after them move into them, and results stay the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.compiler.pipeline import graph_passes
from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.symbols import Range, symbol
from graphwright.ir.types import BOOL, F32, TensorType, tensor
from graphwright.ops.control.if_ import If
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.reductions import ReduceMean
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.unary import Abs, Neg, Relu
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.passes.fixpoints import SHAPES
from graphwright.passes.infer_shapes import InferShapes
from graphwright.passes.manager import run_passes
from graphwright.passes.tail_duplication import TailDuplication

from .support import TestPrint, assert_same_meaning, copied, op_names

OPEN = TensorType(F32, None)
STEPS = ("split", "unary", "number", "other", "print", "apart")


def _split(graph: Graph, condition: Value, value: Value, other: Value, ways: Sequence[int]) -> Value:
    """An If whose regions prepend as many axes to ``value`` as ``ways`` says."""
    regions = []
    for number, axes in enumerate(ways):
        region = Graph(f"way{number}")
        taken, apart = region.add_input(value.type), region.add_input(other.type)
        made: Value = taken
        for axis in range(axes):
            made = region.append(Node(Unsqueeze((axis,)), (made,), (OPEN,))).output
        apart = region.append(Node(Neg() if number else Abs(), (apart,), (other.type,))).output
        region.set_outputs([made, apart])
        regions.append(region)
    node = graph.append(Node(If(2), (condition, value, other), (OPEN, other.type), tuple(regions)))
    return node.outputs[0]


@st.composite
def modules(draw: st.DrawFn) -> Module:
    """Up to three branches of different rank one after the other, with nodes and effects between them."""
    module = Module()
    module.symbols.ranges["N"] = Range(1, 8)
    graph = module.add_graph(Graph("main"))
    conditions = [graph.add_input(tensor(BOOL), f"c{k}") for k in range(3)]
    x, apart = (graph.add_input(tensor(F32, symbol("N")), name) for name in ("x", "z"))
    b, value, kept = Builder(module, graph), x, []
    for step in draw(st.lists(st.sampled_from(STEPS), max_size=7)):
        if step == "split" and conditions:
            ways = draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
            value = _split(graph, conditions.pop(), value, apart, ways)
            if draw(st.booleans()):
                apart = value.producer.outputs[1] if value.producer else apart
        elif step == "number":
            value = graph.append(Node(Mul(), (value, b.const(np.float32(0.5))), (OPEN,))).output
        elif step == "other":
            value = graph.append(Node(Add(), (value, apart), (OPEN,))).output
        elif step == "print":
            apart = b(TestPrint(f"print{len(graph)}"), apart)
        elif step == "apart":
            apart = b(Neg(), apart)
            kept.append(apart)
        else:
            value = graph.append(Node(Relu(), (value,), (OPEN,))).output
    flat = graph.append(Node(Reshape((-1,)), (value,), (OPEN,))).output
    graph.set_outputs([flat, apart, *kept], [f"out{k}" for k in range(2 + len(kept))])
    return module


@settings(max_examples=60, deadline=None)
@given(modules())
def test_chains_of_branches_keep_their_meaning_and_all_ranks_are_known(before: Module) -> None:
    for stages in ((SHAPES,), graph_passes()):
        after = copied(before)
        run_passes(after, *stages)
        assert_same_meaning(before, after, sizes=(3,), rtol=0)
        assert all(value.type.shape is not None for node in after.walk() for value in node.outputs)


def _doubling(count: int) -> Module:
    """``count`` branches that take an axis away or not, each followed by a few nodes."""
    module = Module()
    graph = module.add_graph(Graph("main"))
    value = graph.add_input(TensorType(F32, (4,)), "x")
    for number in range(count):
        condition = graph.add_input(tensor(BOOL), f"c{number}")
        value = _split(graph, condition, value, value, (0, 1))
        value = graph.append(Node(Relu(), (value,), (OPEN,))).output
    graph.set_outputs([graph.append(Node(ReduceMean(), (value,), (OPEN,))).output], ["mean"])
    return module


def test_a_chain_that_would_grow_too_far_stays_as_it_is_and_says_so() -> None:
    module = _doubling(30)
    (record,) = [
        r for r in run_passes(module, InferShapes(), TailDuplication(2000)) if r.name == "tail_duplication"
    ]
    assert 0 < record.counts["tails sunk into branches"] < 1000
    assert sum(1 for _ in module.walk()) <= 2000
    assert any("the module would have" in reason.why for reason in record.reasons)


def test_a_chain_of_branches_that_cannot_run_nests_no_deeper_than_allowed() -> None:
    """One branch of each node fails because its rank is too large: nothing is doubled, but regions are
    nested.
    """
    module = Module()
    graph = module.add_graph(Graph("main"))
    condition, value = graph.add_input(tensor(BOOL), "c"), graph.add_input(TensorType(F32, (4,)), "x")
    b = Builder(module, graph)
    weight = b.const(np.ones((4, 4), np.float32))
    bias = b.const(np.ones(4, np.float32))
    value = b(Unsqueeze((0,)), value)
    for _ in range(40):
        value = _split(graph, condition, value, bias, (0, 1))
        value = graph.append(Node(Gemm(), (value, weight), (OPEN,))).output
    graph.set_outputs([value], ["y"])
    records = run_passes(module, SHAPES)
    assert any("nest deeper than 32" in reason.why for record in records for reason in record.reasons)
    assert "Fail" in op_names(module)


def test_branches_of_equal_rank_are_not_changed() -> None:
    module = Module()
    graph = module.add_graph(Graph("main"))
    condition = graph.add_input(tensor(BOOL), "c")
    x = graph.add_input(tensor(F32, symbol("N"), 1), "x")
    regions = []
    for op in (Abs(), Neg()):
        region = Graph(op.name)
        made = Builder(module, region)(op, region.add_input(x.type))
        region.set_outputs([made])
        regions.append(region)
    b = Builder(module, graph)
    y = b(If(1), condition, x, regions=regions)
    graph.set_outputs([b(Squeeze((1,)), y)], ["y"])
    assert not any(record.modified for record in run_passes(module, TailDuplication()))
    assert op_names(module) == ["If", "Abs", "Neg", "Squeeze"]
