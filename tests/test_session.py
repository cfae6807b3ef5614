"""Sessions answer as ONNX Runtime's do, on the same code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.errors import FeedError, ModelError
from tests.onnx_models import model_proto


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """``total = a + b``, ``larger = a > b``; ``a: f32[N, 3]``, ``b: f32[3]``."""
    nodes = [
        helper.make_node("Add", ["a", "b"], ["total"]),
        helper.make_node("Greater", ["a", "b"], ["larger"]),
    ]
    outputs = {"total": ["N", 3], "larger": (TensorProto.BOOL, ["N", 3])}
    made = model_proto(nodes, {"a": ["N", 3], "b": [3]}, outputs)
    helper.set_model_props(made, {"alphabet": "xyz"})
    onnx.save(made, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def feeds() -> dict[str, Any]:
    return {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.full(3, 2, np.float32)}


def signature(session: Any) -> list[tuple[str, str, list[Any]]]:
    return [(arg.name, arg.type, list(arg.shape)) for arg in (*session.get_inputs(), *session.get_outputs())]


@pytest.mark.parametrize("form", ["path", "bytes", "om"])
def test_sessions_are_those_of_onnxruntime(model: Path, form: str) -> None:
    source: Any = {"path": model, "bytes": model.read_bytes(), "om": model.with_suffix(".om")}[form]
    if form == "om":
        gw.compile(model).save(source)
    options = gw.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = 99  # type: ignore[attr-defined]  # ONNX Runtime's own, ignored
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    ours = gw.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    theirs = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    assert signature(ours) == signature(theirs)
    assert ours.get_modelmeta().custom_metadata_map == theirs.get_modelmeta().custom_metadata_map
    for names in (None, [], ["total"], ["larger", "total"], ["total", "total"]):
        for mine, wanted in zip(ours.run(names, feeds()), theirs.run(names, feeds()), strict=True):
            assert mine.dtype == wanted.dtype
            np.testing.assert_array_equal(mine, wanted)


def test_invalid_arguments_of_run_are_rejected(model: Path) -> None:
    session = gw.InferenceSession(model)
    with pytest.raises(FeedError, match="there is no output 'sum'"):
        session.run(["sum"], feeds())
    with pytest.raises(FeedError, match="input 'b' is missing"):
        session.run(None, {"a": feeds()["a"]})
    with pytest.raises(FeedError, match="f32, not float64"):
        session.run(None, feeds() | {"a": np.zeros((2, 3))})
    with pytest.raises(ModelError, match="not an ONNX model"):
        gw.InferenceSession(b"nothing")


@pytest.mark.parametrize(
    "element",
    [TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.UINT8, TensorProto.BFLOAT16],
)
def test_element_types_have_onnxruntimes_names(element: int, tmp_path: Path) -> None:
    info = element, [2]
    made = model_proto([helper.make_node("Identity", ["x"], ["y"])], {"x": info}, {"y": info})
    ours, theirs = (
        gw.InferenceSession(made.SerializeToString()),
        onnxruntime.InferenceSession(made.SerializeToString()),
    )
    assert signature(ours) == signature(theirs)
