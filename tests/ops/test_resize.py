"""Resize against ONNX Runtime, closed forms, and with symbolic sizes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import graphwright as gw
from graphwright.config import Options
from graphwright.errors import ModelError
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.symbols import floordiv, symbol
from graphwright.ir.types import F32, tensor
from graphwright.ops.nn.rational_scale import ratio_of_scale
from graphwright.ops.nn.resize import Resize
from graphwright.ops.nn.resize_taps import taps_of
from tests.onnx_models import model_proto

from .peer import compare, imported

RNG = np.random.default_rng(7)
X = RNG.normal(size=(1, 2, 8, 6)).astype(np.float32)
COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")


def scales(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def sizes(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_interpolation_is_that_of_onnx_runtime(mode: str, coordinates: str) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    for factors in ((1, 1, 2, 2), (1, 1, 1.5, 0.5), (1, 1, 0.6, 0.8)):
        compare("Resize", [X, None, scales(*factors)], attributes, opset=19)
    compare("Resize", [X, None, None, sizes(1, 2, 5, 9)], attributes, opset=19)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest_is_that_of_onnx_runtime(rounding: str, coordinates: str) -> None:
    attributes = {"nearest_mode": rounding, "coordinate_transformation_mode": coordinates}
    for factors in ((1, 1, 2, 2), (1, 1, 1.5, 0.5), (1, 1, 0.25, 3)):
        compare("Resize", [X, None, scales(*factors)], attributes, opset=19)


@pytest.mark.parametrize("mode, exclude", list(product(["linear", "cubic"], [0, 1])))
def test_antialias_is_that_of_onnx_runtime(mode: str, exclude: int) -> None:
    attributes = {"mode": mode, "antialias": 1, "exclude_outside": exclude}
    compare("Resize", [X, None, scales(1, 1, 0.6, 0.8)], attributes)
    compare("Resize", [X, None, None, sizes(1, 2, 3, 11)], attributes)


def test_cubic_coefficient_and_exclusion() -> None:
    attributes = {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}
    compare("Resize", [X, None, scales(1, 1, 0.8, 1.7)], attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crop_and_resize(mode: str) -> None:
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 9.0,
    }
    roi = scales(0, 0, 0.4, -0.3, 1, 1, 0.8, 1.2)
    compare("Resize", [X, roi, None, sizes(1, 2, 4, 5)], attributes)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_axes_and_aspect_ratio(policy: str) -> None:
    attributes = {"mode": "linear", "axes": [2, 3], "keep_aspect_ratio_policy": policy}
    compare("Resize", [X, None, None, sizes(7, 10)], attributes)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_images_of_any_size_keep_their_aspect_ratio_in_a_given_size(mode: str, policy: str) -> None:
    attributes = {"mode": mode, "axes": [2, 3], "keep_aspect_ratio_policy": policy}
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], **attributes)
    weights = {"sizes": sizes(6, 9)}
    model = model_proto([node], {"x": ["n", 2, "h", "w"]}, {"y": [None] * 4}, weights, opset=19)
    theirs = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = gw.compile(model)
    for height, width in ((4, 5), (12, 7), (6, 9), (3, 20)):
        x = RNG.normal(size=(1, 2, height, width)).astype(np.float32)
        np.testing.assert_allclose(compiled(x), theirs.run(None, {"x": x}), rtol=1e-4, atol=1e-5)


def test_three_spatial_axes() -> None:
    x = RNG.normal(size=(1, 1, 3, 4, 5)).astype(np.float32)
    compare("Resize", [x, None, scales(1, 1, 2, 2, 2)], {"mode": "linear"})


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_old_opsets_equal_onnx_runtime(mode: str) -> None:
    compare("Resize", [X, scales(1, 1, 2, 1.5)], {"mode": mode}, opset=10)
    compare("Upsample", [X, scales(1, 1, 2, 3)], {"mode": mode}, opset=9)
    compare("Upsample", [X], {"mode": mode, "scales": [1.0, 1.0, 2.0, 3.0]}, opset=7)


def test_an_empty_constant_is_an_absent_operand() -> None:
    (y,) = imported("Resize", [X, scales(), scales(), sizes(1, 2, 4, 3)], {}, 11)
    np.testing.assert_array_equal(y, X[:, :, ::2, ::2])


@pytest.mark.parametrize("absent", ["scales", "sizes"])
def test_an_operand_of_unknown_length_may_be_empty(absent: str) -> None:
    """Both operands are graph inputs; the model states the length of one."""
    inputs = [("x", 1, [1, 1, 2, 2]), ("scales", 1, ["S" if absent == "scales" else 4])]
    inputs += [("sizes", 7, ["Z" if absent == "sizes" else 4])]
    graph = helper.make_graph(
        [helper.make_node("Resize", ["x", "", "scales", "sizes"], ["y"])],
        "g",
        [helper.make_tensor_value_info(*info) for info in inputs],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    feed = {"x": x, "scales": scales(1, 1, 2, 3), "sizes": sizes(1, 1, 4, 6)}
    feed[absent] = feed[absent][:0]
    made = gw.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]))
    np.testing.assert_array_equal(made.run(feed)["y"], x.repeat(2, 2).repeat(3, 3))


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_the_nearest_element_of_an_axis_longer_than_f32_counts(rounding: str) -> None:
    """As f32, the last index of this axis, 2**24 + 3, is rounded to 2**24 + 4, its length."""
    method = Resize(coordinates="align_corners", rounding=rounding, scales=(1.0,)).method
    taps = taps_of(method, 2**24 + 4, 3, None, (0.0, 1.0))
    np.testing.assert_array_equal(taps.positions[:, 0], [0, 2**23 + 2, 2**24 + 3])


def test_linear_by_hand() -> None:
    (y,) = imported("Resize", [scales(0, 10), None, scales(2)], {"mode": "linear"}, 11)
    np.testing.assert_allclose(y, [0, 2.5, 7.5, 10])


def test_sizes_of_symbols_are_exact_fractions() -> None:
    n, h = symbol("N"), symbol("H")
    b, (x,) = new_main_graph(Module(), [("x", tensor(F32, n, 3, h, 10))])
    assert b(Resize(scales=(1.0, 1.0, 1.5, 2.3)), x).type == tensor(F32, n, 3, floordiv(h * 3, 2), 23)
    with pytest.raises(ModelError, match=r"scaled by 1\.3: bind H to a number"):
        b(Resize(scales=(1.0, 1.0, 1.3, 1.0)), x)


def test_resize_of_f64_returns_f64() -> None:
    x = RNG.normal(size=(3, 5))
    (y,) = imported("Resize", [x, None, scales(1, 2)], {"mode": "linear"}, 13)
    expected = np.stack([np.interp((np.arange(10) + 0.5) / 2 - 0.5, np.arange(5), row) for row in x])
    np.testing.assert_allclose(y, expected, rtol=1e-14)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scale", [1 / 3, 0.4, 0.1, 1 / 300, 2.3, 0.6])
def test_scales_of_dynamic_axes(scale: float, mode: str, device: str) -> None:
    """Sizes are floors of f32 products, and the nearest element is computed in f32, as in ONNX Runtime."""
    scales = np.array([1, scale], np.float32)
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=mode, nearest_mode="floor")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, ["N", "M"])],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(scales, "scales")],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8
    ).SerializeToString()
    session, compiled = onnxruntime.InferenceSession(model), gw.compile(model, options=Options(device=device))
    for size in (1, 2, 3, 7, 10, 29, 30, 299, 300, 301, 900):
        x = np.arange(2 * size, dtype=np.float32).reshape(2, size)
        (want,) = session.run(None, {"x": x})
        np.testing.assert_allclose(compiled(x)[0], want, rtol=1e-5, atol=0 if mode == "nearest" else 1e-3)


@settings(deadline=None)  # a ratio is searched for once
@given(st.integers(1, 2**20), st.sampled_from([1 / 3, 0.4, 0.1, 1 / 300, 2.3, 0.6, 0.7, 16 / 9, 0.7071, 1.7]))
def test_ratios_are_floors_of_products_in_f32(size: int, scale: float) -> None:
    ratio = ratio_of_scale(float(np.float32(scale)))
    assert ratio is not None and ratio.limit is not None and ratio.limit >= 4096
    if size <= ratio.limit:
        want = int(np.floor(np.float32(size) * np.float32(scale)))
        assert size * ratio.numerator // ratio.denominator == want


def test_a_scale_that_no_ratio_stands_for() -> None:
    """f32(1.3) is less than 1.3: some products are rounded up to an integer, and others are not."""
    assert ratio_of_scale(float(np.float32(1.3))) is None


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sizes_that_are_multiples_of_an_axis_of_no_elements(mode: str) -> None:
    """Sizes computed from the shape, as ``resize(x, 2 * shape)`` does; also half of it, which is 0 for 1."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Mul", ["shape", "factors"], ["many"]),
        helper.make_node("Div", ["many", "divisors"], ["sizes"]),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode),
    ]
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", 1, ["N", 3, "H", "W"])],
            [helper.make_tensor_value_info("y", 1, None)],
            [
                numpy_helper.from_array(sizes(1, 1, 2, 1), "factors"),
                numpy_helper.from_array(sizes(1, 1, 1, 2), "divisors"),
            ],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    ours = gw.compile(model)
    theirs = onnxruntime.InferenceSession(model.SerializeToString())
    for shape in ((1, 3, 0, 4), (1, 3, 3, 0), (1, 3, 0, 0), (0, 3, 2, 4), (2, 3, 3, 5)):
        x = RNG.normal(size=shape).astype(np.float32)
        (wanted,) = theirs.run(None, {"x": x})
        np.testing.assert_allclose(ours(x)[0], wanted, rtol=1e-4, atol=1e-5, err_msg=str(shape))
    with pytest.raises(gw.FeedError, match="H must be at least 1"):
        fixed = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode)
        gw.compile(_resized_to(fixed, sizes(1, 3, 5, 4)))(np.zeros((1, 3, 0, 4), np.float32))


