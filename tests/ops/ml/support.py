"""Models of one node of ``ai.onnx.ml``, and the comparison with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

import graphwright as gw

Array = np.ndarray[Any, Any]
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
CLASSIFIERS = {"LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"}
DTYPES = (np.float32, np.float64, np.int64, np.int32)


def model_of(op_type: str, inputs: dict[str, Any], version: int = 1, **attributes: Any) -> bytes:
    """A model of one node, whose inputs have dynamic first axes."""
    outputs = ["labels", "scores"] if op_type in CLASSIFIERS else ["y"]
    given = {name: value for name, value in attributes.items() if value is not None}
    node = helper.make_node(op_type, list(inputs), outputs, domain="ai.onnx.ml", **given)
    typed = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(x.dtype), [f"{name}_rows", *x.shape[1:]]
        )
        for name, x in inputs.items()
    ]
    graph = helper.make_graph([node], "g", typed, [onnx.ValueInfoProto(name=name) for name in outputs])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    return model


def runtime(model: bytes, inputs: dict[str, Any]) -> list[Any]:
    """The outputs of ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    made: list[Any] = onnxruntime.InferenceSession(model, options).run(None, inputs)
    return made


def compare(op_type: str, x: Array, version: int = 1, tolerance: float = 2e-5, **attributes: Any) -> None:
    """Asserts that a node has the same outputs in both engines."""
    model = model_of(op_type, {"x": x}, version, **attributes)
    assert_same(gw.compile(model)(x), runtime(model, {"x": x}), tolerance)


def assert_same(actual: Sequence[Any], expected: Sequence[Any], tolerance: float = 2e-5) -> None:
    for a, e in zip(actual, expected, strict=True):
        if isinstance(e, list):
            assert [list(row) for row in a] == [list(row) for row in e]
            a, e = (np.array([list(row.values()) for row in rows]) for rows in (a, e))
        assert (a.dtype, a.shape) == (e.dtype, e.shape)
        if e.dtype == object:
            assert a.tolist() == e.tolist()
        else:
            scale = float(np.abs(e[np.isfinite(e)]).max(initial=1.0))
            np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance * scale)


def rows(count: int, features: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    return (np.random.default_rng(seed).normal(size=(count, features)) * 2).astype(dtype)


def numbers(*shape: int, seed: int = 1) -> list[float]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32).ravel().tolist()


def labels_of(count: int, strings: bool, integers: str) -> dict[str, Any]:
    """The attribute of ``count`` labels."""
    if strings:
        return {"classlabels_strings": [f"class {k}" for k in range(count)]}
    return {integers: [7 * k - 3 for k in range(count)]}
