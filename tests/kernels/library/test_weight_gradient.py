"""Gradients of the weights of convolutions against sums over pixels, in guarded memory."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.kernels.conv import weight_gradient
from graphwright.kernels.conv.weight_gradient import WeightGradientCall
from graphwright.records import replace
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, guard
from tests.kernels.library.harness import call, load


def expected(x: AnyArray, dy: AnyArray, a: WeightGradientCall) -> npt.NDArray[np.float64]:
    """Sums over output pixels, in f64: dw[groups * cout, cin, kd, kh, kw]."""
    dw = np.zeros((a.groups * a.cout, a.cin, a.kd, a.kh, a.kw))
    for tap in product(range(a.kd), range(a.kh), range(a.kw)):
        for pixel in product(range(a.od), range(a.oh), range(a.ow)):
            at = (
                pixel[0] * a.stride_d + tap[0] * a.dilation_d - a.pad_front,
                pixel[1] * a.stride_h + tap[1] * a.dilation_h - a.pad_top,
                pixel[2] * a.stride_w + tap[2] * a.dilation_w - a.pad_left,
            )
            if all(0 <= i < n for i, n in zip(at, (a.d, a.h, a.w), strict=True)):
                image = x[:, :, *at].reshape(a.images, a.groups, a.cin).astype(np.float64)
                result = dy[:, :, *pixel].reshape(a.images, a.groups, a.cout)
                dw[:, :, *tap] += np.einsum("ngm,ngc->gmc", result, image).reshape(-1, a.cin)
    return dw


@st.composite
def cases(draw: st.DrawFn) -> WeightGradientCall:
    """Sizes of which all windows begin in the padded image; the last ones may end after it."""
    size = tuple(draw(st.sampled_from(each)) for each in ([1, 1, 3], [1, 2, 7, 19], [1, 3, 16, 21]))
    kernel = tuple(draw(st.integers(1, most)) for most in (2, 3, 5))
    strides = tuple(draw(st.integers(1, most)) for most in (2, 3, 4))
    dilations = tuple(draw(st.integers(1, most)) for most in (2, 2, 3))
    pads = tuple(draw(st.integers(0, (k - 1) * d)) for k, d in zip(kernel, dilations, strict=True))
    counts = tuple((n + 2 * p - 1) // s + 1 for n, p, s in zip(size, pads, strides, strict=True))
    sizes = draw(st.integers(0, 3)), draw(st.integers(1, 3)), *(draw(st.integers(1, 14)) for _ in range(2))
    return WeightGradientCall(*sizes, *size, *counts, *kernel, *strides, *pads, *dilations)


@each_isa
@given(case=cases(), blocks=st.tuples(*[st.sampled_from([1, 2, 7])] * 5) | st.none())
@example(case=WeightGradientCall(1, 1, 2, 3, 1, 1, 0, 1, 1, 0, *(1,) * 6, *(0,) * 3, *(1,) * 3), blocks=None)
@example(
    case=WeightGradientCall(3, 1, 9, 70, 1, 5, 5, 1, 5, 5, 1, 3, 3, *(1,) * 3, 0, 1, 1, *(1,) * 3),
    blocks=None,
)
@example(
    case=WeightGradientCall(1, 1, 1, 1, 1, 1, 5000, 1, 1, 5000, 1, 1, 3, *(1,) * 3, 0, 0, 1, *(1,) * 3),
    blocks=None,
)
@settings(deadline=None, max_examples=80)
def test_weight_gradients_are_sums_over_pixels(
    isa: Isa, case: WeightGradientCall, blocks: tuple[int, ...] | None
) -> None:
    """Also with blocks of any size, which the kernel accepts."""
    args: Any = weight_gradient.blocked(isa, case)
    if blocks is not None:
        names = ("block_cout", "block_cin", "block_images", "block_lines", "block_columns")
        args = replace(args, **dict(zip(names, blocks, strict=True)))
    rng = np.random.default_rng(args.ow + args.cin)
    x = rng.standard_normal((args.images, args.groups * args.cin, args.d, args.h, args.w)).astype(np.float32)
    dy = rng.standard_normal((args.images, args.groups * args.cout, args.od, args.oh, args.ow))
    dy = dy.astype(np.float32)
    dw = guard(np.empty((args.groups * args.cout, args.cin, args.kd, args.kh, args.kw), np.float32))
    kernel, grid = load(weight_gradient, isa).gw_weight_gradient_f32, args.grid
    room, results = args.scratch_bytes(isa), []
    for chunks in chunkings(grid):
        dw[...] = np.nan
        assert call(kernel, [guard(x), guard(dy), dw], args, grid, room, chunks=chunks) == 0
        results.append(dw.copy())
    np.testing.assert_allclose(results[0], expected(x, dy, args), rtol=1e-4, atol=1e-4)
    for result in results[1:]:
        np.testing.assert_array_equal(result.view(np.uint32), results[0].view(np.uint32))
