"""Regions in regions: their depth, and Python's limit of recursion meanwhile."""

from __future__ import annotations

import sys

import numpy as np
import onnxruntime
import pytest

import graphwright as gw
from benchmarks.synthetic_models import functions, loops
from graphwright.errors import ModelError
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.graph import Graph, Module, Node, Role, Signature, Value
from graphwright.ir.nesting import MAX_DEPTH, deep_calls, region_depth
from graphwright.ir.types import BOOL, F32, tensor
from graphwright.ops.control.if_ import If
from graphwright.ops.core.unary import Neg, Tanh

X = tensor(F32, 2, 3)


def nested(depth: int) -> Module:
    """``depth`` Ifs inside of each other: tanh in each where the condition holds, else the negated value."""
    module = Module()
    inner: Graph | None = None
    for level in range(depth):
        region, condition, x = _region(module, f"then_{level}")
        y = Builder(module, region)(Tanh(), x)
        region.set_outputs([_branch(module, region, condition, y, inner, level) if inner else y])
        inner = region
    builder, _ = new_main_graph(module)
    condition, x = builder.graph.add_input(tensor(BOOL), "condition"), builder.graph.add_input(X, "x")
    builder.graph.set_outputs([_branch(module, builder.graph, condition, x, inner, depth)], ["y"])
    module.signatures["main"] = Signature((Role.DATA, Role.DATA))
    return module


def _region(module: Module, name: str) -> tuple[Graph, Value, Value]:
    graph = Graph(name)
    return graph, graph.add_input(tensor(BOOL), "condition"), graph.add_input(X, "x")


def _branch(module: Module, graph: Graph, condition: Value, x: Value, inner: Graph | None, n: int) -> Value:
    other, _, given = _region(module, f"else_{n}")
    other.set_outputs([Builder(module, other)(Neg(), given)])
    assert inner is not None
    return graph.append(Node(If(1), (condition, condition, x), [X], (inner, other), f"if_{n}")).output


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_the_depth_is_the_number_of_levels(depth: int) -> None:
    assert region_depth([nested(depth).main]) == depth
    assert region_depth([]) == -1 and region_depth([Graph("empty")]) == 0


def test_a_walk_visits_every_node_once_after_its_owner() -> None:
    depth = 2000  # deeper than Python calls
    nodes = list(nested(depth).walk())
    assert len(nodes) == len(set(nodes)) == 3 * depth
    assert [node.name for node in nodes if isinstance(node.op, If)] == [
        f"if_{k}" for k in range(depth, 0, -1)
    ]


def test_the_limit_of_recursion_is_given_back() -> None:
    before = sys.getrecursionlimit()
    with deep_calls(100):
        outer = sys.getrecursionlimit()
        with deep_calls(3):
            assert sys.getrecursionlimit() == outer > before
        assert sys.getrecursionlimit() == outer
        with pytest.raises(KeyError), deep_calls(200):
            assert sys.getrecursionlimit() > outer
            raise KeyError
    assert sys.getrecursionlimit() == before


def test_deep_branches_compile_and_run() -> None:
    depth = 120  # more than the limit of recursion lets every pass follow
    model = gw.compile(nested(depth))
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    expected = x.astype(np.float64)
    for _ in range(depth):
        expected = np.tanh(expected)
    np.testing.assert_allclose(model(np.array(True), x)[0], expected, atol=1e-5)
    np.testing.assert_array_equal(model(np.array(False), x)[0], -x)


def test_branches_beyond_the_bound_are_rejected() -> None:
    with pytest.raises(ModelError, match=f"nest {MAX_DEPTH + 1} levels deep, but at most {MAX_DEPTH}"):
        gw.compile(nested(MAX_DEPTH + 1))


def test_functions_may_nest_as_deep_as_regions() -> None:
    x = np.linspace(-2, 2, 64, dtype=np.float32).reshape(4, 16)
    expected = x.astype(np.float64)
    for k in range(300):
        expected = np.maximum(expected, 0) if k % 2 else np.tanh(expected)
    np.testing.assert_allclose(gw.compile(functions(300))(x)[0], np.abs(expected), atol=1e-5)
    with pytest.raises(ModelError, match=f"nest deeper than {MAX_DEPTH}"):
        gw.compile(functions(MAX_DEPTH + 2))


def test_loops_in_loops_are_inferred_once_a_level() -> None:
    """Two inferences per level would be 2 ** 25 in all, which would take too long."""
    proto = loops(25)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.linspace(-2, 2, 64, dtype=np.float32).reshape(4, 16)
    feeds = {"x": x, "trips": np.array(1), "condition": np.array(True)}
    np.testing.assert_allclose(gw.compile(proto).run(feeds)["y"], session.run(None, feeds)[0], atol=1e-6)
