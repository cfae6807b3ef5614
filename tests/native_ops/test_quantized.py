"""Products and convolutions of bytes on the CPU: sums that are exact, however large."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnxruntime
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


def test_depthwise_convolutions_of_images_without_columns() -> None:
    w = RNG.integers(-128, 128, (4, 1, 3, 1)).astype(np.int8)
    node = helper.make_node("ConvInteger", ["x", "w"], ["y"], group=4, pads=[1, 0, 1, 0])
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 4, 5, "W"])
    y = helper.make_tensor_value_info("y", TensorProto.INT32, None)
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    compiled = gw.compile(model.SerializeToString(), options=CPU)
    for columns in (0, 1, 17):
        image = RNG.integers(0, 256, (1, 4, 5, columns)).astype(np.uint8)
        padded = np.pad(image.astype(np.int64), ((0, 0), (0, 0), (1, 1), (0, 0)))
        expected = sum(padded[:, :, k : k + 5] * w[:, 0, k].reshape(1, 4, 1, 1) for k in range(3))
        np.testing.assert_array_equal(compiled.run({"x": image})["y"], expected)


def quantized_block(random: np.random.Generator, zero: Any, per_feature: bool) -> Any:
    """Convolutions with a residual, pools and a Gemm, each between DequantizeLinear and QuantizeLinear."""
    nodes: list[Any] = []
    constants = [numpy_helper.from_array(zero, "zero"), numpy_helper.from_array(np.int8(0), "none")]

    def node(op_type: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op_type, inputs, [f"v{len(nodes)}"], **attributes))
        return f"v{len(nodes) - 1}"

    def constant(array: Any) -> str:
        constants.append(numpy_helper.from_array(array, f"c{len(constants)}"))
        return str(constants[-1].name)

    def stored(x: str, scale: float) -> str:
        """``x``, quantized and dequantized."""
        step = constant(np.float32(scale))
        return node("DequantizeLinear", node("QuantizeLinear", x, step, "zero"), step, "zero")

    def weight(*shape: int) -> str:
        array = random.integers(-127, 128, shape).astype(np.int8)
        count = shape[0] if per_feature else 1
        scale = random.uniform(0.001, 0.01, count).astype(np.float32)
        if not per_feature:
            return node("DequantizeLinear", constant(array), constant(scale[0]), "none")
        zeros = constant(np.zeros(count, np.int8))
        return node("DequantizeLinear", constant(array), constant(scale), zeros, axis=0)

    x = stored("x", 0.03)
    y = node(
        "Conv", x, weight(16, 16, 3, 3), constant(random.normal(size=16).astype(np.float32)), pads=[1] * 4
    )
    y = stored(node("Relu", stored(y, 0.05)), 0.05)
    y = stored(node("Conv", y, weight(16, 16, 1, 1)), 0.1)
    y = stored(node("Relu", node("Add", y, x)), 0.1)
    y = stored(node("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]), 0.1)
    y = stored(node("Flatten", node("GlobalAveragePool", y)), 0.05)
    y = stored(
        node("Gemm", y, weight(10, 16), constant(random.normal(size=10).astype(np.float32)), transB=1), 0.05
    )
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 16, 12, 10])]
    graph = helper.make_graph(
        nodes, "g", inputs, [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)], constants
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("per_feature", [False, True])
@pytest.mark.parametrize("zero", [np.uint8(0), np.uint8(128), np.int8(-5)])
def test_a_model_between_quantized_values_is_that_of_onnx_runtime(zero: Any, per_feature: bool) -> None:
    random = np.random.default_rng(0)
    model = quantized_block(random, zero, per_feature)
    feeds = {"x": random.standard_normal((2, 16, 12, 10)).astype(np.float32)}
    plain = onnxruntime.SessionOptions()  # what the graph means: optimized, it rounds in ways of its own
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), plain)
    (expected,) = session.run(None, feeds)
    compiled = gw.compile(model, options=CPU)
    (actual,) = compiled.run(feeds).values()
    assert compiled.stats()["host_calls"] == 0
    steps = np.rint((actual - expected) / 0.05)
    assert np.abs(actual - expected - steps * 0.05).max() < 1e-5  # both are whole steps
    assert np.abs(steps).max() <= 1  # a tie may round either way, and show in what follows
    assert np.count_nonzero(steps) <= 3


def test_products_with_other_scales_and_zero_points_share_an_epilogue() -> None:
    scales, zeros = (0.25, 2.0, 0.5, 4.0), (3, 128, 0, 77)
    constants, nodes = [], []
    x = expected = RNG.integers(0, 256, (5, 16)).astype(np.uint8)
    for k in range(1, len(scales)):
        w = RNG.integers(-9, 10, (16, 16)).astype(np.int8)
        values = {"w": w, "one": np.float32(1), "none": np.int8(0)}
        constants += [numpy_helper.from_array(np.asarray(v), f"{name}{k}") for name, v in values.items()]
        operands = (f"y{k - 1}", f"s{k - 1}", f"z{k - 1}", f"w{k}", f"one{k}", f"none{k}", f"s{k}", f"z{k}")
        nodes.append(helper.make_node("QLinearMatMul", operands, [f"y{k}"]))
        sums = (expected.astype(np.int64) - zeros[k - 1]) @ w
        requantized = np.rint(sums * (scales[k - 1] / scales[k])) + zeros[k]  # exact: powers of two
        expected = np.clip(requantized, 0, 255).astype(np.uint8)
    for k, (scale, zero) in enumerate(zip(scales, zeros, strict=True)):
        constants += [numpy_helper.from_array(np.float32(scale), f"s{k}")]
        constants += [numpy_helper.from_array(np.uint8(zero), f"z{k}")]
    inputs = [helper.make_tensor_value_info("y0", TensorProto.UINT8, x.shape)]
    results = [helper.make_tensor_value_info(f"y{len(scales) - 1}", TensorProto.UINT8, None)]
    graph = helper.make_graph(nodes, "g", inputs, results, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    compiled = gw.compile(model.SerializeToString(), options=CPU)
    (actual,) = compiled.run({"y0": x}).values()
    np.testing.assert_array_equal(actual, expected)
    assert len(set(re.findall(r"\w+_hook_\d+", compiled.report()))) == 1


QUANTIZATIONS = (((0.5, 128), (0.5, 128), (1.0, 128)), ((0.0123, 3), (0.0456, 250), (0.0789, 77)))
"""Scale and zero point of both operands and of the result: with exact ties, and without."""


@pytest.mark.parametrize("quantizations", QUANTIZATIONS)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
def test_quantized_sums_and_products_of_all_pairs_of_bytes(op: str, relu: bool, quantizations: Any) -> None:
    """The result is the nearest step to the exact value, except where two steps are almost equally near."""
    nodes, constants = [], []
    for name, (scale, zero) in zip("abq", quantizations, strict=True):
        constants += [numpy_helper.from_array(np.float32(scale), f"{name}_scale")]
        constants += [numpy_helper.from_array(np.uint8(zero), f"{name}_zero")]
    for name in "ab":
        operands = [name, f"{name}_scale", f"{name}_zero"]
        nodes.append(helper.make_node("DequantizeLinear", operands, [f"{name}_float"]))
    nodes.append(helper.make_node(op, ["a_float", "b_float"], ["result"]))
    if relu:
        nodes.append(helper.make_node("Relu", ["result"], ["positive"]))
    operands = ["positive" if relu else "result", "q_scale", "q_zero"]
    nodes.append(helper.make_node("QuantizeLinear", operands, ["q"]))
    sides = {"a": np.arange(256, dtype=np.uint8)[:, None], "b": np.arange(256, dtype=np.uint8)}
    inputs = [helper.make_tensor_value_info(n, TensorProto.UINT8, x.shape) for n, x in sides.items()]
    results = [helper.make_tensor_value_info("q", TensorProto.UINT8, None)]
    graph = helper.make_graph(nodes, "g", inputs, results, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (actual,) = gw.compile(model.SerializeToString(), options=CPU).run(sides).values()

    a, b = ((x - float(q[1])) * np.float32(q[0]) for x, q in zip(sides.values(), quantizations, strict=False))
    exact = {"Add": a + b, "Sub": a - b, "Mul": a * b}[op]
    scale, zero = quantizations[2]
    steps = np.clip((np.maximum(exact, 0) if relu else exact) / np.float32(scale), -zero, 255 - zero)
    is_near_tie = np.abs(steps - np.floor(steps) - 0.5) < 1e-4
    is_tie = is_near_tie & (quantizations is QUANTIZATIONS[0])
    off = np.abs(actual.astype(np.int64) - zero - np.rint(steps))
    assert off.max(where=~is_near_tie | is_tie, initial=0) == 0  # exact ties are rounded to even
    assert off.max() <= 1


@pytest.mark.parametrize(("x_scale", "y_scale"), [(1e38, 1e-3), (np.inf, 0.5), (0.5, 1e-44), (0.5, 1e-45)])
def test_requantized_products_whose_ratio_of_scales_is_infinite(x_scale: float, y_scale: float) -> None:
    """Zero stays zero, and all else has the sign of the exact value, which outweighs the bias."""
    x, w, bias = np.array([[3, 3], [200, 3], [3, 200]], np.uint8), np.array([[5], [-5]], np.int8), 0.01
    constants = [
        numpy_helper.from_array(value, name)
        for name, value in {
            "x_scale": np.float32(x_scale),
            "x_zero": np.uint8(3),
            "w": w,
            "w_scale": np.float32(0.1),
            "bias": np.array([bias], np.float32),
            "y_scale": np.float32(y_scale),
            "y_zero": np.uint8(128),
        }.items()
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["x_float"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale"], ["w_float"]),
        helper.make_node("MatMul", ["x_float", "w_float"], ["sums"]),
        helper.make_node("Add", ["sums", "bias"], ["biased"]),
        helper.make_node("QuantizeLinear", ["biased", "y_scale", "y_zero"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)]
    results = [helper.make_tensor_value_info("y", TensorProto.UINT8, None)]
    graph = helper.make_graph(nodes, "g", inputs, results, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (actual,) = gw.compile(model.SerializeToString(), options=CPU).run({"x": x}).values()
    with np.errstate(all="ignore"):
        products = (x - np.float64(3)) * np.float32(x_scale) @ (w * np.float64(np.float32(0.1)))
        steps = np.nan_to_num(np.rint((products + bias) / np.float32(y_scale)), nan=-np.inf)
    np.testing.assert_array_equal(actual, np.clip(steps + 128, 0, 255).astype(np.uint8))


@pytest.mark.parametrize("pool", ["AveragePool", "GlobalAveragePool"])
def test_quantized_means_round_ties_to_even(pool: str) -> None:
    scale, zero = np.float32(0.3), np.uint8(77)
    quantization = [numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(zero, "zero")]
    attributes: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]} if pool == "AveragePool" else {}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["floats"]),
        helper.make_node(pool, ["floats"], ["mean"], **attributes),
        helper.make_node("QuantizeLinear", ["mean", "scale", "zero"], ["y"]),
    ]
    size = 32 if pool == "AveragePool" else 2
    x = RNG.integers(0, 256, (1, 64, size, size)).astype(np.uint8)
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)]
    results = [helper.make_tensor_value_info("y", TensorProto.UINT8, None)]
    graph = helper.make_graph(nodes, "g", inputs, results, quantization)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (actual,) = gw.compile(model.SerializeToString(), options=CPU).run({"x": x}).values()
    squares = x.astype(np.int64).reshape(1, 64, size // 2, 2, size // 2, 2) - int(zero)
    expected = np.rint(squares.sum(axis=(3, 5)) / 4) + int(zero)  # exact: quarters
    np.testing.assert_array_equal(actual, expected.astype(np.uint8))
