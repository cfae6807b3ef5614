"""ONNX models with loops, written down shortly; and what ONNX Runtime makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import graphwright as gw
from graphwright.config import Options

Array = np.ndarray[Any, Any]
Shape = Sequence[int | str] | None


def info(name: str, shape: Shape, dtype: Any = np.float32) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def const(name: str, value: Any, dtype: Any = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """``node("Add", "x y", "z")``; ``_`` is an absent input."""
    names = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(op, names, outputs.split(), outputs.split()[0], **attributes)


def body(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    constants: Sequence[onnx.TensorProto] = (),
) -> onnx.GraphProto:
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    return helper.make_graph(nodes, "body", inputs, results, constants)


NUMBER, GOES_ON = info("i", (), np.int64), info("on", (), bool)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    constants: Sequence[onnx.TensorProto] = (),
    opset: int = 18,
) -> onnx.ModelProto:
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def by_runtime(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    return [np.asarray(r) for r in session.run(None, dict(feeds))]


def compiled(proto: onnx.ModelProto, device: str = "reference", **options: Any) -> gw.Model:
    return gw.compile(
        proto, options=replace(Options.from_environment(), device=device, verify=True, **options)
    )


def by_us(proto: onnx.ModelProto, feeds: Mapping[str, Array], device: str = "reference") -> list[Array]:
    return list(compiled(proto, device).run(dict(feeds)).values())


def compare(proto: onnx.ModelProto, feeds: Mapping[str, Array], device: str = "reference") -> list[Array]:
    """Assert that both give the same; what they give."""
    expected, actual = by_runtime(proto, feeds), by_us(proto, feeds, device)
    for a, e in zip(actual, expected, strict=True):
        assert (a.dtype, a.shape) == (e.dtype, e.shape)
        np.testing.assert_allclose(a, e, rtol=2e-5, atol=2e-5)
    return actual
