"""Transposed convolution against its definition: each input is scattered to the outputs that it reaches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.kernels.conv import conv_transpose
from graphwright.kernels.conv.conv_transpose import ConvTransposeArgs
from graphwright.layout import transform
from graphwright.records import replace
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, element_strides, guard
from tests.kernels.library.harness import call, call_hooked, hook, load, strided

F32 = npt.NDArray[np.float32]


def scatter(x: F32, w: F32, case: dict[str, Any]) -> npt.NDArray[np.float64]:
    """Expected output, without bias, in float64."""
    n, cin, *size = x.shape
    _, cout, *kernel = w.shape
    groups, rank = case["groups"], len(size)
    axes = list(zip(size, kernel, case["strides"], case["dilations"], case["pads"], case["out"], strict=True))
    room = [max((i - 1) * s + (k - 1) * d + 1, p + o) for i, k, s, d, p, o in axes]
    full = np.zeros((n, groups, cout, *room))
    xs = x.reshape(n, groups, cin // groups, *size).astype(np.float64)
    ws = w.reshape(groups, cin // groups, cout, *kernel).astype(np.float64)
    for tap in product(*map(range, kernel)):
        part = np.einsum("ngi...,gio->ngo...", xs, ws[(..., *tap)])
        places = zip(tap, axes, strict=True)
        full[(..., *(slice(t * d, t * d + (i - 1) * s + 1, s) for t, (i, _, s, d, _, _) in places))] += part
    kept = tuple(slice(p, p + o) for _, _, _, _, p, o in axes)
    assert len(kept) == rank
    return full[(..., *kept)].reshape(n, groups * cout, *case["out"])


@st.composite
def cases(draw: st.DrawFn, rank: int = 2, most: tuple[int, int] = (4, 5)) -> dict[str, Any]:
    """Kernels and strides are at most ``most``."""
    kernel, strides = (tuple(draw(st.integers(1, size)) for _ in range(rank)) for size in most)
    dilations = tuple(draw(st.integers(1, 2)) for _ in range(rank))
    rows = tuple(draw(st.sampled_from([1, 2, 5])) for _ in range(rank - 1))
    size = (*rows, draw(st.sampled_from([1, 3, 16, 33, 70, 290] if rank == 2 else [1, 3, 16, 33])))
    out, pads = [], []
    for n, k, s, d in zip(size, kernel, strides, dilations, strict=True):
        reach = (k - 1) * d + 1
        begin, after, extra = (
            draw(st.integers(0, reach - 1)),
            draw(st.integers(0, reach - 1)),
            draw(st.integers(0, s - 1)),
        )
        pads.append(begin)
        out.append(max(0, (n - 1) * s + reach - begin - after + extra))
    return {
        "n": draw(st.integers(1, 2)), "groups": draw(st.integers(1, 2)),
        "cin": draw(st.sampled_from([1, 3, 24])),
        "cout": draw(st.sampled_from([1, 5, 13, 24])), "size": size, "kernel": kernel, "strides": strides,
        "dilations": dilations, "pads": tuple(pads), "out": tuple(out),
    }  # fmt: skip


def problem(case: dict[str, Any], gap: int, side: str) -> tuple[F32, F32, F32, F32, ConvTransposeArgs]:
    """x, w, bias, y and the args of a call but for ``act``."""
    rng = np.random.default_rng(math.prod(case["size"]) + case["cout"])
    groups, cin, cout = case["groups"], case["cin"], case["cout"]
    x, x_strides = strided(
        rng.standard_normal((case["n"], groups * cin, *case["size"])).astype(np.float32),
        range(2 + len(case["size"])), gap, side,
    )  # fmt: skip
    w = rng.standard_normal((groups * cin, cout, *case["kernel"])).astype(np.float32)
    bias = rng.standard_normal(groups * cout).astype(np.float32)
    y = guard(np.empty((case["n"], groups * cout, *case["out"]), np.float32), at_end=side == "end")
    args = ConvTransposeArgs(
        *(case["n"], groups, cin, cout, *_three(case["size"], 1), *_three(case["out"], 1)),
        *(*_three(case["kernel"], 1), *_three(case["strides"], 1), *_three(case["pads"], 0)),
        *(*_three(case["dilations"], 1), *_deep(x_strides[:-1]), *_deep(element_strides(y)[:-1])),
        act=0,
    )
    return x, w, bias, y, args


def _three(values: tuple[int, ...], fill: int) -> tuple[int, ...]:
    return (*(fill,) * (3 - len(values)), *values)


def _deep(strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides but for the width's, with one for a depth of 1."""
    return strides if len(strides) == 4 else (*strides[:2], 0, *strides[2:])


def per_channel(bias: F32, case: dict[str, Any]) -> F32:
    return bias.reshape(-1, *[1] * len(case["size"]))


def expected_of(x: F32, w: F32, bias: F32 | None, case: dict[str, Any], act: bool) -> npt.NDArray[np.float64]:
    """The result in float64."""
    y = scatter(x, w, case) + (0 if bias is None else per_channel(bias, case))
    return np.maximum(y, 0) if act else y


def assert_hook_gets_each_output_once(
    kernel: Any, operands: list[Any], args: Any, grid: Any, room: Any, y: F32, expected: AnyArray
) -> None:
    """The hook stores three times its tiles plus 1."""
    shape = (y.shape[0], y.shape[1], math.prod(y.shape[2:]))
    stored = call_hooked(kernel, operands, args, grid, room, shape).reshape(y.shape)
    np.testing.assert_allclose(stored, 3 * expected + 1, rtol=3e-4, atol=3e-4)


def in_all_chunks(kernel: Any, operands: list[Any], args: Sequence[Any], grid: Any, scratch: Any) -> F32:
    """The last operand, which the kernel writes; it must have the same bits however the grid is cut."""
    y, results = operands[-1], []
    for chunks in chunkings(grid):
        y[...] = np.nan
        assert call(kernel, operands, args, grid, scratch, chunks=chunks) == 0
        results.append(y.copy())
    for result in results[1:]:
        np.testing.assert_array_equal(result.view(np.uint32), results[0].view(np.uint32))
    return results[0]


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


SMALL = {
    "n": 1, "groups": 1, "cin": 1, "cout": 1, "size": (2, 2), "kernel": (2, 2), "strides": (2, 2),
    "dilations": (1, 1), "pads": (0, 0), "out": (4, 4),
}  # fmt: skip


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
