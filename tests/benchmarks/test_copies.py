"""Launches that only move data: which kind of move, how many bytes, between which neighbors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw
from benchmarks.copies import moves_of, summary, table
from graphwright.config import Options

CASES = {
    "transpose": ([helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0, 2])], (5, 6, 7), 5 * 6 * 7),
    "slice": ([helper.make_node("Slice", ["x", "two", "six", "one"], ["y"])], (6, 4, 7), 6 * 4 * 7),
    "concat": ([helper.make_node("Concat", ["x", "x"], ["y"], axis=1)], (6, 12, 7), 2 * 6 * 6 * 7),
}


def compiled(nodes: list[object], shape: tuple[int, ...], folder: Path) -> gw.Model:
    numbers = [
        numpy_helper.from_array(np.array([k]), name) for k, name in ((1, "one"), (2, "two"), (6, "six"))
    ]
    x, y = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (6, 6, 7)), ("y", shape))
    )
    if nodes[0].op_type == "Transpose":  # type: ignore[attr-defined]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (6, 5, 7))
    graph = helper.make_graph(nodes, "moves", [x], [y], numbers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return gw.compile(
        model.SerializeToString(), options=Options(cache_dir=folder / "c", key_dir=folder / "k")
    )


@pytest.mark.parametrize("kind", CASES)
def test_a_move_is_counted_with_its_bytes(kind: str, tmp_path: Path) -> None:
    nodes, shape, elements = CASES[kind]
    moves = moves_of(compiled(nodes, shape, tmp_path))
    assert {move.kind for move in moves} == {kind}
    assert sum(move.bytes for move in moves) == 2 * 4 * elements  # read and written


def test_only_launches_that_move_data_are_counted_with_their_neighbors(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"]),
        helper.make_node("Transpose", ["t"], ["p"], perm=[2, 1, 0]),
        helper.make_node("Softmax", ["p"], ["y"], axis=1),
    ]
    model = compiled(nodes, (7, 6, 6), tmp_path)
    (move,) = moves_of(model)
    assert (move.kind, move.producers) == ("transpose", ("tanh",))
    assert move.consumers == ("softmax",)
    assert summary("m", model).startswith("| m | 3 | 1 | 0.00 |")
    assert table([move]).count("\n") == 2
