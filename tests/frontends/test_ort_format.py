"""Models in ONNX Runtime's own format, written by ONNX Runtime."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import graphwright as gw
import graphwright.onnxruntime as ours
from graphwright.config import Options
from graphwright.frontends.onnx.ort_format import model_of

Array = np.ndarray[Any, Any]
REFERENCE = Options(device="reference")
FLOAT, INT64, STRING = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.STRING
rng = np.random.default_rng(2)


def ort_bytes(model: onnx.ModelProto, folder: Path) -> bytes:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(folder / "model.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    return (folder / "model.ort").read_bytes()


def model(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, Array]
) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="tests")
    helper.set_model_props(made, {"alphabet": "a b ä"})
    return made


def dense() -> onnx.ModelProto:
    """A layer with weights of 128 KiB and attributes of several types, and a branch."""
    x = helper.make_tensor_value_info("x", FLOAT, ["rows", 128])
    y = helper.make_tensor_value_info("y", FLOAT, ["rows", 256])
    branches = {
        name: helper.make_graph(
            [helper.make_node("Add", ["h", f"{name}_b"], [f"{name}_y"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_y", FLOAT, None)],
            [numpy_helper.from_array(rng.standard_normal(256).astype(np.float32), f"{name}_b")],
        )
        for name in ("then_branch", "else_branch")
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["g"], alpha=0.5, transB=1),
        helper.make_node("LeakyRelu", ["g"], ["h"], alpha=0.25),
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], **branches),
    ]
    weights = {"w": rng.standard_normal((256, 128)).astype(np.float32), "zero": np.zeros((), np.float32)}
    return model(nodes, [x], [y], weights)


def labels() -> onnx.ModelProto:
    """Strings in attributes and tensors, numbers in lists, and a sequence of maps as output."""
    x = helper.make_tensor_value_info("x", STRING, [3])
    scores = helper.make_tensor_value_info("scores", FLOAT, [2, 3])
    element = helper.make_map_type_proto(STRING, helper.make_tensor_type_proto(FLOAT, []))
    maps = helper.make_value_info("maps", helper.make_sequence_type_proto(element))
    numbers, whole = (
        helper.make_tensor_value_info(n, t, [3]) for n, t in (("numbers", FLOAT), ("same", INT64))
    )
    nodes = [
        helper.make_node(
            "LabelEncoder", ["x"], ["numbers"], domain="ai.onnx.ml", keys_strings=["a", "ä"],
            values_floats=[1.5, 2.5], default_float=-1.0,
        ),
        helper.make_node("Equal", ["x", "words"], ["equal"]),
        helper.make_node("Cast", ["equal"], ["same"], to=INT64),
        helper.make_node(
            "ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", classlabels_strings=["a", "b", "c"]
        ),
    ]  # fmt: skip
    return model(nodes, [x, scores], [numbers, whole, maps], {"words": np.array(["a", "b", "ä"], object)})


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_weights_attributes_and_branches(device: str, tmp_path: Path) -> None:
    source = dense()
    ort_bytes(source, tmp_path)
    compiled = gw.compile(tmp_path / "model.ort", options=Options(device=device, threads=1))
    session = onnxruntime.InferenceSession(source.SerializeToString())
    for sign in (-1, 1):
        x = sign * np.abs(rng.standard_normal((3, 128)).astype(np.float32))
        (found,) = compiled.run({"x": x}).values()
        np.testing.assert_allclose(found, session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-4)
    assert compiled.inputs[0].shape == ("rows", 128)


def test_the_model_equals_its_onnx_source(tmp_path: Path) -> None:
    """Apart from what ONNX Runtime does not store: its name, and opsets that it adds."""
    source = dense()
    made, weights = model_of(memoryview(ort_bytes(source, tmp_path)))
    assert list(weights) == ["w"]
    assert (made.producer_name, made.ir_version) == ("tests", source.ir_version)
    assert [(p.key, p.value) for p in made.metadata_props] == [("alphabet", "a b ä")]
    assert {o.version for o in made.opset_import if o.domain in ("", "ai.onnx")} == {19}
    assert [n.op_type for n in made.graph.node] == [n.op_type for n in source.graph.node]
    assert list(made.graph.input) == list(source.graph.input)
    assert list(made.graph.output) == list(source.graph.output)


def test_strings_and_containers(tmp_path: Path) -> None:
    source = labels()
    session = ours.InferenceSession(ort_bytes(source, tmp_path))
    expected = onnxruntime.InferenceSession(source.SerializeToString())
    feeds = {"x": np.array(["ä", "b", "a"], object), "scores": rng.random((2, 3)).astype(np.float32)}
    found, wanted = session.run(None, feeds), expected.run(None, feeds)
    for a, e in zip(found[:2], wanted[:2], strict=True):
        np.testing.assert_array_equal(a, e)
    assert found[2] == wanted[2]
    assert session.get_modelmeta().custom_metadata_map == {"alphabet": "a b ä"}


@pytest.mark.filterwarnings("ignore:.*is the model as it was read")
def test_a_session_writes_it_as_onnx(tmp_path: Path) -> None:
    options = ours.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "copy.onnx")
    ours.InferenceSession(ort_bytes(dense(), tmp_path), options)
    onnx.checker.check_model(str(tmp_path / "copy.onnx"))


def test_loading_says_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(gw.PackageError, match="it is a model in ONNX Runtime's own format"):
        gw.load(ort_bytes(labels(), tmp_path))


def test_damaged_files_are_rejected(tmp_path: Path) -> None:
    """Each cut and each changed byte is an error of the model, or has no effect on reading it."""
    data = ort_bytes(labels(), tmp_path)
    for size in range(8, len(data), 37):
        with pytest.raises(gw.ModelError, match="ONNX Runtime's own format"):
            gw.compile(data[:size], options=REFERENCE)
    for at in rng.integers(8, len(data), 60):
        changed = bytearray(data)
        changed[at] ^= int(rng.integers(1, 256))
        with suppress(gw.ModelError):
            gw.compile(bytes(changed), options=REFERENCE)


def repeated(levels: int) -> bytes:
    """A model with ``levels`` nested graphs: each has two nodes with an attribute that contains the next
    graph. Both nodes, and both attributes, are the same table.
    """
    b = flatbuffers.Builder(1024)

    def table(size: int, fields: dict[int, int]) -> int:
        b.StartObject(size)
        for number, offset in fields.items():
            b.PrependUOffsetTRelativeSlot(number, offset, 0)
        return int(b.EndObject())

    def pair(offset: int) -> int:
        b.StartVector(4, 2, 4)
        b.PrependUOffsetTRelative(offset)
        b.PrependUOffsetTRelative(offset)
        return int(b.EndVector())

    graph = table(9, {})
    for _ in range(levels):
        b.StartObject(13)
        b.PrependInt32Slot(2, onnx.AttributeProto.GRAPH, 0)
        b.PrependUOffsetTRelativeSlot(7, graph, 0)
        attribute = int(b.EndObject())
        attributes = pair(attribute)
        nodes = pair(table(13, {10: attributes}))
        graph = table(9, {2: nodes})
    b.Finish(table(4, {1: table(10, {7: graph})}), b"ORTM")
    return bytes(b.Output())


def test_tables_that_repeat_or_nest_deeply() -> None:
    with pytest.raises(gw.ModelError, match="its tables repeat"):
        gw.compile(repeated(20))
    with pytest.raises(gw.ModelError, match=r"its tables (repeat|nest deeper)"):
        gw.compile(repeated(400))
