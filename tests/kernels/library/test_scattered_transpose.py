"""Transposed convolution by scattering against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.kernels.conv import scattered_transpose
from graphwright.kernels.conv.conv_transpose import ConvTransposeArgs
from graphwright.kernels.conv.scattered_transpose import ScatteredTransposeArgs
from graphwright.layout.transform import pack
from graphwright.records import replace
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, each_isa, guard
from tests.kernels.library.harness import call, hook, load
from tests.kernels.library.transposed import (
    F32,
    SMALL,
    assert_hook_gets_each_output_once,
    cases,
    expected_of,
    in_all_chunks,
    per_channel,
    problem,
    scatter,
)


def args_of(args: ConvTransposeArgs) -> ScatteredTransposeArgs:
    """The arguments without a depth."""
    a = args
    return ScatteredTransposeArgs(
        *(a.images, a.groups, a.cin, a.cout, a.h, a.w, a.oh, a.ow, a.kh, a.kw, a.stride_h, a.stride_w),
        *(a.pad_top, a.pad_left, a.dilation_h, a.dilation_w, a.x_batch, a.x_channel, a.x_row),
        *(a.y_batch, a.y_channel, a.y_row, a.act),
    )


def packed(w: F32) -> AnyArray:
    return guard(pack(w.reshape(w.shape[0], -1), scattered_transpose.LAYOUT))


@each_isa
@given(
    case=cases(),
    act=st.booleans(),
    with_bias=st.booleans(),
    gap=st.sampled_from([0, 3]),
    side=st.sampled_from(["start", "end"]),
)
@settings(deadline=None, max_examples=100)
def test_each_input_is_scattered(
    isa: Isa, case: dict[str, Any], act: bool, with_bias: bool, gap: int, side: str
) -> None:
    x, w, bias, y, whole = problem(case, gap, side)
    args = args_of(replace(whole, act=int(act)))
    expected = expected_of(x, w, bias if with_bias else None, case, act)
    grid, room = scattered_transpose.grid(isa, args), scattered_transpose.scratch_bytes(isa, args)
    kernel = load(scattered_transpose, isa).gw_scattered_transpose_f32
    operands = [x, packed(w), guard(bias) if with_bias else None, y]
    result = in_all_chunks(kernel, operands, args, grid, room)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@each_isa
@pytest.mark.parametrize("width", [15, 33, 200])
def test_bands_share_input_rows(isa: Isa, width: int) -> None:
    """Rows of several bands, with dilated windows that reach from one band to the next."""
    case = {
        "n": 2, "groups": 1, "cin": 5, "cout": 3, "size": (70, width), "kernel": (4, 3), "strides": (2, 3),
        "dilations": (3, 2), "pads": (4, 1), "out": (144, 3 * width + 1),
    }  # fmt: skip
    x, w, bias, y, whole = problem(case, 0, "end")
    args = args_of(whole)
    grid, room = scattered_transpose.grid(isa, args), scattered_transpose.scratch_bytes(isa, args)
    assert isinstance(grid, int) and grid > 2
    kernel = load(scattered_transpose, isa).gw_scattered_transpose_f32
    assert call(kernel, [x, packed(w), guard(bias), y], args, grid, room) == 0
    np.testing.assert_allclose(y, scatter(x, w, case) + per_channel(bias, case), rtol=1e-4, atol=1e-4)


NO_COLUMNS = SMALL | {"kernel": (2, 1), "strides": (2, 1), "size": (2, 1), "pads": (0, 1), "out": (4, 0)}


@each_isa
@given(case=cases())
@example(case=NO_COLUMNS)
@settings(deadline=None, max_examples=30)
def test_hook_gets_each_output_once(isa: Isa, case: dict[str, Any]) -> None:
    x, w, bias, y, whole = problem(case, 0, "end")
    args = args_of(whole)
    kernel = load(scattered_transpose, isa).gw_scattered_transpose_f32
    grid, room = scattered_transpose.grid(isa, args), scattered_transpose.scratch_bytes(isa, args)
    operands = [x, packed(w), guard(bias), None]
    expected = expected_of(x, w, bias, case, act=False)
    assert_hook_gets_each_output_once(kernel, operands, args, grid, room, y, expected)


@each_isa
def test_errors_of_the_hook_are_returned(isa: Isa) -> None:
    x, w, bias, _, whole = problem(SMALL, 0, "end")
    args = args_of(whole)
    kernel = load(scattered_transpose, isa).gw_scattered_transpose_f32
    operands, room = [x, packed(w), bias, None], scattered_transpose.scratch_bytes(isa, args)
    assert call(kernel, operands, args, scattered_transpose.grid(isa, args), room, hook=hook("fail")) == 7


@each_isa
def test_nan_and_infinite_weights_reach_their_outputs_alone(isa: Isa) -> None:
    x, w, bias, y, whole = problem(SMALL, 0, "end")
    args = args_of(whole)
    kernel = load(scattered_transpose, isa).gw_scattered_transpose_f32
    grid, room = scattered_transpose.grid(isa, args), scattered_transpose.scratch_bytes(isa, args)
    x[0, 0, 1, 0] = np.nan
    call(kernel, [x, packed(w), bias, y], args, grid, room)
    where = np.zeros((4, 4), bool)
    where[2:, :2] = True
    np.testing.assert_array_equal(np.isnan(y[0, 0]), where)
    x[...], w[0, 0, 0, 1] = 1, np.inf
    call(kernel, [x, packed(w), bias, y], args, grid, room)
    np.testing.assert_array_equal(np.isinf(y[0, 0]), np.tile([[False, True], [False, False]], (2, 2)))
    assert not np.isnan(y).any()
