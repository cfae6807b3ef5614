"""Ops that read images between their elements, put blocks together or choose boxes, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I64, tensor
from graphwright.ops.core.det import Det
from graphwright.ops.nn.col2im import Col2Im
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.deform_conv import DeformConv
from graphwright.ops.nn.grid_sample import GridSample
from graphwright.ops.nn.max_unpool import MaxUnpool
from graphwright.ops.nn.non_max_suppression import NonMaxSuppression
from graphwright.ops.nn.roi_align import RoiAlign

from .peer import compare, imported, runtime


def floats(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def integers(*values: int) -> Any:
    return np.array(values, np.int64)


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_grid_sample_is_what_onnx_runtime_computes(mode: str, padding: str, aligned: int) -> None:
    grid = (2 * floats(2, 5, 6, 2, seed=1)).astype(np.float32)
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
    compare("GridSample", [floats(2, 3, 4, 7), grid], attributes, 16, tolerance=2e-4)
    compare("GridSample", [floats(2, 3, 1, 3), grid], attributes, 16, tolerance=2e-4)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_grid_sample_of_volumes_equals_onnx_runtime(mode: str, padding: str) -> None:
    grid = (2 * floats(2, 3, 4, 2, 3, seed=1)).astype(np.float32)
    compare("GridSample", [floats(2, 3, 4, 5, 3), grid], {"mode": mode, "padding_mode": padding}, 20)


def test_nearest_takes_the_even_one_of_two() -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)
    halves = (np.array([-0.5, 0.5, 1.5, 2.5, 3.5]) * 2 + 1) / 4 - 1
    grid = np.stack([halves, np.zeros(5)], -1).astype(np.float32).reshape(1, 1, 5, 2)
    (y,) = imported("GridSample", [x, grid], {"mode": "nearest"}, 20)
    np.testing.assert_array_equal(y.ravel(), [0, 0, 2, 2, 0])


def test_a_cubic_volume_is_cubic_along_each_axis() -> None:
    """The input is a product of three functions, one of each axis."""
    parts = [floats(1, 1, 1, 6, seed=k) for k in range(3)]
    x = np.einsum("i,j,k->ijk", *(p.ravel() for p in parts))[None, None].astype(np.float32)
    grid = np.random.default_rng(4).uniform(-1.2, 1.2, (1, 2, 2, 3, 3)).astype(np.float32)
    (y,) = imported("GridSample", [x, grid], {"mode": "cubic"}, 20)
    expected = np.ones(12)
    for part, axis in zip(parts, (2, 1, 0), strict=True):
        line = np.stack([grid[..., axis].ravel(), np.zeros(12, np.float32)], -1).reshape(1, 1, 12, 2)
        expected = expected * runtime("GridSample", [part, line], {"mode": "bicubic"}, 16)[0].ravel()
    np.testing.assert_allclose(y.ravel(), expected, rtol=1e-4, atol=1e-5)


def test_coordinates_out_of_reach_do_no_harm() -> None:
    x = floats(1, 1, 3, 3)
    wild = np.array([np.inf, -np.inf, 3e38, -3e38, np.nan], np.float32)
    grid = np.stack([wild, np.zeros(5, np.float32)], -1).reshape(1, 1, 5, 2)
    for mode in ("nearest", "linear", "cubic"):
        (y,) = imported("GridSample", [x, grid], {"mode": mode}, 20)
        np.testing.assert_array_equal(y.ravel()[:4], 0)
        (y,) = imported("GridSample", [x, grid], {"mode": mode, "padding_mode": "border"}, 20)
        right, left = x[0, 0, 1, 2], x[0, 0, 1, 0]
        np.testing.assert_allclose(y.ravel()[:4], [right, left, right, left], rtol=1e-6)


def test_grid_sample_of_integers_drops_the_fraction() -> None:
    x = np.array([[[[10, 11]]]], np.int32)
    grid = np.zeros((1, 1, 1, 2), np.float32)
    (y,) = imported("GridSample", [x, grid], {}, 20)
    assert y.dtype == np.int32
    assert y.tolist() == [[[[10]]]]


def test_an_infinite_neighbor_of_weight_0_is_not_read() -> None:
    x = np.array([[[[1, np.inf]]]], np.float32)
    grid = np.array([[[[-0.5, 0]]]], np.float32)
    (y,) = imported("GridSample", [x, grid], {}, 20)
    assert y.tolist() == [[[[1]]]]


BOXES = np.array(
    [[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [1, 0.9, 0, -0.1], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [2, 2, 2, 3]]],
    np.float32,
)
SCORES = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.6], [0.1, 0.9, 0.9, 0.2, 0.9, 0.3]]], np.float32)


@pytest.mark.parametrize("opset", [10, 11])
@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize(
    ("most", "overlap", "least"), [(3, 0.5, 0.0), (10, 0.0, 0.5), (2, 0.9, None), (0, 0.5, None)]
)
def test_non_max_suppression_equals_onnx_runtime(
    opset: int, center: int, most: int, overlap: float, least: float | None
) -> None:
    operands = [BOXES, SCORES, integers(most), np.array([overlap], np.float32)]
    if least is not None:
        operands.append(np.array([least], np.float32))
    compare("NonMaxSuppression", operands, {"center_point_box": center}, opset)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 30), st.floats(0, 1), st.booleans())
def test_non_max_suppression_of_many_boxes(seed: int, count: int, overlap: float, tied: bool) -> None:
    rng = np.random.default_rng(seed)
    boxes = rng.uniform(0, 3, (2, count, 4)).astype(np.float32)
    scores = rng.integers(0, 4, (2, 2, count)) if tied else rng.uniform(size=(2, 2, count))
    operands = [boxes, scores.astype(np.float32), integers(5), np.array([overlap], np.float32)]
    compare("NonMaxSuppression", operands, {}, 11)


def test_without_a_number_of_boxes_none_is_chosen() -> None:
    (y,) = imported("NonMaxSuppression", [BOXES, SCORES], {}, 11)
    assert y.shape == (0, 3)
    assert y.dtype == np.int64


@pytest.mark.parametrize(
    ("image", "block", "attributes"),
    [
        ((5, 6), (2, 3), {}),
        ((5, 6), (3, 2), {"strides": [2, 1], "pads": [1, 0, 1, 2]}),
        ((7, 6), (2, 2), {"dilations": [3, 2], "pads": [0, 1, 2, 0]}),
        ((3, 4, 5), (2, 1, 3), {"strides": [1, 2, 1]}),
    ],
)
def test_col2im_equals_onnx_runtime(
    image: tuple[int, ...], block: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    rank = len(image)
    pads = attributes.get("pads", [0] * (2 * rank))
    counts = [
        (size + pads[k] + pads[k + rank] - (attributes.get("dilations", [1] * rank)[k] * (block[k] - 1) + 1))
        // attributes.get("strides", [1] * rank)[k]
        + 1
        for k, size in enumerate(image)
    ]
    x = floats(2, 3 * int(np.prod(block)), int(np.prod(counts)))
    compare("Col2Im", [x, integers(*image), integers(*block)], attributes, 18)


def test_col2im_of_integers_wraps() -> None:
    x = np.full((1, 2, 2), 200, np.uint8)
    (y,) = imported("Col2Im", [x, integers(1, 3), integers(1, 2)], {}, 18)
    np.testing.assert_array_equal(y, [[[[200, 144, 200]]]])


@pytest.mark.parametrize(
    ("groups", "offset_groups", "attributes"),
    [
        (1, 1, {}),
        (2, 1, {"strides": [2, 1], "pads": [1, 0, 1, 2]}),
        (1, 2, {"dilations": [1, 2]}),
        (2, 4, {}),
    ],
)
def test_deformable_convolutions_equal_onnx_runtime(
    groups: int, offset_groups: int, attributes: dict[str, Any]
) -> None:
    x, w = floats(2, 4, 6, 7), floats(6, 4 // groups, 3, 2, seed=1)
    shape = runtime("Conv", [x, w], attributes | {"group": groups}, 22)[0].shape
    offset = (2 * floats(2, offset_groups * 12, *shape[2:], seed=2)).astype(np.float32)
    mask = floats(2, offset_groups * 6, *shape[2:], seed=3)
    full = attributes | {"group": groups, "offset_group": offset_groups}
    compare("DeformConv", [x, w, offset, floats(6), mask], full, 19, tolerance=1e-4)
    compare("DeformConv", [x, w, offset, None, mask], full, 19, tolerance=1e-4)


@pytest.mark.parametrize("size", [(9,), (5, 6), (3, 4, 5)])
def test_a_deformable_convolution_without_offsets_is_a_convolution(size: tuple[int, ...]) -> None:
    x, w = floats(2, 3, *size), floats(4, 3, *[2] * len(size), seed=1)
    expected = Conv().reference(x, w)
    offset = np.zeros((2, 2 ** len(size) * len(size), *expected.shape[2:]), np.float32)
    np.testing.assert_allclose(DeformConv().reference(x, w, offset), expected, rtol=1e-4, atol=1e-5)


REGIONS = np.array(
    [[0, 0, 5, 6], [1.5, 2, 3, 2.5], [-4, -3, 9, 11], [2, 2, 2, 2], [3, 3, 30, 40]], np.float32
)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("points", [0, 1, 3])
@pytest.mark.parametrize(
    ("opset", "coordinates"), [(10, None), (16, None), (16, "half_pixel"), (16, "output_half_pixel")]
)
def test_roi_align_equals_onnx_runtime(opset: int, coordinates: str | None, points: int, mode: str) -> None:
    attributes: dict[str, Any] = {
        "output_height": 3, "output_width": 2, "sampling_ratio": points, "spatial_scale": 0.5, "mode": mode
    }  # fmt: skip
    if coordinates:
        attributes["coordinate_transformation_mode"] = coordinates
    x = np.abs(floats(2, 3, 8, 7))
    compare("RoiAlign", [x, REGIONS, integers(0, 1, 1, 0, 0)], attributes, opset)


def test_infinities_stay_in_the_bins_that_read_them() -> None:
    x = np.ones((1, 2, 8, 8), np.float32)
    x[0, 1, 0, 0] = np.inf
    (y,) = imported("RoiAlign", [x, np.array([[0, 0, 8, 8]], np.float32), integers(0)],
                    {"output_height": 2, "output_width": 2}, 10)  # fmt: skip
    np.testing.assert_allclose(y[0, 0], 1)
    np.testing.assert_allclose(y[0, 1], [[np.inf, 1], [1, 1]])


def test_max_unpool_undoes_max_pool() -> None:
    x = floats(2, 3, 7, 5)
    pooled, places = imported("MaxPool", [x], {"kernel_shape": [2, 2], "strides": [2, 2]}, 12, 2)
    operands = [pooled, places, integers(2, 3, 7, 5)]
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    compare("MaxUnpool", operands, attributes, 11)
    (y,) = imported("MaxUnpool", operands, attributes, 11)
    assert set(np.unique(y)) == {0.0, *pooled.ravel()}
    np.testing.assert_array_equal(y[y != 0], x[y != 0])


@pytest.mark.parametrize("opset", [9, 11])
def test_max_unpool_infers_its_shape(opset: int) -> None:
    attributes = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1]}
    compare(
        "MaxUnpool", [floats(1, 2, 2, 2), integers(*range(0, 24, 3)).reshape(1, 2, 2, 2)], attributes, opset
    )


@pytest.mark.parametrize("size", [1, 2, 5, 20])
def test_determinants_equal_onnx_runtime(size: int) -> None:
    compare("Det", [floats(3, 2, size, size)], {}, 11, tolerance=1e-3)


def test_det_of_permutations_and_singular_matrices() -> None:
    swap = np.eye(4, dtype=np.float32)[[1, 0, 3, 2]]
    cycle = np.eye(4, dtype=np.float32)[[1, 2, 3, 0]]
    stack = np.stack([swap, cycle, np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32)])
    np.testing.assert_allclose(imported("Det", [stack], {}, 22)[0], [1, -1, 0, 0], atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_are_computed_in_f32(dtype: Any) -> None:
    x = (np.arange(16).reshape(1, 1, 4, 4) * 16).astype(dtype)
    grid = np.full((1, 1, 1, 2), 0.125, dtype)
    (y,) = imported("GridSample", [x, grid], {}, 22)
    assert y.dtype == dtype
    np.testing.assert_allclose(y.astype(np.float32), 16 * (1.75 * 4 + 1.75), rtol=4e-3)


def test_shapes_of_results_follow_symbolic_sizes() -> None:
    n, h, w, r = symbol("N"), symbol("H"), symbol("W"), symbol("R")
    b, (x, grid, regions, images, boxes, scores, places) = new_main_graph(
        Module(),
        [
            ("x", tensor(F32, n, 3, h, w)),
            ("grid", tensor(F32, n, w, h, 2)),
            ("regions", tensor(F32, r, 4)),
            ("images", tensor(I64, r)),
            ("boxes", tensor(F32, n, h, 4)),
            ("scores", tensor(F32, n, 2, h)),
            ("places", tensor(I64, n, 3, h, w)),
        ],
    )
    assert b(GridSample(), x, grid).type == tensor(F32, n, 3, w, h)
    assert b(RoiAlign(7, 7), x, regions, images).type == tensor(F32, r, 3, 7, 7)
    assert b(MaxUnpool((2, 2), (2, 2)), x, places).type == tensor(F32, n, 3, 2 * h, 2 * w)
    assert b(NonMaxSuppression(), boxes, scores).type.dims[1] == 3
    square = b.graph.add_input(tensor(F32, n, h, h), "square")
    assert b(Det(), square).type == tensor(F32, n)
    blocks = b.graph.add_input(tensor(F32, n, 12, h * w), "blocks")
    assert b(Col2Im((2 * h, 2 * w), (2, 2), (2, 2)), blocks).type == tensor(F32, n, 3, 2 * h, 2 * w)


@pytest.mark.parametrize("scale", [1.0, 0.5, 0.7])
def test_max_roi_pool_equals_onnx_runtime(scale: float) -> None:
    rows = [[0, 0, 0, 4, 3], [1, 2, 1, 9, 9], [1, 3, 3, 2, 2], [0, 1.5, 2.5, 6, 6.4], [1, -3, 0, 3, 20]]
    rows += [[0, 6, 7, 30, 30], [1, -20, 2, -9, 5], [0, 50, 1, 60, 3]]  # partly or wholly outside
    attributes = {"pooled_shape": [3, 2], "spatial_scale": scale}
    compare("MaxRoiPool", [floats(2, 3, 8, 7), np.array(rows, np.float32)], attributes, 11)


@pytest.mark.parametrize("align", [0, 1])
def test_grids_of_affine_maps_equal_onnx_runtime(align: int) -> None:
    rng = np.random.default_rng(3)
    for size in ((1, 1, 3, 4), (2, 3, 1, 5), (1, 2, 1, 1), (2, 1, 3, 1, 2), (3, 1, 2, 4, 1)):
        axes = len(size) - 2
        theta = rng.standard_normal((size[0], axes, axes + 1)).astype(np.float32)
        compare("AffineGrid", [theta, np.array(size)], {"align_corners": align}, opset=20)
