"""Sequences and optionals in ONNX models: on the reference and the cpu device, compiled and from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from graphwright.errors import FeedError, ModelError
from graphwright.runtime.executor import RunError
from graphwright.runtime.model import Model

FLOATS = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
SEQUENCE = helper.make_sequence_type_proto(FLOATS)
INDEX = helper.make_tensor_type_proto(TensorProto.INT64, [])
DEVICES = pytest.mark.parametrize("device", ["reference", "cpu"])


def model_of(nodes: list[Any], inputs: dict[str, Any], outputs: list[str]) -> onnx.ModelProto:
    infos = [helper.make_value_info(name, type) for name, type in inputs.items()]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name=name) for name in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def compiled(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], device: str) -> Model:
    options = Options(device=device, threads=1, verify=True)
    return gw.compile(model_of(nodes, inputs, outputs), options=options)


def matrices(*rows: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(len(rows))
    return [rng.normal(size=(count, 2)).astype(np.float32) for count in rows]


NODES = [
    helper.make_node("SequenceAt", ["s", "i"], ["a"]),
    helper.make_node("Neg", ["a"], ["n"]),
    helper.make_node("SequenceInsert", ["s", "n", "i"], ["t"]),
    helper.make_node("SequenceLength", ["t"], ["count"]),
    helper.make_node("ConcatFromSequence", ["t"], ["c"], axis=0),
    helper.make_node("SequenceErase", ["s"], ["e"]),
]
INPUTS = {"s": SEQUENCE, "i": INDEX}


@DEVICES
def test_a_sequence_in_and_out(device: str) -> None:
    model = compiled(NODES, INPUTS, ["t", "count", "c", "e"], device)
    given = matrices(1, 3, 2)
    for at in (0, 1, -1, -3):
        found: Any = model.run({"s": given, "i": np.array(at)})  # type: ignore[dict-item]
        expected = list(given)
        expected.insert(at, -given[at])
        assert found["count"] == 4 and len(found["t"]) == 4 and len(found["e"]) == 2
        for actual, wanted in zip(found["t"], expected, strict=True):
            np.testing.assert_array_equal(actual, wanted)
        np.testing.assert_array_equal(found["c"], np.concatenate(expected))
    assert [g.shape for g in given] == [(1, 2), (3, 2), (2, 2)]


@DEVICES
def test_saved_and_loaded(device: str, tmp_path: Path) -> None:
    model = compiled(NODES, INPUTS, ["t", "c"], device)
    model.save(tmp_path / "m.om")
    again = gw.load(tmp_path / "m.om", options=Options(device=device, threads=1))
    feeds: Any = {"s": matrices(2, 1), "i": np.array(1)}
    assert [str(spec.dtype) for spec in again.inputs] == ["seq(f32)", "i64"]
    np.testing.assert_array_equal(again.run(feeds)["c"], model.run(feeds)["c"])


@DEVICES
def test_an_input_that_is_not_a_sequence_is_rejected(device: str) -> None:
    model = compiled(NODES, INPUTS, ["c"], device)
    (good,) = matrices(2)
    wrong: list[Any] = [good, None, [good.astype(np.float64)], [good, "text"], {"a": good}]
    for value in wrong:
        with pytest.raises(FeedError, match="input 's' takes"):
            model.run({"s": value, "i": np.array(0)})  # type: ignore[dict-item]
    for value in ([], [good]):
        with pytest.raises(RunError, match="position 3 is out of range"):
            model.run({"s": value, "i": np.array(3)})  # type: ignore[dict-item]


@DEVICES
@pytest.mark.parametrize("held", [None, np.ones((2, 3), np.float32)])
def test_ops_on_optionals(device: str, held: Any) -> None:
    nodes = [
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
        helper.make_node("Identity", ["o"], ["same"]),
        helper.make_node("Optional", ["x"], ["p"]),
        helper.make_node("OptionalGetElement", ["p"], ["y"]),
    ]
    x = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    inputs = {"o": helper.make_optional_type_proto(FLOATS), "x": x}
    model = compiled(nodes, inputs, ["has", "same", "p", "y"], device)
    has, same, filled, y = model(held, np.ones(2, np.float32))
    assert bool(has) == (held is not None) and has.dtype == bool
    assert same is None if held is None else np.array_equal(same, held)
    np.testing.assert_array_equal(filled, y)
    with pytest.raises(FeedError, match=r"(?s)input 'o' is missing.*pass None for no value"):
        model.run({"x": np.ones(2, np.float32)})


@DEVICES
def test_a_loop_that_builds_a_sequence(device: str) -> None:
    """The loop appends the squares of the numbers so far: as many tensors, of as many sizes, as there are
    iterations.
    """
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["cond"], ["again"]),
            helper.make_node("Slice", ["x", "zero", "end"], ["part"]),
            helper.make_node("Mul", ["part", "part"], ["square"]),
            helper.make_node("SequenceInsert", ["s", "square"], ["t"]),
            helper.make_node("Add", ["end", "one"], ["next"]),
        ],
        "body",
        [
            helper.make_value_info("n", INDEX),
            helper.make_tensor_value_info("cond", TensorProto.BOOL, []),
            helper.make_value_info("s", SEQUENCE),
            helper.make_tensor_value_info("end", TensorProto.INT64, [1]),
        ],
        [onnx.ValueInfoProto(name=name) for name in ("again", "t", "next")],
    )
    nodes = [
        helper.make_node("Constant", [], ["zero"], value_ints=[0]),
        helper.make_node("Constant", [], ["one"], value_ints=[1]),
        helper.make_node("SequenceEmpty", [], ["empty"]),
        helper.make_node("Loop", ["trips", "", "empty", "one"], ["all", "last"], body=body),
        helper.make_node("ConcatFromSequence", ["all"], ["joined"], axis=0),
    ]
    inputs = {"trips": INDEX, "x": helper.make_tensor_type_proto(TensorProto.FLOAT, [5])}
    model = compiled(nodes, inputs, ["all", "joined"], device)
    x = np.arange(5, dtype=np.float32)
    for trips in (1, 3, 5):
        found: Any = model.run({"trips": np.array(trips), "x": x})
        assert [array.shape for array in found["all"]] == [(k + 1,) for k in range(trips)]
        np.testing.assert_array_equal(
            found["joined"], np.concatenate([x[: k + 1] ** 2 for k in range(trips)])
        )


def test_a_sequence_that_is_taken_apart_costs_nothing() -> None:
    """Its tensors are used directly, in one program without Python."""
    nodes = [
        helper.make_node("Constant", [], ["two"], value_int=2),
        helper.make_node("SplitToSequence", ["x", "two"], ["s"], axis=1),
        helper.make_node("SequenceAt", ["s", "two"], ["third"]),
        helper.make_node("Exp", ["third"], ["e"]),
        helper.make_node("SequenceInsert", ["s", "e"], ["t"]),
        helper.make_node("ConcatFromSequence", ["t"], ["y"], axis=1),
    ]
    x = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 6])
    model = compiled(nodes, {"x": x}, ["y"], "cpu")
    (given,) = (np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32),)
    (y,) = model(given)
    np.testing.assert_allclose(y, np.concatenate([given, np.exp(given[:, 4:])], 1), rtol=1e-6)
    assert model.stats()["host_calls"] == 0
    assert str(model.outputs[0].shape) == "('n', 8)"


def test_positions_outside_of_a_known_sequence_are_rejected() -> None:
    nodes = [
        helper.make_node("Constant", [], ["two"], value_int=2),
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("SequenceAt", ["s", "two"], ["y"]),
    ]
    with pytest.raises(ModelError, match="position 2 is out of range for a sequence of 2 tensors"):
        compiled(nodes, {"x": FLOATS}, ["y"], "cpu")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_random_edits_follow_lists(data: st.DataObject) -> None:
    """Inserts and erases at known and unknown positions are compared with a Python list."""
    nodes, feeds = [helper.make_node("SequenceConstruct", ["x0", "x1"], ["s0"])], {}
    inputs = {f"x{k}": helper.make_tensor_type_proto(TensorProto.FLOAT, [k + 1]) for k in range(4)}
    arrays = [np.full(k + 1, k, np.float32) for k in range(4)]
    expected = arrays[:2]
    for step in range(data.draw(st.integers(0, 5))):
        inserts = len(expected) < 2 or data.draw(st.booleans())
        count = len(expected)
        at = data.draw(st.integers(-count, count if inserts else count - 1))
        if data.draw(st.booleans()):
            nodes.append(helper.make_node("Constant", [], [f"p{step}"], value_int=at))
        else:
            inputs[f"p{step}"], feeds[f"p{step}"] = INDEX, np.array(at)
        if inserts:
            which = data.draw(st.integers(0, 3))
            expected.insert(at, arrays[which])
            operands = [f"s{step}", f"x{which}", f"p{step}"]
            nodes.append(helper.make_node("SequenceInsert", operands, [f"s{step + 1}"]))
        else:
            del expected[at]
            nodes.append(helper.make_node("SequenceErase", [f"s{step}", f"p{step}"], [f"s{step + 1}"]))
    last = nodes[-1].output[0]
    nodes.append(helper.make_node("ConcatFromSequence", [last], ["y"], axis=0))
    nodes.append(helper.make_node("SequenceLength", [last], ["count"]))
    model = compiled(nodes, inputs, ["y", "count"], "reference")
    found = model.run({**{f"x{k}": a for k, a in enumerate(arrays)}, **feeds})
    assert found["count"] == len(expected)
    np.testing.assert_array_equal(found["y"], np.concatenate(expected))


def test_sessions_name_types_as_onnx_does() -> None:
    session = gw.InferenceSession(model_of(NODES, INPUTS, ["t", "c"]).SerializeToString())
    assert [arg.type for arg in session.get_inputs()] == ["seq(tensor(float))", "tensor(int64)"]
    assert session.get_outputs()[0].type == "seq(tensor(float))"
