"""Products and convolutions of bytes on the CPU: sums that are exact, however large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw

CPU = gw.CompileOptions(device="cpu")
RNG = np.random.default_rng(0)


def run(op_type: str, x: Any, w: Any, constant: bool, **attributes: Any) -> Any:
    """``op_type`` of u8 ``x`` less 3 and i8 ``w``, which the model may hold."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)]
    constants = [numpy_helper.from_array(np.uint8(3), "zero")]
    if constant:
        constants.append(numpy_helper.from_array(w, "w"))
    else:
        inputs.append(helper.make_tensor_value_info("w", TensorProto.INT8, w.shape))
    node = helper.make_node(op_type, ["x", "w", "zero"], ["y"], **attributes)
    result = helper.make_tensor_value_info("y", TensorProto.INT32, None)
    graph = helper.make_graph([node], "g", inputs, [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    compiled = gw.compile(model.SerializeToString(), options=CPU)
    return compiled.run({"x": x} if constant else {"x": x, "w": w})["y"]


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("size", [1, 258, 259, 4112, 4113])
def test_products_of_the_largest_bytes(size: int, constant: bool) -> None:
    x, w = np.full((3, size), 255, np.uint8), np.full((size, 5), -128, np.int8)
    x[1] = RNG.integers(0, 256, size)
    expected = (x.astype(np.int64) - 3) @ w.astype(np.int64)
    np.testing.assert_array_equal(run("MatMulInteger", x, w, constant), expected)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("channels", [3, 64, 160])
@pytest.mark.parametrize("largest", [False, True])
def test_convolutions_of_bytes(channels: int, constant: bool, largest: bool) -> None:
    x = RNG.integers(0, 256, (1, channels, 13, 12)).astype(np.uint8)
    w = RNG.integers(-128, 128, (32, channels, 3, 3)).astype(np.int8)
    if largest:
        x[:, :, ::2, ::3], w[::2] = 255, 127
    padded = np.pad(x.astype(np.float64) - 3, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (3, 3), (2, 3))
    expected = np.einsum("nchwij,mcij->nmhw", windows, w.astype(np.float64), optimize=True)
    np.testing.assert_array_equal(run("ConvInteger", x, w, constant, pads=[1, 1, 1, 1]), expected)
