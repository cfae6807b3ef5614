"""Constants in place of inputs and outputs by name: in Python for ONNX models and modules built by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import graphwright as gw
from graphwright.ir.constants.user_inputs import constant_for
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F16, F32, I8, I64, U8, tensor
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.unary import Relu
from tests.onnx_models import model_proto

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def _model(unsupported: bool = False) -> onnx.ModelProto:
    """``hidden = x * scale``, ``y = relu(hidden)``, ``z = hidden + bias``, ``w`` of another input alone."""
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["y"]),
        helper.make_node("Add", ["hidden", "bias"], ["z"]),
        helper.make_node("Odd" if unsupported else "Neg", ["other"], ["w"]),
    ]
    inputs = {"x": ["N", 3], "scale": [], "bias": ["N", 1], "other": ["N"]}
    return model_proto(nodes, inputs, dict.fromkeys("yzw"))


def _by_hand() -> Any:
    builder = gw.GraphBuilder()
    x = builder.input("x", "f32", ("N", 3))
    scale, bias = builder.input("scale", "f32", ()), builder.input("bias", "f32", ("N", 1))
    other = builder.input("other", "f32", ("N",))
    hidden = builder(Mul(), x, scale)
    hidden.name = "hidden"
    builder.output("y", builder(Relu(), hidden))
    builder.output("z", builder(Add(), hidden, bias))
    builder.output("w", builder(Relu(), other))
    return builder.build()


SOURCES = pytest.mark.parametrize("source", [_model, _by_hand])


@SOURCES
def test_numbers_and_arrays_take_the_place_of_inputs(source: Any) -> None:
    bias = np.array([[1], [5]], np.float32)
    model = gw.compile(source(), constants={"scale": 2, "bias": bias})
    assert [spec.name for spec in model.inputs] == ["x", "other"]
    assert [spec.shape for spec in model.inputs] == [(2, 3), (2,)]  # N is what bias says
    found = model.run({"x": X, "other": np.zeros(2, np.float32)})
    np.testing.assert_array_equal(found["y"], np.maximum(X * 2, 0))
    np.testing.assert_array_equal(found["z"], X * 2 + bias)


@SOURCES
def test_outputs_may_be_intermediate_values(source: Any) -> None:
    model = gw.compile(source(), outputs=["z", "hidden"])
    assert [spec.name for spec in model.outputs] == ["z", "hidden"]
    assert [spec.name for spec in model.inputs] == ["x", "scale", "bias"]
    bias = np.ones((2, 1), np.float32)
    found = model.run({"x": X, "scale": np.float32(3), "bias": bias})
    np.testing.assert_array_equal(found["hidden"], X * 3)
    np.testing.assert_array_equal(found["z"], X * 3 + 1)


def test_nodes_that_the_outputs_do_not_need_are_not_imported() -> None:
    with pytest.raises(gw.ModelError, match="Odd"):
        gw.compile(_model(unsupported=True))
    model = gw.compile(_model(unsupported=True), outputs=["y"])
    np.testing.assert_array_equal(model.run({"x": X, "scale": np.float32(1)})["y"], np.maximum(X, 0))


@SOURCES
def test_all_unknown_names_are_listed_with_what_exists(source: Any) -> None:
    with pytest.raises(gw.ModelError) as error:
        gw.compile(source(), constants={"scal": 1, "bia": 2})
    text = str(error.value)
    assert "not an input: 'scal', 'bia'" in text and "did you mean 'scale' or 'bias'?" in text
    assert all(name in text for name in ("x", "scale", "bias", "other"))
    with pytest.raises(gw.ModelError) as error:
        gw.compile(source(), outputs=["hiden", "q", "y", "y"])
    text = str(error.value)
    assert "no value 'hiden'" in text and "did you mean 'hidden'?" in text and "no value 'q'" in text
    assert "the outputs are y, z, w; intermediate values" in text and "'y' is given 2 times" in text


@SOURCES
def test_conflicts_of_type_are_one_error(source: Any) -> None:
    wrong = {"scale": np.float64(1), "bias": np.ones((2, 2), np.float32), "other": [1, [2]]}
    with pytest.raises(gw.ModelError) as error:
        gw.compile(source(), constants=wrong)
    text = str(error.value)
    assert "input scale: the constant has type f64[], but the input has type f32[]" in text
    assert "input bias: the constant has type f32[2, 2], but the input has type f32[" in text
    assert "input other: [1, [2]] is not a tensor of f32" in text


@SOURCES
def test_constants_that_give_one_size_two_numbers_are_rejected(source: Any) -> None:
    pair = {"bias": np.ones((2, 1), np.float32), "other": np.ones(3, np.float32)}
    with pytest.raises(gw.ModelError, match=r"2 in one constant but 3|bound to 2 and to 3"):
        gw.compile(source(), constants=pair)


@pytest.mark.parametrize(
    ("value", "type", "said"),
    [
        (1.5, tensor(I64), "elements that i64 cannot represent"),
        (300, tensor(U8), "elements that u8 cannot represent"),
        (-1, tensor(U8), "elements that u8 cannot represent"),
        (2, tensor(BOOL), "elements that bool cannot represent"),
        (1e6, tensor(F16), "elements outside the range of f16"),
        (float("nan"), tensor(I8), "elements that i8 cannot represent"),
        ("text", tensor(F32), "is not a tensor of f32"),
        (None, tensor(F32), "is not a number"),
        ({"a": 1}, tensor(F32), "is not a tensor of f32"),
        ([1, 2], tensor(F32), r"the constant has type f32\[2\], but the input has type f32\[\]"),
        (1, tensor(F32, 2), r"the constant has type f32\[\], but the input has type f32\[2\]"),
    ],
)
def test_values_that_do_not_fit_are_rejected(value: Any, type: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        constant_for(value, type)


def test_one_number_fits_any_input_of_one_element() -> None:
    made = constant_for(16000, tensor(I64, 1, 1))
    assert made.dtype == np.int64 and made.shape == (1, 1) and made.item() == 16000
    assert constant_for(2.0, tensor(I64)).item() == 2
    assert constant_for([True, 0], tensor(BOOL, symbol("N"))).tolist() == [True, False]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4))
def test_integers_become_constants_exactly(values: list[int]) -> None:
    assert constant_for(values, tensor(I64, symbol("N"))).tolist() == values
