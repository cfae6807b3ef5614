"""Launches that would reach beyond their operands are refused when their plan is made."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from tests.onnx_models import onnx_model
from tests.package.damage import members_of, rebuilt

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def relu() -> bytes:
    """A generated kernel."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Exp", ["r"], ["y"])]
    return onnx_model(nodes, {"x": (FLOAT, ["N", 4])}, {"y": (FLOAT, None)})


def gather() -> bytes:
    """A kernel of the library."""
    nodes = [helper.make_node("Gather", ["x", "i"], ["y"])]
    return onnx_model(nodes, {"x": (FLOAT, ["N", 4]), "i": (INT64, ["K"])}, {"y": (FLOAT, None)})


def product() -> bytes:
    """A kernel of the library with an epilogue: operands a, b, two absent, y, the epilogue, c, y."""
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["m"]),
        helper.make_node("Erf", ["m"], ["e"]),
        helper.make_node("Add", ["e", "c"], ["y"]),
    ]
    inputs = {"a": (FLOAT, ["M", 8]), "b": (FLOAT, [8, 5]), "c": (FLOAT, ["M", 5])}
    return onnx_model(nodes, inputs, {"y": (FLOAT, None)})


FEEDS: dict[Callable[[], bytes], list[Any]] = {
    relu: [np.ones((3, 4), np.float32)],
    gather: [np.ones((3, 4), np.float32), np.array([0, 2])],
    product: [np.ones(shape, np.float32) for shape in ((3, 8), (8, 5), (3, 5))],
}


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Options:
    home = tmp_path_factory.mktemp("home")
    return Options(key_dir=home / "keys", cache_dir=home / "cache")


OPERANDS, KERNEL, ARGS, GRID = 1, 3, 4, 5
"""Places in a task."""


def damaged(model: gw.Model, path: Path, change: Callable[[list[Any], int], None]) -> Path:
    """The package of ``model`` with its first task changed, given a register that holds 1000."""
    model.save(path)
    (name,) = (name for name in members_of(path) if name.endswith("tasks.json"))
    plain = json.loads(members_of(path)[name])
    plain["shape"].append([0, 1000, 0, ""])
    change(plain["tasks"][0], len(plain["shape"]) - 1)
    return rebuilt(path, path, {name: json.dumps(plain).encode()})


def grid(task: list[Any], register: int) -> None:
    task[GRID] = register


def arg(number: int) -> Callable[[list[Any], int], None]:
    def change(task: list[Any], register: int) -> None:
        task[ARGS][number] = register

    return change


def operand(number: int, other: Any) -> Callable[[list[Any], int], None]:
    def change(task: list[Any], register: int) -> None:
        task[OPERANDS][number] = task[OPERANDS][other] if isinstance(other, int) else other

    return change


def of_epilogue(task: list[Any], register: int) -> None:
    task[ARGS][-1] = register


@pytest.mark.parametrize("source", FEEDS)
def test_kernels_run_as_they_were_compiled(
    source: Callable[[], bytes], options: Options, tmp_path: Path
) -> None:
    model = gw.compile(source(), options=options)
    path = damaged(model, tmp_path / "same.om", lambda task, register: None)
    expected = model(*FEEDS[source])[0]
    np.testing.assert_array_equal(gw.load(path, trust=True, options=options)(*FEEDS[source])[0], expected)


@pytest.mark.parametrize(
    ("source", "change", "message"),
    [
        (relu, grid, "a grid of 1000"),
        (relu, arg(0), "accesses 4000 bytes of operand 0, which has 48"),
        (gather, grid, "a grid of 1000"),
        (gather, arg(3), "accesses .* bytes of operand 0"),
        (gather, arg(4), "accesses 16000 bytes of operand 0, which has 48"),
        (gather, arg(5), "accesses 8000 bytes of operand 1, which has 16"),
        (gather, arg(8), "accesses .* bytes of operand 2"),
        (gather, arg(0), "does not support these arguments"),
        (gather, operand(1, None), "needs operand 1, which is absent"),
        (product, arg(2), r"grid of 1 and \d{5} bytes of scratch, but its kernel allows a grid of 8 and"),
        (product, arg(3), "accesses 4140 bytes of operand 1, which has 160"),
        (product, of_epilogue, "accesses .* bytes of operand 6, which has 60"),
        (product, operand(0, None), "needs operand 0, which is absent"),
        (product, operand(5, 1), "does not support these arguments"),
        (product, operand(2, 5), "does not support these arguments"),
    ],
)
def test_launches_that_reach_beyond_their_operands_are_rejected(
    source: Callable[[], bytes], change: Any, message: str, options: Options, tmp_path: Path
) -> None:
    path = damaged(gw.compile(source(), options=options), tmp_path / "damaged.om", change)
    model = gw.load(path, trust=True, options=options)
    with pytest.raises(gw.FeedError, match=message):
        model(*FEEDS[source])


def branching() -> bytes:
    """Gathers in one of two branches."""
    node, info = helper.make_node, helper.make_tensor_value_info
    branches = (
        helper.make_graph([node("Gather", ["x", "i"], ["g"])], "then", [], [info("g", FLOAT, None)]),
        helper.make_graph([node("Relu", ["x"], ["r"])], "else", [], [info("r", FLOAT, None)]),
    )
    made = node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    inputs = {"c": (TensorProto.BOOL, []), "x": (FLOAT, [3, 4]), "i": (INT64, [3])}
    return onnx_model([made], inputs, {"y": (FLOAT, None)})


def test_an_invalid_launch_in_a_branch_is_rejected_when_the_branch_is_taken(
    options: Options, tmp_path: Path
) -> None:
    model, path = gw.compile(branching(), options=options), tmp_path / "branch.om"
    model.save(path)
    (name,) = (name for name in members_of(path) if name.endswith("tasks.json"))
    plain = json.loads(members_of(path)[name])
    kernels = [symbol for symbol, _ in plain["kernels"]]
    plain["shape"].append([0, 1000, 0, ""])
    (task,) = (t for t in plain["tasks"] if t[0] == 0 and kernels[t[KERNEL]] == "gw_gather")
    task[ARGS][5] = len(plain["shape"]) - 1
    loaded = gw.load(rebuilt(path, path, {name: json.dumps(plain).encode()}), trust=True, options=options)
    x, i = -np.ones((3, 4), np.float32), np.array([2, 0, 1])
    np.testing.assert_array_equal(loaded(np.array(False), x, i)[0], np.zeros((3, 4), np.float32))
    with pytest.raises(gw.GraphwrightError, match="would access memory outside its operands"):
        loaded(np.array(True), x, i)
