"""Branches of an If whose nodes are invalid for the sizes of the model: they fail only if they are taken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.autofusion.autofuse import Request, autofuse
from graphwright.runtime.executor import RunError
from tests.onnx_models import model_proto

X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
RESHAPE = helper.make_node("Reshape", ["x", "four"], ["t"], "reshape")
MATMUL = helper.make_node("MatMul", ["x", "x"], ["t"], "product")
NEG = helper.make_node("Neg", ["x"], ["e"], "negative")


def choice(then: Sequence[onnx.NodeProto], otherwise: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    """``then`` if the input c is true, else ``otherwise``."""

    def branch(nodes: Sequence[onnx.NodeProto]) -> onnx.GraphProto:
        (name,) = nodes[-1].output
        return helper.make_graph(
            nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)]
        )

    node = helper.make_node("If", ["c"], ["y"], "it", then_branch=branch(then), else_branch=branch(otherwise))
    inputs = {"c": (TensorProto.BOOL, []), "x": [2, 3]}
    return model_proto([node], inputs, {"y": None}, {"four": np.array([4])})


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (RESHAPE, r"reshape: Reshape: numbers of elements of \[2, 3\] and \[4\]: 6 and 4 differ"),
        (MATMUL, r"product: MatMul: f32\[2, 3\] @ f32\[2, 3\]: 3 and 2 differ"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_the_other_branch_runs(
    node: onnx.NodeProto, said: str, is_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    branches = [[node], [NEG]] if is_first else [[NEG], [node]]
    model = gw.compile(choice(*branches))
    assert "_branch fails if it is taken: " in caplog.text
    np.testing.assert_array_equal(model(np.array(not is_first), X)[0], -X)
    with pytest.raises(RunError, match=rf"{said}: the model chose a branch that cannot run"):
        model(np.array(is_first), X)


def test_such_a_branch_survives_export_and_import() -> None:
    once = autofuse(choice([RESHAPE], [NEG]), Request()).model.with_weights()
    twice = autofuse(once, Request(redo=True)).model.with_weights()
    np.testing.assert_array_equal(gw.compile(twice)(np.array(False), X)[0], -X)


def test_if_no_branch_can_run_the_faults_of_all_are_reported() -> None:
    with pytest.raises(gw.ModelError, match=r"Reshape: numbers of elements (?s:.*)MatMul: f32\[2, 3\] @ f32"):
        gw.compile(choice([RESHAPE], [MATMUL]))


def test_other_faults_of_a_branch_are_errors() -> None:
    ghost = helper.make_node("Relu", ["ghost"], ["t"], "ghostly")
    with pytest.raises(gw.ModelError, match="'ghost' is not produced by any node"):
        gw.compile(choice([ghost], [NEG]))
    both = helper.make_node("Add", ["t", "ghost"], ["u"], "ghostly")
    with pytest.raises(gw.ModelError, match=r"numbers of elements (?s:.*)'ghost' is not produced"):
        gw.compile(choice([RESHAPE, both], [NEG]))
    unknown = helper.make_node("NoSuchOp", ["t"], ["u"])
    with pytest.raises(gw.ModelError, match="NoSuchOp"):
        gw.compile(choice([RESHAPE, unknown], [NEG]))


def test_branches_that_a_function_receives_as_attributes_read_values_of_the_caller() -> None:
    """The same branch, once as an attribute of the call, and once in place."""
    call = choice([RESHAPE], [NEG])
    (node,) = call.graph.node
    inner = helper.make_node("If", ["c"], ["y"])
    for attribute in node.attribute:
        reference = inner.attribute.add(name=attribute.name, type=onnx.AttributeProto.GRAPH)
        reference.ref_attr_name = attribute.name
    opset = [helper.make_opsetid("", 17)]
    names = [attribute.name for attribute in node.attribute]
    call.functions.append(helper.make_function("own", "Choose", ["c"], ["y"], [inner], opset, names))
    call.opset_import.append(helper.make_opsetid("own", 1))
    node.op_type, node.domain = "Choose", "own"
    np.testing.assert_array_equal(gw.compile(call)(np.array(False), X)[0], -X)