def _resized_to(node: Any, wanted: np.ndarray[Any, Any]) -> Any:
    return model_proto([node], {"x": [1, 3, "H", 4]}, {"y": None}, {"sizes": wanted}, opset=18)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.int32])
@pytest.mark.parametrize(
    "attributes", [{"mode": "cubic"}, {"mode": "cubic", "antialias": 1}, {"mode": "linear", "antialias": 1}]
)
@pytest.mark.parametrize("constant", [True, False])
def test_integers_are_rounded_and_saturated(dtype: Any, attributes: dict[str, Any], constant: bool) -> None:
    """A cubic sum of extreme integers leaves their range, in which it wrapped around."""
    info, target = np.iinfo(dtype), sizes(1, 2, 13, 4)
    x = RNG.choice([info.min, info.min + 5, info.max // 2, info.max], (1, 2, 8, 6)).astype(dtype)
    evaluator = ReferenceEvaluator(_sized(np.float64, constant=True, target=target, attributes=attributes))
    (exact,) = evaluator.run(None, {"x": x.astype(np.float64)})
    model = gw.compile(_sized(dtype, constant, target, attributes))
    (found,) = model(x) if constant else model(x, target)
    assert found.dtype == dtype and np.abs(exact).max() > (info.max if attributes["mode"] == "cubic" else 0)
    wanted = np.rint(exact).clip(info.min, info.max)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=max(1, 2e-6 * info.max))


def _sized(dtype: Any, constant: bool, target: np.ndarray[Any, Any], attributes: dict[str, Any]) -> Any:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, given = (
        helper.make_tensor_value_info(*info) for info in (("x", element, [1, 2, 8, 6]), ("sizes", 7, [4]))
    )
    graph = helper.make_graph(
        [helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], **attributes)],
        "g",
        [x] if constant else [x, given],
        [helper.make_tensor_value_info("y", element, None)],
        [numpy_helper.from_array(target, "sizes")] if constant else [],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
