"""Depthwise convolution against float64 NumPy: windows, multipliers, layouts, hook, chunking, guard pages."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.ir.symbols import evaluate, symbol
from graphwright.kernels.conv import depthwise
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.cases import chunkings, each_isa
from tests.kernels.library.harness import load, strided
from tests.kernels.library.windows import (
    DEEP_WINDOWS,
    LAYOUTS,
    WINDOWS,
    Prepared,
    Window,
    assert_near,
    deep_strides,
    depth_height_width,
    normal,
    reference,
    with_depth,
)


class Depthwise(Prepared):
    """Operands laid out in guarded memory and ready to run."""

    def __init__(
        self, isa: Isa, x: Any, w: Any, bias: Any, window: Window, *, act: int = 0,
        layout: str = "nchw", y_layout: str = "nchw", side: str = "end",
    ) -> None:  # fmt: skip
        (n, cin, *sizes), channels = x.shape, w.shape[0]
        rank, counts = len(sizes), window.output(*sizes)
        order, gap, step = LAYOUTS[layout]
        x, x_strides = strided(x, with_depth(order, rank), gap, side, step)
        order, gap, step = LAYOUTS[y_layout]
        self.y, y_strides = strided(
            np.zeros((n, channels, *counts)), with_depth(order, rank), gap, side, step
        )
        self.args = depthwise.DepthwiseArgs(
            n, cin, 1, channels // cin, *depth_height_width(sizes, window), *deep_strides(x_strides),
            *deep_strides(y_strides), act,
        )  # fmt: skip
        w = strided(w, range(w.ndim), 0, side)[0]
        bias = None if bias is None else strided(bias, (0,), 0, side)[0]
        self.operands = [x, w, bias, self.y]
        self.kernel = load(depthwise, isa)[depthwise.SYMBOL]
        self.grid, self.scratch = depthwise.grid(self.args), depthwise.scratch_bytes(isa, self.args)


def operands(rng: np.random.Generator, n: int, cin: int, multiplier: int, *sizes_and_window: Any) -> Any:
    """Returns x, the weights and the bias."""
    *sizes, window = sizes_and_window
    channels = cin * multiplier
    return normal(rng, n, cin, *sizes), normal(rng, channels, 1, *window.kernel), normal(rng, channels)


usual = st.builds(
    lambda size, stride, pads: Window((size, size), (stride, stride), pads),
    st.sampled_from([3, 5, 7]), st.sampled_from([1, 2]), st.tuples(*[st.integers(0, 3)] * 4),
)  # fmt: skip


@each_isa
@settings(max_examples=150, deadline=None)
@given(
    window=st.one_of(usual, WINDOWS), n=st.integers(0, 2), cin=st.integers(1, 4),
    multiplier=st.integers(1, 2), h=st.sampled_from([1, 2, 3, 5, 7, 14, 17, 35]),
    w=st.one_of(st.integers(1, 40), st.sampled_from([63, 65, 100])),
    bias=st.booleans(), act=st.integers(0, 1), layout=st.sampled_from(list(LAYOUTS)),
    y_layout=st.sampled_from(list(LAYOUTS)), side=st.sampled_from(["start", "end"]),
)  # fmt: skip
@example(Window((3, 3), (2, 2), (0, 0, 1, 1)), 1, 2, 1, 35, 35, True, 1, "nchw", "nchw", "end")
@example(Window((5, 5), (1, 1), (2, 2, 2, 2)), 1, 2, 1, 7, 7, True, 1, "nchw", "nchw", "start")
@example(Window((1, 3), (1, 2), (0, 40, 0, 40)), 1, 1, 1, 1, 2, True, 0, "nchw", "nchw", "end")
@example(Window((1, 1), (1, 1), (0, 9, 0, 0)), 1, 1, 1, 1, 2, True, 0, "nchw", "nchw", "start")
@example(Window((3, 1), (1, 2), (0, 9, 0, 0)), 1, 1, 1, 5, 1, True, 0, "nchw", "nchw", "start")
def test_matches_float64(
    isa: Isa, window: Window, n: int, cin: int, multiplier: int, h: int, w: int, bias: bool, act: int,
    layout: str, y_layout: str, side: str,
) -> None:  # fmt: skip
    if min(window.output(h, w)) < 1:
        return
    x, weights, shift = operands(np.random.default_rng(h * w), n, cin, multiplier, h, w, window)
    shift = shift if bias else None
    case = Depthwise(isa, x, weights, shift, window, act=act, layout=layout, y_layout=y_layout, side=side)
    assert_near(
        case.run(), reference(x, weights, shift, cin, window, act), window.kernel[0] * window.kernel[1]
    )


@each_isa
@settings(max_examples=60, deadline=None)
@given(
    window=DEEP_WINDOWS, n=st.integers(0, 2), cin=st.integers(1, 3), multiplier=st.integers(1, 2),
    size=st.tuples(st.integers(1, 6), st.integers(1, 9), st.sampled_from([1, 2, 15, 33, 70])),
    act=st.integers(0, 1), layout=st.sampled_from(list(LAYOUTS)), y_layout=st.sampled_from(list(LAYOUTS)),
)  # fmt: skip
@example(Window((1, 1, 1), (1, 1, 1), (4, 0, 0, 4, 0, 0), (1, 1, 1)), 1, 2, 1, (1, 2, 3), 1, "nchw", "nchw")
def test_three_axes_match_float64(
    isa: Isa, window: Window, n: int, cin: int, multiplier: int, size: tuple[int, int, int], act: int,
    layout: str, y_layout: str,
) -> None:  # fmt: skip
    if min(window.output(*size)) < 1:
        return
    x, weights, shift = operands(np.random.default_rng(sum(size)), n, cin, multiplier, *size, window)
    case = Depthwise(isa, x, weights, shift, window, act=act, layout=layout, y_layout=y_layout)
    expected = reference(x, weights, shift, cin, window, act)
    runs = [case.run(chunks) for chunks in chunkings(case.grid)]
    assert_near(runs[0], expected, prod(window.kernel))
    assert all(np.array_equal(runs[0], run) for run in runs)
    assert_near(case.run_hooked(), 3 * expected + 1, 9 * prod(window.kernel))


@each_isa
@pytest.mark.parametrize("size, stride", [(3, 1), (3, 2), (5, 1), (5, 2), (4, 3), (7, 1)])
def test_any_chunking_gives_the_same_bits(isa: Isa, size: int, stride: int) -> None:
    window = Window((size, size), (stride, stride), (1, 1, 1, 1))
    x, weights, bias = operands(np.random.default_rng(1), 2, 5, 1, 67, 33, window)
    case = Depthwise(isa, x, weights, bias, window, act=1)
    whole = case.run_in_any_chunks()
    assert_near(whole, reference(x, weights, bias, 5, window, 1), size * size)


@each_isa
def test_hook_gets_every_element_once(isa: Isa) -> None:
    for window in (Window((3, 3), pads=(1, 1, 1, 1)), Window((2, 3), (2, 1))):
        x, weights, bias = operands(np.random.default_rng(2), 2, 3, 2, 37, 21, window)
        stored = Depthwise(isa, x, weights, bias, window, act=1).run_hooked()
        assert_near(stored, 3 * reference(x, weights, bias, 3, window, 1) + 1, 81)


@each_isa
def test_error_of_the_hook_is_returned(isa: Isa) -> None:
    window = Window((2, 2))
    case = Depthwise(isa, *operands(np.random.default_rng(0), 1, 2, 1, 4, 5, window), window)
    assert case.error_of_hook() == 7


@each_isa
def test_nan_and_inf_follow_numpy(isa: Isa) -> None:
    window = Window((3, 3), pads=(1, 1, 1, 1))
    x, weights, bias = operands(np.random.default_rng(3), 1, 4, 1, 8, 50, window)
    x[0, 1, 0, 3], x[0, 2, 5, 20], x[0, 3, 7, 49] = np.nan, np.inf, -np.inf
    weights[2, 0, 1, 1] = 0
    for act in (0, 1):
        with np.errstate(invalid="ignore"):
            expected = reference(x, weights, bias, 4, window, act)
        assert_near(Depthwise(isa, x, weights, bias, window, act=act).run(), expected, 9)


def test_sizes_may_be_symbols() -> None:
    n, h = symbol("N"), symbol("H")
    sizes = (1, h, 56, 1, h, 56, 1, 3, 3, 1, 1, 1, 0, 1, 1, 1, 1, 1)
    strides = (64 * 56 * h, 56 * h, 56 * h, 56, 1)
    args = depthwise.DepthwiseArgs(n, 64, 1, 1, *sizes, *strides, *strides, 0)
    values = {"N": 2, "H": 30}
    known = depthwise.DepthwiseArgs(*(evaluate(dim, values) for dim in args))
    assert evaluate(depthwise.grid(args), values) == depthwise.grid(known) == 2 * 64 * 2
    for isa in ISAS.values():
        for formula in (depthwise.scratch_bytes, depthwise.work_ns):
            assert evaluate(formula(isa, args), values) == formula(isa, known) > 0
