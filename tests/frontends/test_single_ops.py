"""Models of one op with operands that the ONNX standard allows and other engines rarely take: 8-bit floats,
i32 sizes, inputs of unknown rank. Expected values come from NumPy and from the text of the standard.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import graphwright as gw
from tests.onnx_models import model_proto

Array = np.ndarray[Any, Any]
Shape = tuple[int | str, ...] | None


def model_of(
    op: str, opset: int, inputs: dict[str, tuple[Any, Shape]], outputs: int = 1, **attributes: Any
) -> bytes:
    """A model of one node. ``inputs``: the dtype and declared shape of each; None is an unknown rank."""
    names = [f"y{k}" for k in range(outputs)]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
        for name, (dtype, shape) in inputs.items()
    ]
    node = helper.make_node(op, list(inputs), names, **attributes)
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=name) for name in names])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString()


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_is_nan_of_8_bit_floats(dtype: str) -> None:
    x = np.array([0, 1.5, np.nan, -2, -0.0]).astype(getattr(ml_dtypes, dtype))
    model = gw.compile(model_of("IsNaN", 20, {"x": (x.dtype, (5,))}))
    assert model(x)[0].tolist() == [False, False, True, False, False]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [({}, [True, True, False]), ({"detect_negative": 0}, [True, False, False])],
)
def test_is_inf_of_8_bit_floats(attributes: dict[str, int], expected: list[bool]) -> None:
    x = np.array([np.inf, -np.inf, np.nan]).astype(ml_dtypes.float8_e5m2)
    assert gw.compile(model_of("IsInf", 20, {"x": (x.dtype, (3,))}, **attributes))(x)[0].tolist() == expected


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("shape", [(4, 5), ("N", 5)])
def test_center_crop_pad_takes_sizes_of_both_types(dtype: Any, shape: Shape) -> None:
    """An odd number of elements is cropped from the end, and padded there."""
    x = np.arange(1, 21, dtype=np.float32).reshape(4, 5)
    expected = np.pad(x[:3], ((0, 0), (1, 2)))
    model = gw.compile(model_of("CenterCropPad", 18, {"x": (np.float32, shape), "sizes": (dtype, (2,))}))
    np.testing.assert_array_equal(model(x, np.array([3, 8], dtype))[0], expected)


def test_center_crop_pad_to_constant_sizes_has_a_static_result() -> None:
    inputs: dict[str, tuple[Any, Shape]] = {"x": (np.float32, ("N", "M")), "sizes": (np.int32, (1,))}
    source = model_of("CenterCropPad", 18, inputs, axes=[-1])
    model = gw.compile(source, constants={"sizes": np.array([4], np.int32)})
    assert model.outputs[0].shape == ("N", 4)
    for columns in (1, 4, 7):
        x = np.ones((2, columns), np.float32)
        assert model(x)[0].sum() == 2 * min(columns, 4)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "feeds", "expected"),
    [
        ("Range", {"a": np.int64, "b": np.int64, "c": np.int64}, {}, [1, 8, 3], [[1, 4, 7]]),
        ("Range", {"a": np.float32, "b": np.float32, "c": np.float32}, {}, [1, 2, 0.5], [[1, 1.5]]),
        ("TopK", {"x": np.float32, "k": np.int64}, {}, [[3, 1, 2], [2]], [[3, 2], [0, 2]]),
        ("HannWindow", {"size": np.int64}, {}, [4], [[0, 0.5, 1, 0.5]]),
        ("OneHot", {"i": np.int64, "d": np.int64, "v": np.int64}, {}, [[1], 2, [0, 5]], [[[0, 5]]]),
    ],
)  # fmt: skip
def test_sizes_from_operands_of_unknown_rank(
    op: str, inputs: dict[str, Any], attributes: dict[str, Any], feeds: list[Any], expected: list[Any]
) -> None:
    model = gw.compile(
        model_of(op, 17, {name: (dtype, None) for name, dtype in inputs.items()}, len(expected), **attributes)
    )
    arrays = [np.array(value, dtype) for value, dtype in zip(feeds, inputs.values(), strict=True)]
    for actual, wanted in zip(model(*arrays), expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(), None])
def test_a_scalar_may_be_normalized_over_axis_0(shape: Shape) -> None:
    """As reductions over axis 0 of a scalar: the scalar is its mean, and the deviation is 0."""
    model = gw.compile(model_of("MeanVarianceNormalization", 13, {"x": (np.float32, shape)}, axes=[0]))
    assert model(np.float32(3))[0] == 0


@pytest.mark.parametrize(("channels", "size"), [(1, 2**40), (3, 2**40), (32, 2**33 + 1), (32, 66), (4, 5)])
def test_normalization_windows_wider_than_the_channels(channels: int, size: int) -> None:
    """Channels that do not exist count as 0, and cost nothing."""
    x = np.random.default_rng(0).normal(size=(1, channels, 2, 3)).astype(np.float32)
    model = gw.compile(model_of("LRN", 13, {"x": (np.float32, x.shape)}, size=size, alpha=0.5 * size))
    wide = x.astype(np.float64)
    around = [range(max(0, c - (size - 1) // 2), min(channels, c + size // 2 + 1)) for c in range(channels)]
    total = np.stack([(wide[:, list(window)] ** 2).sum(1) for window in around], 1)
    np.testing.assert_allclose(model(x)[0], wide / (1 + 0.5 * total) ** 0.75, rtol=1e-5)


def test_a_result_of_too_many_axes_is_one_error_that_names_the_node() -> None:
    source = model_of("Unsqueeze", 13, {"x": (np.float32, (2, 2)), "axes": (np.int64, (63,))})
    with pytest.raises(gw.GraphwrightError, match=r"Unsqueeze: the result has 65 axes, but at most 64"):
        gw.compile(source, constants={"axes": np.arange(63)})


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("shape", [(), None])
def test_a_scalar_may_be_reduced_over_its_only_element(axis: int, shape: Shape) -> None:
    """As PyTorch's sum of a tensor without axes, and ONNX Runtime's where the rank is unknown."""
    made = model_of("ReduceMax", 13, {"x": (np.float32, shape)}, axes=[axis], keepdims=0)
    assert gw.compile(made)(np.float32(3))[0] == 3


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_dropout_of_8_bit_floats(dtype: str) -> None:
    x = np.full(1000, 1.5).astype(getattr(ml_dtypes, dtype))
    inputs: dict[str, tuple[Any, Shape]] = {
        "x": (x.dtype, ("N",)), "ratio": (np.float32, ()), "training": (np.bool_, ()),
    }  # fmt: skip
    model = gw.compile(model_of("Dropout", 22, inputs, 2))
    y, kept = model(x, np.float32(0.5), np.True_)
    assert 0 < kept.sum() < 1000
    np.testing.assert_array_equal(y.astype(np.float32), np.where(kept, 3, 0))
    np.testing.assert_array_equal(model(x, np.float32(0.5), np.False_)[0].astype(np.float32), 1.5)


def test_a_body_in_the_standard_may_violate_constraints_of_its_own_ops() -> None:
    """SoftmaxCrossEntropyLoss-13 takes bf16; its body calls NegativeLogLikelihoodLoss-13, which does not."""
    scores = np.array([[1, 2, 4], [3, 1, 0]], np.float32)
    inputs: dict[str, tuple[Any, Shape]] = {
        "scores": (ml_dtypes.bfloat16, ("N", 3)), "labels": (np.int64, ("N",)),
    }  # fmt: skip
    model = gw.compile(model_of("SoftmaxCrossEntropyLoss", 13, inputs))
    (loss,) = model(scores.astype(ml_dtypes.bfloat16), np.array([2, 1]))
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert loss.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(loss.astype(np.float32), -np.log(shares[[0, 1], [2, 1]]).mean(), rtol=0.01)


@pytest.mark.parametrize("shape", [(5,), ("N",), ()])
def test_a_scale_of_dynamic_size_must_have_one_element(shape: Shape) -> None:
    """The default axis is 1, which these tensors do not have."""
    inputs: dict[str, tuple[Any, Shape]] = {
        "x": (np.float32, shape), "scale": (np.float32, ("K",)), "zero": (np.uint8, ("Z",)),
    }  # fmt: skip
    model = gw.compile(model_of("QuantizeLinear", 13, inputs))
    x = np.full([5] if shape else [], 3, np.float32)
    scale, zero = np.array([0.5], np.float32), np.array([4], np.uint8)
    np.testing.assert_array_equal(model(x, scale, zero)[0], np.full(x.shape, 10))
    with pytest.raises(gw.GraphwrightError, match="scale"):
        model(x, np.ones(2, np.float32), zero)


def test_positions_in_sequences_of_dynamic_size() -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("Neg", ["x"], ["minus"]),
        helper.make_node("SequenceInsert", ["s", "minus", "position"], ["longer"]),
        helper.make_node("SequenceAt", ["longer", "position"], ["y"]),
    ]
    inputs = {"x": [2], "position": (onnx.TensorProto.INT64, ["K"])}
    model = gw.compile(model_proto(nodes, inputs, {"y": None}))
    assert model(np.array([1, 2], np.float32), np.array([1]))[0].tolist() == [-1, -2]


def test_sequence_map_may_leave_out_outputs() -> None:
    body = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Exp", ["x"], ["b"])],
        "body",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N"])],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N"]) for name in "ab"],
    )
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("SequenceMap", ["s"], ["", "mapped"], body=body),
        helper.make_node("ConcatFromSequence", ["mapped"], ["y"], axis=0),
    ]
    model = gw.compile(model_proto(nodes, {"x": ["N"]}, {"y": None}))
    np.testing.assert_allclose(model(np.zeros(2, np.float32))[0], np.ones(4))


def test_a_body_that_needs_a_size_is_an_error_that_names_the_operands() -> None:
    inputs: dict[str, tuple[Any, Shape]] = {
        "x": (np.float32, ("N", "C", "L")), "w": (np.float32, ("C", 1, 3)),
    }  # fmt: skip
    source = model_of("CausalConvWithState", 27, inputs, 2)
    with pytest.raises(gw.GraphwrightError, match=r"dynamic: x: f32\[N, C, L\], w: f32\[C, 1, 3\]"):
        gw.compile(source)
    model = gw.compile(source, constants={"w": np.ones((2, 1, 3), np.float32)})
    y, state = model(np.ones((1, 2, 4), np.float32))
    assert (y[0, 0].tolist(), state.shape) == ([1, 2, 3, 3], (1, 2, 2))


def test_boxes_of_unknown_rank_are_selected() -> None:
    """The positions are i64 [N, 3], whatever the ranks of the operands."""
    inputs: dict[str, tuple[Any, Shape]] = {
        "boxes": (np.float32, None), "scores": (np.float32, None), "most": (np.int64, None),
        "overlap": (np.float32, None), "least": (np.float32, None),
    }  # fmt: skip
    model = gw.compile(model_of("NonMaxSuppression", 11, inputs))
    assert str(model.outputs[0].dtype) == "i64"
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 1.1], [2, 2, 3, 3]]], np.float32)
    scores = np.array([[[0.5, 0.6, 0.7]]], np.float32)
    (selected,) = model(boxes, scores, np.array([3]), *np.array([[0.5], [0]], np.float32))
    assert selected.tolist() == [[0, 0, 2], [0, 0, 1]]


def test_regions_with_a_dynamic_number_of_bounds_are_pooled_in_a_branch() -> None:
    """A branch requires four bounds when it runs: until then, its nodes do not know that."""
    types = {"x": 1, "regions": 1, "images": 7, "thorough": 9}
    shapes = {"x": ["N", "C", "H", "W"], "regions": ["R", "K"], "images": ["I"], "thorough": []}
    branches = []
    for name, points in (("many", 2), ("few", 1)):
        node = helper.make_node(
            "RoiAlign", ["x", "regions", "images"], [name], output_height=2, output_width=2,
            sampling_ratio=points, coordinate_transformation_mode="output_half_pixel",
        )  # fmt: skip
        branches.append(helper.make_graph([node], name, [], [onnx.ValueInfoProto(name=name)]))
    node = helper.make_node("If", ["thorough"], ["y"], then_branch=branches[0], else_branch=branches[1])
    inputs = [helper.make_tensor_value_info(name, types[name], shape) for name, shape in shapes.items()]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    model = gw.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)]))
    x = np.broadcast_to(np.arange(8, dtype=np.float32), (1, 1, 8, 8))
    regions = np.array([[1, 1, 5, 5], [0, 2, 4, 6]], np.float32)
    for thorough in (True, False):
        (y,) = model(x, regions, np.zeros(2, np.int64), np.array(thorough))
        np.testing.assert_allclose(y[:, 0, 0], [[2, 4], [1, 3]])


def test_zero_points_of_unknown_rank_do_not_change_the_dtype_of_the_result() -> None:
    inputs: dict[str, tuple[Any, Shape]] = {name: (np.uint8, None) for name in ("x", "w", "zero", "of_w")}
    model = gw.compile(model_of("ConvInteger", 10, inputs))
    assert str(model.outputs[0].dtype) == "i32"
    x, w = np.full((1, 1, 3), 5, np.uint8), np.full((1, 1, 2), 7, np.uint8)
    (y,) = model(x, w, np.array(4, np.uint8), np.array(4, np.uint8))
    assert (y.dtype, y.tolist()) == (np.int32, [[[6, 6]]])


def test_a_slice_of_an_unknown_rank_by_bounds_that_are_computed() -> None:
    """Scalars have no axis to slice, so that they are not among the ranks that the model is compiled for."""
    bounds = {name: (np.int64, (1,)) for name in ("low", "high")}
    model = gw.compile(model_of("Slice", 13, {"x": (np.float32, None), **bounds}))
    for shape in ((5, 3), (5,), (4, 2, 2)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(model(x, np.array([1]), np.array([3]))[0], x[1:3])
    with pytest.raises(gw.GraphwrightError):
        model(np.zeros((), np.float32), np.array([1]), np.array([3]))
