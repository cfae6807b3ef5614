"""Transposed convolution against its definition: each input is scattered to the outputs that it reaches."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.kernels.library import conv_transpose, pack_transpose
from graphwright.kernels.library.conv_transpose import ConvTransposeArgs
from graphwright.kernels.library.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, element_strides, guard
from tests.kernels.library.harness import call, call_hooked, compile_c, hook, load, strided, zig

F32 = npt.NDArray[np.float32]


def scatter(x: F32, w: F32, case: dict[str, Any]) -> npt.NDArray[np.float64]:
    """Expected output, without bias, in float64."""
    n, cin, h, width = x.shape
    groups, (sh, sw), (dh, dw), (top, left) = case["groups"], case["strides"], case["dilations"], case["pads"]
    _, cout, kh, kw = w.shape
    oh, ow = case["out"]
    full = np.zeros(
        (
            n,
            groups,
            cout,
            max((h - 1) * sh + (kh - 1) * dh + 1, top + oh),
            max((width - 1) * sw + (kw - 1) * dw + 1, left + ow),
        )
    )
    xs = x.reshape(n, groups, cin // groups, h, width).astype(np.float64)
    ws = w.reshape(groups, cin // groups, cout, kh, kw).astype(np.float64)
    for ky, kx in product(range(kh), range(kw)):
        part = np.einsum("ngihw,gio->ngohw", xs, ws[..., ky, kx])
        rows, cols = (
            slice(ky * dh, ky * dh + (h - 1) * sh + 1, sh),
            slice(kx * dw, kx * dw + (width - 1) * sw + 1, sw),
        )
        full[..., rows, cols] += part
    return full[..., top : top + oh, left : left + ow].reshape(n, groups * cout, oh, ow)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    kernel, strides = (
        (draw(st.integers(1, 4)), draw(st.integers(1, 4))),
        (draw(st.integers(1, 4)), draw(st.integers(1, 4))),
    )
    dilations = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    size = (draw(st.sampled_from([1, 2, 5])), draw(st.sampled_from([1, 3, 16, 33, 70, 290])))
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
        rng.standard_normal((case["n"], groups * cin, *case["size"])).astype(np.float32), range(4), gap, side
    )
    w = rng.standard_normal((groups * cin, cout, *case["kernel"])).astype(np.float32)
    bias = rng.standard_normal(groups * cout).astype(np.float32)
    y = guard(np.empty((case["n"], groups * cout, *case["out"]), np.float32), at_end=side == "end")
    args = ConvTransposeArgs(
        *(case["n"], groups, cin, cout, *case["size"], *case["out"], *case["kernel"], *case["strides"]),
        *(*case["pads"], *case["dilations"], *x_strides[:3], *element_strides(y)[:3]),
        act=0,
    )
    return x, w, bias, y, args


def packed(w: F32) -> AnyArray:
    return guard(pack_transpose.pack(w))


@each_isa
@given(
    case=cases(),
    act=st.booleans(),
    with_bias=st.booleans(),
    gap=st.sampled_from([0, 3]),
    side=st.sampled_from(["start", "end"]),
)
@settings(deadline=None, max_examples=40)
def test_conv_transpose_scatters_inputs(
    isa: Isa, case: dict[str, Any], act: bool, with_bias: bool, gap: int, side: str
) -> None:
    x, w, bias, y, args = problem(case, gap, side)
    args = args._replace(act=int(act))
    expected = scatter(x, w, case) + (bias[:, None, None] if with_bias else 0)
    expected = np.maximum(expected, 0) if act else expected
    grid, room = conv_transpose.grid(isa, args), conv_transpose.scratch_bytes(isa, args)
    kernel = load(conv_transpose, isa).gw_conv_transpose_f32
    operands = [x, packed(w), guard(bias) if with_bias else None, y]
    results = []
    for chunks in chunkings(grid):
        y[...] = np.nan
        assert call(kernel, operands, args, grid, room, chunks=chunks) == 0
        results.append(y.copy())
    np.testing.assert_allclose(results[0], expected, rtol=1e-4, atol=1e-4)
    for result in results[1:]:
        np.testing.assert_array_equal(result.view(np.uint32), results[0].view(np.uint32))


@each_isa
@given(case=cases())
@settings(deadline=None, max_examples=30)
def test_hook_gets_each_output_once(isa: Isa, case: dict[str, Any]) -> None:
    x, w, bias, y, args = problem(case, 0, "end")
    kernel = load(conv_transpose, isa).gw_conv_transpose_f32
    grid, room = conv_transpose.grid(isa, args), conv_transpose.scratch_bytes(isa, args)
    shape = (y.shape[0], y.shape[1], math.prod(case["out"]))
    stored = call_hooked(kernel, [x, packed(w), guard(bias), None], args, grid, room, shape).reshape(y.shape)
    np.testing.assert_allclose(
        stored, 3 * (scatter(x, w, case) + bias[:, None, None]) + 1, rtol=3e-4, atol=3e-4
    )


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
        call(kernel, [x, packed(w), bias, y], args._replace(act=act), conv_transpose.grid(isa, args), room)
        where = np.zeros((4, 4), bool)
        where[2:, :2] = True
        np.testing.assert_array_equal(np.isnan(y[0, 0]), where)


@pytest.mark.parametrize("shape", [(3, 1, 2, 2), (4, 12, 1, 3), (5, 29, 3, 2)])
def test_packing_is_invertible_and_is_the_layout(shape: tuple[int, ...]) -> None:
    w = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    packed = pack_transpose.pack(w)
    assert packed.shape == pack_transpose.LAYOUT.physical_shape(shape)
    np.testing.assert_array_equal(pack_transpose.unpack(packed, shape[1]), w)
    np.testing.assert_array_equal(packed[0, 0, -1, 1, 0], w[1, 0, 0, -1])


@each_isa
def test_source_compiles_with_clang(isa: Isa) -> None:
    compile_c(conv_transpose.source(isa), f"conv_transpose_{isa.name}_zig", zig(), isa.zig_flags)
