"""Small models, and the same call on both engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime as theirs
from onnx import TensorProto, helper, numpy_helper

import graphwright.onnxruntime as ours

theirs.set_default_logger_severity(4)
F32, I64 = TensorProto.FLOAT, TensorProto.INT64
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)
ROW = np.array([1, 2, 4], np.float32)
FEED = {"a": ROWS, "b": ROW}

Info = tuple[str, int, Sequence[int | str | None] | None]


def built(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Info],
    outputs: Sequence[Info],
    constants: dict[str, Any] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """A model of these nodes, with texts in all places that have some."""
    graph = helper.make_graph(
        nodes,
        "the graph",
        [helper.make_tensor_value_info(*info) for info in inputs],
        [helper.make_tensor_value_info(*info) for info in outputs],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
        doc_string="about the graph",
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=9,
        producer_name="the producer",
        domain="org.example",
        model_version=7,
        doc_string="about the model",
    )
    helper.set_model_props(model, {"alphabet": "xyz"})
    return model


def sums() -> bytes:
    """``total = a + b``, ``less = -a``; ``a: f32[N, 3]``, ``b: f32[3]``."""
    nodes = [helper.make_node("Add", ["a", "b"], ["total"]), helper.make_node("Neg", ["a"], ["less"])]
    inputs = [("a", F32, ["N", 3]), ("b", F32, [3])]
    outputs = [("total", F32, ["N", 3]), ("less", F32, ["N", 3])]
    return built(nodes, inputs, outputs).SerializeToString()


def with_default() -> bytes:
    """As :func:`sums`; ``b`` is [1, 1, 1] unless it is fed."""
    model = onnx.load_from_string(sums())
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "b"))
    return model.SerializeToString()


def copied(element: int, shape: Sequence[int | str | None] = (None,)) -> bytes:
    """A model of ``y = x``."""
    node = helper.make_node("Identity", ["x"], ["y"])
    return built([node], [("x", element, shape)], [("y", element, shape)]).SerializeToString()


def outcome(call: Callable[[], Any]) -> Any:
    """The result of a call, or the name of the class that it raises."""
    try:
        return plain(call())
    except Exception as error:
        return type(error).__name__


def plain(value: Any) -> Any:
    """Arrays as their type, shape and elements, to be compared by ``==``."""
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def same(call: Callable[[ModuleType], Any]) -> Any:
    """The result of ``call(onnxruntime)``, which must be the same for both engines."""
    mine, wanted = outcome(lambda: call(ours)), outcome(lambda: call(theirs))
    assert mine == wanted
    return wanted
