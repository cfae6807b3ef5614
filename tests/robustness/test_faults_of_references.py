"""What an op's NumPy reference raises reaches the caller as a GraphwrightError that names the node."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

import graphwright as gw
from graphwright.ir.types import F32, I64
from graphwright.low_ir.tasks import HostFunction
from graphwright.runtime.executor import RunError
from graphwright.runtime.host_program.host_call import host_callable
from tests.onnx_models import model_proto

REFERENCE = gw.CompileOptions(device="reference")


def model(*nodes: NodeProto, dims: tuple[object, ...] = (2, "n"), indices: int = 1) -> bytes:
    inputs = {"x": list(dims), "i": (TensorProto.INT64, [indices])}
    return bytes(model_proto(nodes, inputs, {"y": None}).SerializeToString())


def test_an_index_out_of_range() -> None:
    compiled = gw.compile(model(helper.make_node("Gather", ["x", "i"], ["y"], "pick")), options=REFERENCE)
    feeds = {"x": np.zeros((2, 3), np.float32), "i": np.array([7])}
    with pytest.raises(RunError, match=r"(?s)pick.*7"):
        compiled.run(feeds)


def test_shapes_that_the_inputs_do_not_take() -> None:
    compiled = gw.compile(model(helper.make_node("Gather", ["x", "i"], ["y"], "pick")), options=REFERENCE)
    for shape in ((3, 3), (2,), (2, 3, 1)):
        with pytest.raises(gw.FeedError, match="x"):
            compiled.run({"x": np.zeros(shape, np.float32), "i": np.array([0])})


def test_a_constraint_that_fails() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "to"], ["r"], "fold"),
        helper.make_node("Constant", [], ["to"], value_ints=[2, 3]),
        helper.make_node("Gather", ["r", "i"], ["y"], "pick"),
    ]
    compiled = gw.compile(model(nodes[1], nodes[0], nodes[2]), options=REFERENCE)
    compiled.run({"x": np.zeros((2, 3), np.float32), "i": np.array([1])})
    with pytest.raises(gw.FeedError, match="axis 1 of 'x' must be 3, but is 5"):
        compiled.run({"x": np.zeros((2, 5), np.float32), "i": np.array([1])})


def test_inputs_of_unknown_rank_are_evaluated() -> None:
    node = helper.make_node("Neg", ["x"], ["y"])
    compiled = gw.compile(model_proto([node], {"x": None}, {"y": None}), options=REFERENCE)
    np.testing.assert_array_equal(compiled(np.array([[1, 2]], np.float32))[0], [[-1, -2]])


def test_a_host_call_on_what_its_op_cannot_take() -> None:
    host = HostFunction("Gather(axis=0)", ((F32, (0,)), (I64, (0,))), ((F32, (0,)),))
    call = host_callable(host)
    x, i, y = np.arange(3, dtype=np.float32), np.array([1, 2]), np.zeros(2, np.float32)
    operands = [(memoryview(a).cast("B"), a.shape) for a in (x, i, y)]
    call(operands[:2], operands[2:])
    np.testing.assert_array_equal(y, [1, 2])
    i[0] = 9
    with pytest.raises(RunError, match="Gather"):
        call(operands[:2], operands[2:])
