"""Predicted gains of edits: parts in closed form on a made-up machine, and where an operation is computed."""

from __future__ import annotations

import math

import pytest

from graphwright.cost.machine import MACHINES, Level, Machine
from graphwright.fusion.edit_model import FEATURES, KINDS, EditModel, kind_of
from graphwright.fusion.kernel_cost import OVERLAP, roofline
from graphwright.fusion.kernel_nodes import KernelNodes
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.op import Op
from graphwright.ir.types import F32, tensor
from graphwright.ops.core.binary import Add
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.unary import Neg, Relu, Tanh

ROUND = Machine(
    vector_bytes=64,
    clock_mhz=1000,
    f32_gflops=100,
    i8_gops=200,
    bf16_gflops=200,
    l1=Level(1000, 100, 100),
    l2=Level(100_000, 50, 50),
    l3=Level(1_000_000, 20, 20),
    memory=Level(1 << 62, 10, 10),
)
MODEL = EditModel(ROUND, {kind: {"roofline": 1.0} for kind in KINDS})


def chain(*ops: Op, rows: int = 64, columns: int = 64) -> list[Node]:
    """``ops`` one after the other on a matrix."""
    module = Module()
    b, (value,) = new_main_graph(module, [("x", tensor(F32, rows, columns))])
    made: list[Node] = []
    for op in ops:
        value = b(op, value)
        assert value.producer is not None
        made.append(value.producer)
    module.main.set_outputs([value])
    return made


def product(*ops: Op) -> list[Node]:
    """A matrix product, and ``ops`` on its result."""
    module = Module()
    b, (x, w) = new_main_graph(module, [("x", tensor(F32, 64, 32)), ("w", tensor(F32, 32, 64))])
    value: Value = b(MatMul(), x, w)
    assert value.producer is not None
    made = [value.producer]
    for op in ops:
        value = b(op, value)
        assert value.producer is not None
        made.append(value.producer)
    module.main.set_outputs([value])
    return made


def test_a_merge_saves_a_launch_and_the_intermediate_value() -> None:
    """Three matrices of 16 KiB fit in the L2 cache; each kernel moves two of them."""
    nodes = chain(Neg(), Relu())
    before = [KernelNodes.of([node]) for node in nodes]
    streams = 2 * 4 * 64 * 64 / 50
    arithmetic = 256 * 0.625  # of 256 vectors, a cycle each ns
    time = ROUND.launch_ns + streams + OVERLAP * arithmetic
    assert MODEL.costs.nanoseconds(before[:1]) == pytest.approx(time)
    features = MODEL.features(before, [KernelNodes.of(nodes)])
    after = ROUND.launch_ns + streams + OVERLAP * 2 * arithmetic
    assert features["roofline"] == pytest.approx(math.log(after / (2 * time)))
    assert features["streams"] == pytest.approx(-streams / (2 * time))
    assert MODEL.predict(before, [KernelNodes.of(nodes)]) == pytest.approx(features["roofline"])


def test_an_edit_that_changes_nothing_gains_nothing() -> None:
    tasks = [KernelNodes.of(product(Tanh()))]
    model = EditModel(ROUND, {kind: dict.fromkeys(FEATURES, 1.0) for kind in KINDS})
    assert model.predict(tasks, tasks) == 0


def test_features_are_the_same_whatever_the_order_of_tasks() -> None:
    nodes = chain(Neg(), Relu(), Tanh())
    before = [KernelNodes.of([node]) for node in nodes]
    once = MODEL.features(before, [KernelNodes.of(nodes)])
    again = MODEL.features(before[::-1], [KernelNodes.of(nodes)])
    assert tuple(once) == FEATURES
    assert once == pytest.approx(again)


def test_values_from_outside_may_lie_in_memory() -> None:
    nodes = chain(Neg(), Relu())
    before, after = [KernelNodes.of([node]) for node in nodes], [KernelNodes.of(nodes)]
    hot, cold = MODEL.features(before, after), MODEL.features(before, after, ROUND.memory)
    assert hot["streams"] < cold["streams"] < 0  # what is fed, or given back, is moved once either way
    assert hot["roofline"] < cold["roofline"] < 0


def test_simple_steps_fit_the_store_and_functions_go_to_the_hook() -> None:
    expected = {
        "store_cheap": 256 * 0.625,
        "hook_costly": 256 * 30 * 0.625,
        "hook_call": 5 * 4 * ROUND.hook_call_ns,
    }
    for op, parts in ((Relu(), ["store_cheap"]), (Tanh(), ["hook_costly", "hook_call"])):
        nodes = product(op)
        apart = [KernelNodes.of([node]) for node in nodes]
        features = MODEL.features(apart, [KernelNodes.of(nodes)])
        time = MODEL.costs.nanoseconds(apart)
        more = {name: value * time for name, value in features.items() if value > 0}
        assert more == pytest.approx({name: expected[name] for name in parts})


def test_coefficients_are_those_of_the_kind() -> None:
    flat, hooked = chain(Neg(), Tanh()), product(Tanh())
    model = EditModel(ROUND, {"epilogue": {"roofline": 2.0}, "loops": {"roofline": 3.0}})
    for nodes, kind, factor in ((flat, "loops", 3), (hooked, "epilogue", 2)):
        before, after = [KernelNodes.of([node]) for node in nodes], [KernelNodes.of(nodes)]
        assert kind_of(before, after) == kind
        assert model.predict(before, after) == pytest.approx(factor * MODEL.predict(before, after))
    assert kind_of([KernelNodes.of(hooked[:1])], [KernelNodes.of(hooked[:1])]) == "loops"


def test_rows_beyond_the_cache_are_loaded_again() -> None:
    def spilled(columns: int) -> float:
        module = Module()
        b, (x,) = new_main_graph(module, [("x", tensor(F32, 8, columns))])
        total = b(ReduceSum((1,)), x)
        module.main.set_outputs([b(ReduceSum((1,)), b(Add(), x, total))])
        nodes = list(module.main)
        return MODEL.features(
            [KernelNodes.of(nodes[:1]), KernelNodes.of(nodes[1:])], [KernelNodes.of(nodes)]
        )["spill"]

    assert spilled(100) == 0
    assert spilled(1000) > 0


def test_a_roofline_overlaps_streams_and_arithmetic() -> None:
    assert roofline({"launch": 10, "streams": 100, "flat_cheap": 50}) == 10 + 100 + OVERLAP * 50
    assert roofline({"launch": 10, "streams": 20, "hook_costly": 50}) == 10 + 50 + OVERLAP * 20


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("size", [0, 1, 17, 1 << 30])
def test_any_size_has_a_prediction(machine: Machine, size: int) -> None:
    nodes = chain(Neg(), ReduceSum((1,)), rows=size, columns=size)
    features = EditModel(machine, {}).features([KernelNodes.of([n]) for n in nodes], [KernelNodes.of(nodes)])
    assert all(map(math.isfinite, features.values()))


def test_a_dot_product_with_an_epilogue_is_one_tile() -> None:
    """A product of two vectors has no axes."""
    module = Module()
    b, (x, y) = new_main_graph(module, [("x", tensor(F32, 8)), ("y", tensor(F32, 8))])
    dot = b(MatMul(), x, y)
    value = b(Tanh(), dot)
    module.main.set_outputs([value])
    assert dot.producer is not None and value.producer is not None
    (parts,) = MODEL.costs.parts([KernelNodes.of([dot.producer, value.producer])])
    assert parts["hook_call"] == ROUND.hook_call_ns
    assert "aliased" not in parts
