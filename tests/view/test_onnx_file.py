"""A picture as an ONNX model: it passes onnx's checker, so viewers can open it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import onnx
import pytest

from graphwright.view.stages import NAMES
from tests.tools.support import graphwright
from tests.view.support import hostile, layers


def written(model: onnx.ModelProto, folder: Path, stage: str) -> onnx.ModelProto:
    onnx.save(model, folder / "m.onnx")
    done = graphwright("view", folder / "m.onnx", "--stage", stage, "--onnx", folder / "out.onnx")
    assert done.exit_code == 0, done.stderr
    made = onnx.load(folder / "out.onnx")
    onnx.checker.check_model(made)
    return made


def props(node: onnx.NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}


@pytest.mark.parametrize("stage", NAMES)
def test_each_stage_is_a_valid_graph_with_all_sources(stage: str, tmp_path: Path) -> None:
    made = written(layers(3), tmp_path, stage)
    assert [len(made.graph.input), len(made.graph.output)] == [1, 1]
    sources = {name for node in made.graph.node for name in json.loads(props(node)["graphwright.sources"])}
    assert sources == {node.name for node in layers(3).graph.node}
    known = {value.name for value in made.graph.input}
    for node in made.graph.node:  # each value is made before it is read
        assert known.issuperset(node.input)
        known.update(node.output)
    assert {value.name for value in made.graph.output} <= known


def test_regions_are_functions_with_the_bytes_that_they_move(tmp_path: Path) -> None:
    made = written(layers(3), tmp_path, "fused")
    assert [node.name for node in made.graph.node] == [
        f"encoder/layer.{k}/MatMul + Add + Relu" for k in range(3)
    ]
    assert {props(node)["graphwright.bytes"] for node in made.graph.node} == {str(2 * 4 * 8 * 4)}
    assert sorted(each.name for each in made.functions) == sorted(node.op_type for node in made.graph.node)
    for function in made.functions:
        assert Counter(node.op_type for node in function.node) == {"MatMul": 1, "Add": 1, "Relu": 1}


def test_a_region_of_one_op_does_not_call_itself(tmp_path: Path) -> None:
    """A Relu is a kernel of its own, and another one is an epilogue: functions are not recursive."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[8, 8] x, float[8, 8] w) => (float[8, 8] y) {
        [first] a = Relu (x)
        [product] b = MatMul (a, w)
        [last] y = Relu (b)
    }"""
    made = written(onnx.parser.parse_model(text), tmp_path, "fused")
    (region,) = [each for each in made.functions if len(each.node) == 1]
    assert region.name == region.node[0].op_type == "Relu"
    calls = {(each.domain, each.name): {(n.domain, n.op_type) for n in each.node} for each in made.functions}
    assert all(calls.keys().isdisjoint(called) for called in calls.values())


def test_tasks_name_their_kernels_and_times(tmp_path: Path) -> None:
    made = written(layers(3), tmp_path, "tasks")
    for node in made.graph.node:
        known = props(node)
        assert known["graphwright.kernel"] and int(known["graphwright.predicted_ns"]) > 0


def test_hostile_names_become_valid_op_types(tmp_path: Path) -> None:
    made = written(hostile(), tmp_path, "imported")
    assert len(made.graph.node) == 2 and all(node.op_type.isidentifier() for node in made.graph.node)


def test_misuse_is_an_error_and_writes_nothing(tmp_path: Path) -> None:
    onnx.save(layers(1), tmp_path / "m.onnx")
    for arguments in (["-o", tmp_path / "m.html"], ["--stage", "fused", "--stage", "tasks"]):
        done = graphwright("view", tmp_path / "m.onnx", "--onnx", tmp_path / "out.onnx", *arguments)
        assert done.exit_code == 2 and not (tmp_path / "out.onnx").exists()
