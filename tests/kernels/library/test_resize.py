"""Resize against its definition in NumPy (float64) and against onnxruntime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graphwright.kernels.resize import resize
from graphwright.kernels.resize.resize import Coordinates, Resize, Rounding
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import chunkings, each_isa, guard
from tests.kernels.library.harness import call, load, strided
from tests.kernels.library.resizing import F32, NAMES, matrix, onnx_resize

MODES = {"nearest": Resize.NEAREST, "linear": Resize.LINEAR, "cubic": Resize.CUBIC}


def run(
    isa: Isa, mode: str, x: F32, out: tuple[int, int], gap: int = 0, side: str = "end", **options: Any
) -> F32:
    """The kernel's output, the same bits under every chunking."""
    planes, height, width = x.shape
    source, (x_plane, x_row, _) = strided(x, range(3), gap, side)
    y = guard(np.empty((planes, *out), np.float32), at_end=side == "end")
    spec = Resize(
        MODES[mode], planes, height, width, *out, (x_plane, x_row), (out[0] * out[1], out[1]), **options
    )
    kernel = getattr(load(resize, isa), spec.symbol)
    results = []
    for chunks in chunkings(spec.grid):
        y[...] = 99
        assert call(kernel, [source, y], spec.args, spec.grid, spec.scratch_bytes(isa), chunks=chunks) == 0
        results.append(y.copy())
    for result in results[1:]:
        np.testing.assert_array_equal(result.view(np.uint32), results[0].view(np.uint32))
    return results[0]


LENGTH = st.sampled_from([1, 2, 3, 7, 16, 37, 40])


@each_isa
@pytest.mark.parametrize("mode", MODES)
@given(
    planes=st.integers(0, 3), size=st.tuples(LENGTH, LENGTH),
    out=st.tuples(LENGTH, st.sampled_from([0, 1, 5, 33, 74, 80])),
    kind=st.sampled_from(Coordinates), rounding=st.sampled_from(Rounding), exclude=st.booleans(),
    a=st.sampled_from([-0.75, -0.5]), gap=st.sampled_from([0, 3]), side=st.sampled_from(["start", "end"]),
)  # fmt: skip
@settings(deadline=None, max_examples=40)
def test_resize_applies_the_operator_of_each_axis(
    isa: Isa, mode: str, planes: int, size: tuple[int, int], out: tuple[int, int], kind: Coordinates,
    rounding: Rounding, exclude: bool, a: float, gap: int, side: str,
) -> None:  # fmt: skip
    assume(mode != "nearest" or kind is not Coordinates.HALF_PIXEL_SYMMETRIC)  # its ties depend on FMAs
    x = np.random.default_rng(math.prod(size)).standard_normal((planes, *size)).astype(np.float32)
    options = {"coordinates": kind, "rounding": rounding, "cubic_a": a, "exclude_outside": exclude}
    result = run(isa, mode, x, out, gap, side, **options)
    rows, cols = (matrix(mode, n, o, o / n, options) for n, o in zip(size, out, strict=True))
    expected = np.einsum("oh,phw,qw->poq", rows, x.astype(np.float64), cols)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@each_isa
@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize(
    "kind",
    [
        Coordinates.HALF_PIXEL,
        Coordinates.ASYMMETRIC,
        Coordinates.ALIGN_CORNERS,
        Coordinates.PYTORCH_HALF_PIXEL,
    ],
)
def test_nearest_breaks_ties_as_onnxruntime(isa: Isa, kind: Coordinates, rounding: Rounding) -> None:
    x = np.random.default_rng(6).standard_normal((2, 9, 35)).astype(np.float32)
    for scales in ((2.0, 2.0), (3.0, 1.5), (1 / 3, 0.6), (0.8, 4.0)):
        out = (math.floor(9 * np.float32(scales[0])), math.floor(35 * np.float32(scales[1])))
        expected = onnx_resize(
            x,
            out,
            scales,
            "nearest",
            coordinate_transformation_mode=NAMES[kind],
            nearest_mode=rounding.name.lower(),
        )
        singles = [float(np.float32(s)) for s in scales]
        result = run(
            isa,
            "nearest",
            x,
            out,
            scale_h=singles[0],
            scale_w=singles[1],
            coordinates=kind,
            rounding=rounding,
        )
        np.testing.assert_array_equal(result, expected)


@each_isa
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("out", [(18, 70), (5, 17), (1, 80), (27, 36)])
@pytest.mark.parametrize(
    "kind", [Coordinates.HALF_PIXEL, Coordinates.PYTORCH_HALF_PIXEL, Coordinates.ALIGN_CORNERS]
)
def test_interpolation_agrees_with_onnxruntime(
    isa: Isa, mode: str, out: tuple[int, int], kind: Coordinates
) -> None:
    x = np.random.default_rng(7).standard_normal((2, 9, 35)).astype(np.float32)
    expected = onnx_resize(x, out, None, mode, coordinate_transformation_mode=NAMES[kind])
    np.testing.assert_allclose(run(isa, mode, x, out, coordinates=kind), expected, rtol=1e-4, atol=2e-5)


@each_isa
@pytest.mark.parametrize("mode", MODES)
def test_special_values_stay_where_they_are(isa: Isa, mode: str) -> None:
    x = np.zeros((1, 5, 64), np.float32)
    x[0, 2, 30] = np.nan
    y = run(isa, mode, x, (10, 128))
    reach = {"nearest": 1, "linear": 2, "cubic": 4}[mode]
    touched = np.argwhere(np.isnan(y[0]))
    assert touched[:, 1].min() >= 60 - 2 * reach + 2 and touched[:, 1].max() <= 61 + 2 * reach - 2
    assert np.isnan(y[0, 4:6, 60:62]).all()


@each_isa
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scale", [5e-324, 1e-300, -1e-300, -1.0, 1e300, math.inf, math.nan])
def test_scales_that_lead_far_out_of_the_input_read_its_elements(isa: Isa, mode: str, scale: float) -> None:
    x = np.random.default_rng(8).standard_normal((1, 3, 5)).astype(np.float32)
    for kind in Coordinates:
        for rounding in Rounding:
            options = {"coordinates": kind, "rounding": rounding}
            result = run(isa, mode, x, (4, 9), scale_h=scale, scale_w=scale, **options)
            assert mode != "nearest" or np.isin(result, x).all()
