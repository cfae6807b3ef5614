"""Transposed depthwise convolution against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.kernels.conv import depthwise_transpose
from graphwright.records import replace
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import each_isa, guard
from tests.kernels.library.harness import call, hook, load
from tests.kernels.library.transposed import (
    SMALL,
    assert_hook_gets_each_output_once,
    cases,
    expected_of,
    in_all_chunks,
    problem,
)

NO_COLUMNS = SMALL | {"kernel": (2, 1), "strides": (2, 1), "size": (2, 1), "pads": (0, 1), "out": (4, 0)}
NO_TAPS = SMALL | {"kernel": (1, 1), "strides": (3, 3), "out": (5, 6)}
"""Most rows and columns of the result have no taps."""
BANDS = SMALL | {
    "n": 2, "groups": 3, "cout": 2, "size": (25, 40), "kernel": (4, 3), "strides": (2, 3),
    "dilations": (3, 2), "pads": (4, 1), "out": (54, 121),
}  # fmt: skip
"""Rows of several bands, with dilated windows that reach from one band to the next."""


@st.composite
def depthwise_cases(draw: st.DrawFn) -> dict[str, Any]:
    """One input channel per group; strides of up to two vectors."""
    case = draw(st.one_of(cases(), cases(3), cases(most=(40, 33))))
    return case | {
        "cin": 1,
        "groups": draw(st.sampled_from([1, 2, 5])),
        "cout": draw(st.sampled_from([1, 3])),
    }


@each_isa
@given(
    case=depthwise_cases(),
    act=st.booleans(),
    with_bias=st.booleans(),
    gap=st.sampled_from([0, 3]),
    side=st.sampled_from(["start", "end"]),
)
@example(case=BANDS, act=False, with_bias=True, gap=0, side="end")
@example(case=NO_TAPS, act=True, with_bias=True, gap=0, side="start")
@settings(deadline=None, max_examples=100)
def test_each_channel_is_scattered(
    isa: Isa, case: dict[str, Any], act: bool, with_bias: bool, gap: int, side: str
) -> None:
    x, w, bias, y, whole = problem(case, gap, side)
    args = replace(whole, act=int(act))
    expected = expected_of(x, w, bias if with_bias else None, case, act)
    grid, room = depthwise_transpose.grid(args), depthwise_transpose.scratch_bytes(isa, args)
    kernel = load(depthwise_transpose, isa).gw_depthwise_transpose_f32
    operands = [x, guard(w), guard(bias) if with_bias else None, y]
    result = in_all_chunks(kernel, operands, args, grid, room)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@each_isa
@given(case=depthwise_cases())
@example(case=NO_COLUMNS)
@example(case=BANDS)
@settings(deadline=None, max_examples=30)
def test_hook_gets_each_output_once(isa: Isa, case: dict[str, Any]) -> None:
    x, w, bias, y, args = problem(case, 0, "end")
    kernel = load(depthwise_transpose, isa).gw_depthwise_transpose_f32
    grid, room = depthwise_transpose.grid(args), depthwise_transpose.scratch_bytes(isa, args)
    operands = [x, guard(w), guard(bias), None]
    expected = expected_of(x, w, bias, case, act=False)
    assert_hook_gets_each_output_once(kernel, operands, args, grid, room, y, expected)


@each_isa
def test_errors_of_the_hook_are_returned(isa: Isa) -> None:
    x, w, bias, _, args = problem(SMALL, 0, "end")
    kernel, room = (
        load(depthwise_transpose, isa).gw_depthwise_transpose_f32,
        depthwise_transpose.scratch_bytes(isa, args),
    )
    assert (
        call(kernel, [x, guard(w), bias, None], args, depthwise_transpose.grid(args), room, hook=hook("fail"))
        == 7
    )


@each_isa
@pytest.mark.parametrize("kernel", [3, 16, 21, 32])
def test_infinity_reaches_its_outputs_alone(isa: Isa, kernel: int) -> None:
    """An infinite input times a tap that does not exist would be NaN."""
    case = SMALL | {"kernel": (1, kernel), "strides": (1, 16), "size": (1, 5), "out": (1, 4 * 16 + kernel)}
    x, w, bias, y, args = problem(case, 0, "end")
    x[0, 0, 0, 2] = np.inf
    room = depthwise_transpose.scratch_bytes(isa, args)
    call(
        load(depthwise_transpose, isa).gw_depthwise_transpose_f32,
        [x, guard(w), bias, y],
        args,
        depthwise_transpose.grid(args),
        room,
    )
    np.testing.assert_array_equal(np.flatnonzero(~np.isfinite(y[0, 0, 0])), 32 + np.arange(kernel))
