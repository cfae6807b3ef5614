"""Ops of ``ai.onnx.ml`` on maps compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from tests.ops.ml.support import assert_same, labels_of, model_of, rows, runtime


@pytest.mark.parametrize("strings", [True, False])
@pytest.mark.parametrize("shape", [(4, 3), (3,)])
def test_zip_maps_are_those_of_onnx_runtime(strings: bool, shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 8
    labels = labels_of(3, strings, "classlabels_int64s")
    model = model_of("ZipMap", {"x": x}, **labels)
    (made,), (wanted,) = gw.compile(model)(x), runtime(model, {"x": x})
    assert made == wanted
    assert [type(v) for row in made for pair in row.items() for v in pair] == [
        type(v) for row in wanted for pair in row.items() for v in pair
    ]


def test_each_run_returns_new_maps() -> None:
    x = rows(3, 2)
    model = gw.compile(model_of("ZipMap", {"x": x}, classlabels_int64s=[5, 7]))
    wanted: Any = [dict(zip((5, 7), row, strict=True)) for row in x.tolist()]
    (made,) = model(x)
    assert made == wanted
    for each in made:
        each.clear()
    assert model(x) == (wanted,)
    assert model(rows(0, 2)) == ([],)


def mapped(op_type: str, key: int, element: int, **attributes: Any) -> bytes:
    """A model of one node that takes a map."""
    value = helper.make_tensor_type_proto(element, [])
    info = helper.make_value_info("x", helper.make_map_type_proto(key, value))
    node = helper.make_node(op_type, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], "g", [info], [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    return model


T = TensorProto


@pytest.mark.parametrize(
    ("model", "fed"),
    [
        (
            mapped("DictVectorizer", T.STRING, T.FLOAT, string_vocabulary=["b", "a", "?"]),
            {"a": 1.5, "b": 2.0},
        ),
        (mapped("CastMap", T.INT64, T.FLOAT), {4: 0.5, 2: 1.5, 3: -2.0}),
        (mapped("CastMap", T.INT64, T.FLOAT, cast_to="TO_INT64"), {4: 0.5, 2: 1.5}),
        (mapped("CastMap", T.INT64, T.FLOAT, cast_to="TO_STRING"), {4: 0.5, 2: -1.25}),
        (mapped("CastMap", T.INT64, T.FLOAT, map_form="SPARSE", max_map=6), {4: 0.5, 2: 1.5}),
    ],
)
def test_maps_as_inputs_give_the_results_of_onnx_runtime(model: bytes, fed: Any) -> None:
    made, expected = gw.compile(model), runtime(model, {"x": fed})
    for results in (made(fed), made(x=fed), made({"x": fed})):
        assert_same(results, expected)


SPARSE = {"map_form": "SPARSE", "max_map": 4, "cast_to": "TO_STRING"}


@pytest.mark.parametrize(
    ("model", "fed", "wanted"),
    [
        (mapped("DictVectorizer", T.STRING, T.INT64, string_vocabulary=["b", "a"]), {"a": 3, "z": 2}, [0, 3]),
        (mapped("DictVectorizer", T.INT64, T.DOUBLE, int64_vocabulary=[4, 2]), {2: 0.5}, [0, 0.5]),
        (mapped("DictVectorizer", T.INT64, T.STRING, int64_vocabulary=[4, 2]), {2: "two"}, ["", "two"]),
        (mapped("CastMap", T.INT64, T.STRING, cast_to="TO_FLOAT"), {4: "0.5", 2: "2"}, [2, 0.5]),
        (mapped("CastMap", T.INT64, T.STRING, **SPARSE), {1: "x"}, ["", "x", "", ""]),
        (
            mapped("CastMap", T.INT64, T.STRING, cast_to="TO_INT64"),
            {4: "9007199254740993", 2: "-1.5"},
            [-1, 9007199254740993],
        ),
    ],
)
def test_maps_that_python_cannot_feed_to_onnx_runtime(model: bytes, fed: Any, wanted: list[Any]) -> None:
    made: Any = gw.compile(model).run({"x": fed})["y"]
    assert made.tolist() == [wanted]


@pytest.mark.parametrize("value", [np.array(2.0), np.array(2, np.int32), np.float16(2), np.uint8(2)])
def test_values_of_maps_may_be_scalars_of_numpy(value: Any) -> None:
    model = gw.compile(mapped("DictVectorizer", T.STRING, T.FLOAT, string_vocabulary=["a", "b"]))
    assert model.run({"x": {np.str_("b"): value}})["y"].tolist() == [[0, 2]]


@pytest.mark.parametrize(
    "fed", [[1], {1: 2.0}, {"a": "text"}, {"a": None}, {"a": True}, {"a": np.zeros(1)}, np.zeros(2), None]
)
def test_an_input_that_is_not_a_map_is_rejected(fed: Any) -> None:
    model = gw.compile(mapped("DictVectorizer", T.STRING, T.FLOAT, string_vocabulary=["a"]))
    with pytest.raises(gw.FeedError, match=r"takes a dict of type map\(string:f32\)"):
        model.run({"x": fed})


def test_sessions_name_maps_as_onnx_runtime_does() -> None:
    x = rows(2, 2)
    model = model_of("ZipMap", {"x": x}, classlabels_int64s=[0, 1])
    theirs = onnxruntime.InferenceSession(model).get_outputs()[0].type
    assert gw.InferenceSession(model).get_outputs()[0].type == theirs
    model = mapped("DictVectorizer", T.STRING, T.FLOAT, string_vocabulary=["a"])
    theirs = onnxruntime.InferenceSession(model).get_inputs()[0].type
    assert gw.InferenceSession(model).get_inputs()[0].type == theirs


def test_packages_keep_maps(tmp_path: Any) -> None:
    x = rows(3, 2)
    model = gw.compile(model_of("ZipMap", {"x": x}, classlabels_strings=["a", "b"]))
    model.save(tmp_path / "m.om")
    wanted: Any = [dict(zip("ab", row, strict=True)) for row in x.tolist()]
    for (made,) in (model(x), gw.load(tmp_path / "m.om")(x)):
        assert made == wanted
