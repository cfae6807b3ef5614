"""Types that a model declares for its outputs, against those that its nodes compute."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from tests.onnx_models import onnx_model

X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


@pytest.mark.parametrize(
    ("op", "declared", "said"),
    [
        ("Relu", TensorProto.INT64, r"tensor\(int64\), but the node computes tensor\(float\)"),
        ("ArgMax", TensorProto.FLOAT, r"tensor\(float\), but the node computes tensor\(int64\)"),
        ("SequenceConstruct", TensorProto.FLOAT, r"but the node computes seq\(tensor\(float\)\)"),
    ],
)
def test_another_element_type_is_an_error_that_names_both(op: str, declared: int, said: str) -> None:
    model = onnx_model([helper.make_node(op, ["x"], ["y"], "it")], {"x": [2, 3]}, {"y": (declared, None)})
    with pytest.raises(gw.ModelError, match=rf"it: output 'y' is declared as (?s:.*){said}"):
        gw.compile(model)


def test_another_element_type_in_a_branch_is_an_error() -> None:
    def branch(name: str, declared: int) -> onnx.GraphProto:
        info = helper.make_tensor_value_info(name, declared, None)
        return helper.make_graph([helper.make_node("Relu", ["x"], [name])], name, [], [info])

    branches = {"then_branch": branch("t", TensorProto.FLOAT), "else_branch": branch("e", TensorProto.DOUBLE)}
    node = helper.make_node("If", ["c"], ["y"], "choice", **branches)
    model = onnx_model([node], {"x": [2, 3], "c": (TensorProto.BOOL, [])}, {"y": [2, 3]})
    with pytest.raises(gw.ModelError, match=r"Relu:e: output 'e' is declared as tensor\(double\)"):
        gw.compile(model)


@pytest.mark.parametrize("declared", [[2, 4], [6], [2, 3, 1]])
def test_another_shape_is_a_warning(declared: list[int], caplog: pytest.LogCaptureFixture) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], "it")
    model = gw.compile(onnx_model([node], {"x": [2, 3]}, {"y": declared}))
    assert f"it: output 'y' is declared as {declared}, but is f32[2, 3]" in caplog.text
    np.testing.assert_array_equal(model(X)[0], [[0, 2, 0], [4, 0, 6]])


@pytest.mark.parametrize("declared", [None, ["N", 3], [0, -1], [2, 3]])
def test_a_shape_that_leaves_sizes_open_is_no_contradiction(
    declared: list[int | str] | None, caplog: pytest.LogCaptureFixture
) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], "it")
    model = gw.compile(onnx_model([node], {"x": [2, 3]}, {"y": declared}))
    np.testing.assert_array_equal(model(X)[0], [[0, 2, 0], [4, 0, 6]])
    assert not caplog.text


def test_an_output_without_a_type_has_that_of_its_node() -> None:
    model = onnx.load_from_string(
        onnx_model([helper.make_node("ArgMax", ["x"], ["y"])], {"x": [2, 3]}, {"y": None})
    )
    model.graph.output[0].ClearField("type")
    np.testing.assert_array_equal(gw.compile(model)(X)[0], [[1, 0, 1]])
