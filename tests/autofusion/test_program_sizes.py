"""Programs of a library whose inputs have computed sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import parser

from graphwright.autofusion.autofuse import Autofused, Request, autofuse
from graphwright.export.onnx import save_model
from tests.autofusion.sessions import with_library
from tests.export.peers import session

SUMS = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[past, 4] cache, float[new, 4] rows, float[total] mask)
        => (float[all, 4] y, float[both] z) <int64[1] one = {1}> {
        y = Concat <axis = 0> (cache, rows)
        sums = ReduceSum <keepdims = 0> (y, one)
        masked = Add (sums, mask)
        both = Concat <axis = 0> (masked, sums, masked)
        scaled = Tanh (both)
        z = Softmax <axis = 0> (scaled)
    }"""


VIEWS = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 2, H, W] x) => (float[a, b, c, d] y)
        <int64 one = {1}, int64 two = {2}, int64 three = {3}, int64[1] five = {5}, int64[1] rest = {-1},
         float[5, 2, 3, 3] w = {WEIGHTS}> {
        image = Conv <strides = [2, 2]> (x, w)
        shape = Shape (x)
        height = Gather (shape, two) width = Gather (shape, three)
        inner_height = Sub (height, three) inner_width = Sub (width, three)
        half_height = Div (inner_height, two) half_width = Div (inner_width, two)
        rows = Add (half_height, one) columns = Add (half_width, one)
        images = Shape <start = 0, end = 1> (x)
        channels = Mul (images, five)
        area = Mul (rows, columns) total = Mul (channels, area)
        pixels = Div (total, channels)
        view = Concat <axis = 0> (images, five, pixels)
        flat = Reshape (image, view)
        last = Transpose <perm = [0, 2, 1]> (flat)
        heads = Concat <axis = 0> (images, pixels, rest, five)
        split = Reshape (last, heads)
        y = Softmax <axis = 3> (split)
    }"""


def _with_library(fused: Autofused, folder: Path) -> onnxruntime.InferenceSession:
    """A session of ONNX Runtime that runs ``fused`` with its library."""
    assert fused.operator_library is not None
    save_model(fused.model, folder / "m.onnx")
    with (folder / "m.so").open("wb") as file:
        fused.operator_library.write(file)
    return with_library(folder / "m.onnx", folder / "m.so")


@pytest.mark.parametrize(("past", "new", "total"), [(3, 2, 5), (3, 2, 1), (0, 1, 4), (1, 0, 1)])
def test_a_sum_of_sizes_is_the_size_of_an_input(past: int, new: int, total: int, tmp_path: Path) -> None:
    """The sum of ``past`` and ``new`` is a size of the second program, which gets neither of them."""
    source = parser.parse_model(SUMS)
    fused = autofuse(source, Request(library=True))
    assert fused.operator_library is not None
    assert not fused.operator_library.refused
    rng = np.random.default_rng(1)
    feed = {
        "cache": rng.standard_normal((past, 4), np.float32),
        "rows": rng.standard_normal((new, 4), np.float32),
        "mask": rng.standard_normal(total, np.float32),
    }
    found = _with_library(fused, tmp_path).run(None, feed)
    for array, wanted in zip(found, session(source).run(None, feed), strict=True):
        np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dims", [(1, 2, 9, 8), (2, 2, 3, 3), (3, 2, 4, 11)])
def test_views_of_convolutions_by_quotients_of_sizes_are_one_program(
    dims: tuple[int, ...], tmp_path: Path
) -> None:
    """As PyTorch exports dynamic images: quotients of differences, which the convolution requires not to be
    negative, and a quotient by the number of images, which is assumed not to be 0.
    """
    rng = np.random.default_rng(2)
    weights = ", ".join(f"{value:.3f}" for value in rng.standard_normal(5 * 2 * 3 * 3))
    source = parser.parse_model(VIEWS.replace("WEIGHTS", weights))
    fused = autofuse(source, Request(library=True))
    library = fused.operator_library
    assert library is not None
    assert library.whole and list(library.likely_sizes) == ["1 <= 5*N"]
    feed = {"x": rng.standard_normal(dims, np.float32)}
    (found,) = _with_library(fused, tmp_path).run(None, feed)
    (wanted,) = session(source).run(None, feed)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
