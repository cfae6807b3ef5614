"""Transposed convolution against its definition: each input is scattered to the outputs that it reaches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.kernels.conv import conv_transpose
from graphwright.layout import transform
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
    problem,
)


def packed(w: F32) -> AnyArray:
    return guard(in_blocks(w.reshape(*w.shape[:2], -1, w.shape[-1])))


def in_blocks(w: F32) -> AnyArray:
    """Weights [Cin, Cout, kh, kw] as [blocks, kh, kw, Cin, 12], padded with zeros."""
    cin, cout, kh, kw = w.shape
    blocks = -(-cout // 12)
    padded = np.zeros((cin, blocks * 12, kh, kw), w.dtype)
    padded[:, :cout] = w
    return np.ascontiguousarray(padded.reshape(cin, blocks, 12, kh, kw).transpose(1, 3, 4, 0, 2))


@each_isa
@given(
    case=st.one_of(cases(), cases(3)),
    act=st.booleans(),
    with_bias=st.booleans(),
    gap=st.sampled_from([0, 3]),
    side=st.sampled_from(["start", "end"]),
)
@settings(deadline=None, max_examples=60)
def test_conv_transpose_scatters_inputs(
    isa: Isa, case: dict[str, Any], act: bool, with_bias: bool, gap: int, side: str
) -> None:
    x, w, bias, y, args = problem(case, gap, side)
    args = replace(args, act=int(act))
    expected = expected_of(x, w, bias if with_bias else None, case, act)
    grid, room = conv_transpose.grid(isa, args), conv_transpose.scratch_bytes(isa, args)
    kernel = load(conv_transpose, isa).gw_conv_transpose_f32
    operands = [x, packed(w), guard(bias) if with_bias else None, y]
    result = in_all_chunks(kernel, operands, args, grid, room)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@each_isa
@given(case=st.one_of(cases(), cases(3)))
@settings(deadline=None, max_examples=30)
def test_hook_gets_each_output_once(isa: Isa, case: dict[str, Any]) -> None:
    x, w, bias, y, args = problem(case, 0, "end")
    kernel = load(conv_transpose, isa).gw_conv_transpose_f32
    grid, room = conv_transpose.grid(isa, args), conv_transpose.scratch_bytes(isa, args)
    operands = [x, packed(w), guard(bias), None]
    expected = expected_of(x, w, bias, case, act=False)
    assert_hook_gets_each_output_once(kernel, operands, args, grid, room, y, expected)


@each_isa
def test_errors_of_the_hook_are_returned(isa: Isa) -> None:
    x, w, bias, _, args = problem(SMALL, 0, "end")
    kernel = load(conv_transpose, isa).gw_conv_transpose_f32
    operands, room = [x, packed(w), bias, None], conv_transpose.scratch_bytes(isa, args)
    assert call(kernel, operands, args, conv_transpose.grid(isa, args), room, hook=hook("fail")) == 7


@each_isa
def test_nan_reaches_its_outputs_alone(isa: Isa) -> None:
    x, w, bias, y, args = problem(SMALL, 0, "end")
    x[0, 0, 1, 0] = np.nan
    kernel, room = load(conv_transpose, isa).gw_conv_transpose_f32, conv_transpose.scratch_bytes(isa, args)
    for act in (0, 1):
        call(kernel, [x, packed(w), bias, y], replace(args, act=act), conv_transpose.grid(isa, args), room)
        where = np.zeros((4, 4), bool)
        where[2:, :2] = True
        np.testing.assert_array_equal(np.isnan(y[0, 0]), where)


@pytest.mark.parametrize("shape", [(3, 1, 2, 2), (4, 12, 1, 3), (5, 29, 3, 2)])
def test_packed_weights_follow_their_layout(shape: tuple[int, ...]) -> None:
    w = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    packed = transform.pack(w, conv_transpose.LAYOUT)
    np.testing.assert_array_equal(packed, in_blocks(w))
    np.testing.assert_array_equal(packed[0, 0, -1, 1, 0], w[1, 0, 0, -1])
