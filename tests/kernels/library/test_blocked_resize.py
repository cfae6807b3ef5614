"""Resize of channel blocks against its definition in NumPy (float64) and against onnxruntime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graphwright.ir.symbols import evaluate, symbol
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.resize import blocked_resize
from graphwright.kernels.resize.blocked_resize import BlockedResizeArgs
from graphwright.kernels.resize.resize import Coordinates, Rounding
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.blocked import in_blocks, in_rows, place, room
from tests.kernels.library.cases import chunkings, each_isa
from tests.kernels.library.harness import call, load
from tests.kernels.library.resizing import NAMES, matrix, onnx_resize

F32 = npt.NDArray[np.float32]
MODES = {
    "nearest": blocked_resize.NEAREST,
    "linear": blocked_resize.LINEAR,
    "cubic": blocked_resize.CUBIC,
}


def run(
    isa: Isa, mode: str, x: F32, out: tuple[int, int], *, coordinates: Coordinates, gap: int = 0,
    side: str = "end", rounding: Rounding = Rounding.ROUND_PREFER_FLOOR, cubic_a: float = -0.75,
    exclude_outside: bool = False, scales: tuple[float, float] = (0.0, 0.0),
) -> F32:  # fmt: skip
    """The kernel's output, the same bits under every chunking."""
    (n, channels, h, w), name = x.shape, MODES[mode]
    values, x_strides = place(in_blocks(x, isa), side, gap)
    y, y_strides = room(n, channels, *out, isa, side, gap)
    args = BlockedResizeArgs(
        n, channels, coordinates, rounding, int(exclude_outside), double_bits(cubic_a),
        h, out[0], double_bits(scales[0]), w, out[1], double_bits(scales[1]), *x_strides, *y_strides,
    )  # fmt: skip
    grid, scratch = int(blocked_resize.grid(isa, args)), blocked_resize.scratch_bytes(name, args)
    results = []
    for chunks in chunkings(grid):
        y[...] = 99
        assert call(load(blocked_resize, isa)[name], [values, y], args, grid, scratch, chunks=chunks) == 0
        results.append(in_rows(y, channels).copy())
    for result in results[1:]:
        np.testing.assert_array_equal(result.view(np.uint32), results[0].view(np.uint32))
    return results[0]


LENGTH = st.sampled_from([1, 2, 3, 7, 16, 37])


@each_isa
@pytest.mark.parametrize("mode", MODES)
@given(
    n=st.integers(0, 2), channels=st.sampled_from([1, 16, 19]), size=st.tuples(LENGTH, LENGTH),
    out=st.tuples(LENGTH, st.sampled_from([0, 1, 5, 33, 74])),
    kind=st.sampled_from(Coordinates), rounding=st.sampled_from(Rounding), exclude=st.booleans(),
    a=st.sampled_from([-0.75, -0.5]), gap=st.sampled_from([0, 3]), side=st.sampled_from(["start", "end"]),
)  # fmt: skip
@settings(deadline=None, max_examples=40)
def test_resize_applies_the_operator_of_each_axis(
    isa: Isa, mode: str, n: int, channels: int, size: tuple[int, int], out: tuple[int, int],
    kind: Coordinates, rounding: Rounding, exclude: bool, a: float, gap: int, side: str,
) -> None:  # fmt: skip
    assume(mode != "nearest" or kind is not Coordinates.HALF_PIXEL_SYMMETRIC)  # its ties depend on FMAs
    shape = (n, channels, *size)
    x = np.random.default_rng(math.prod(size)).standard_normal(shape).astype(np.float32)
    options: dict[str, Any] = {
        "coordinates": kind, "rounding": rounding, "cubic_a": a, "exclude_outside": exclude
    }  # fmt: skip
    result = run(isa, mode, x, out, gap=gap, side=side, **options)
    rows, cols = (matrix(mode, s, o, o / s, options) for s, o in zip(size, out, strict=True))
    expected = np.einsum("oh,nchw,qw->ncoq", rows, x.astype(np.float64), cols)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


KINDS = [
    *(Coordinates.HALF_PIXEL, Coordinates.ASYMMETRIC),
    *(Coordinates.ALIGN_CORNERS, Coordinates.PYTORCH_HALF_PIXEL),
]


@each_isa
@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("kind", KINDS)
def test_nearest_breaks_ties_as_onnxruntime(isa: Isa, kind: Coordinates, rounding: Rounding) -> None:
    x = np.random.default_rng(6).standard_normal((1, 3, 9, 35)).astype(np.float32)
    for scales in ((2.0, 2.0), (3.0, 1.5), (1 / 3, 0.6), (0.8, 4.0)):
        out = (math.floor(9 * np.float32(scales[0])), math.floor(35 * np.float32(scales[1])))
        names = {"coordinate_transformation_mode": NAMES[kind], "nearest_mode": rounding.name.lower()}
        expected = onnx_resize(x[0], out, scales, "nearest", **names)
        single = (float(np.float32(scales[0])), float(np.float32(scales[1])))
        result = run(isa, "nearest", x, out, scales=single, coordinates=kind, rounding=rounding)
        np.testing.assert_array_equal(result[0], expected)


@each_isa
@pytest.mark.parametrize("mode", MODES)
def test_special_values_stay_where_they_are(isa: Isa, mode: str) -> None:
    x = np.zeros((1, 5, 5, 20), np.float32)
    x[0, 3, 2, 10] = np.nan
    y = run(isa, mode, x, (10, 40), coordinates=Coordinates.HALF_PIXEL)
    assert np.isnan(y[0, 3, 4:6, 20:22]).all()
    assert not np.isnan(np.delete(y, 3, 1)).any()
    assert not np.isnan(y[0, 3, :, :17]).any() and not np.isnan(y[0, 3, :, 25:]).any()


def test_sizes_may_be_symbols() -> None:
    h = symbol("H")
    strides = (64 * 9 * h, 16 * 9 * h, 144), (64 * 18 * 2 * h, 16 * 18 * 2 * h, 288)
    args = BlockedResizeArgs(2, 64, 0, 0, 0, 0, h, 2 * h, 0, 9, 18, 0, *strides[0], *strides[1])
    known = BlockedResizeArgs(*(evaluate(dim, {"H": 20}) for dim in args))
    for isa in ISAS.values():
        assert evaluate(blocked_resize.grid(isa, args), {"H": 20}) == 2 * (64 // isa.lanes) * 40
        for name in blocked_resize.TAPS:
            work = blocked_resize.work_ns(isa, name, args)
            assert evaluate(work, {"H": 20}) == blocked_resize.work_ns(isa, name, known)
