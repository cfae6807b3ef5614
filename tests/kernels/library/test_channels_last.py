"""Convolutions of channels-last images, compared with NumPy in f64: windows, groups, hook, chunking."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.ir.types import Layout
from graphwright.kernels.conv import blocked_depthwise, direct
from graphwright.layout.transform import pack
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import each_isa, guard
from tests.kernels.library.direct_conv import bits
from tests.kernels.library.harness import Array, guarded_copy, load
from tests.kernels.library.prepared import PreparedKernel
from tests.kernels.library.windows import WINDOWS, Window, assert_near, normal, reference


def to_last(x: Any) -> Any:
    return np.moveaxis(x, 1, -1)


def to_first(y: Any) -> Any:
    return np.moveaxis(y, -1, 1)


def place(x: Any, side: str, gap: int) -> tuple[Array, tuple[int, int]]:
    """[N, H, W, C] in guarded memory, ``gap`` elements after each row; strides of images and rows."""
    _, h, w, c = x.shape
    row = w * c + gap
    strides = (h * row + gap, row, c, 1)
    return guarded_copy(x, strides, side), strides[:2]


class Convolution(PreparedKernel):
    """Operands in guarded memory, ready to run."""

    def __init__(
        self, isa: Isa, x: Any, w: Any, bias: Any, groups: int, window: Window, *, planar: bool = False,
        act: int = 0, side: str = "end", gap: int = 0,
    ) -> None:  # fmt: skip
        n, channels, h, width = x.shape
        cout, lanes = w.shape[0], isa.lanes
        oh, ow = window.output(h, width)
        self.y, (y_n, y_h) = place(np.full((n, oh, ow, cout), np.nan, np.float32), side, gap)
        sizes = (h, width, oh, ow, *window.kernel, *window.stride, *window.pads[:2], *window.dilation)
        store = (act, bits(-0.5), bits(1.5))
        if planar:
            read, (x_n, x_c, x_h, x_w) = guard(x), (channels * h * width, h * width, width, 1)
        else:
            read, (x_n, x_h) = place(to_last(x), side, gap)
            x_c, x_w = lanes, channels
        if groups == channels == cout:
            module, symbol, blocks = blocked_depthwise, blocked_depthwise.NHWC_SYMBOL, ((0, lanes),)
            self.args: Any = blocked_depthwise.BlockedDepthwiseArgs(
                n, channels, 1, 1, *sizes, x_n, x_c, x_h, 0, 0, 0, y_n, lanes, y_h, *store
            )
            self.grid = int(blocked_depthwise.nhwc_grid(isa, self.args))
            self.scratch = blocked_depthwise.nhwc_scratch_bytes(isa, self.args)
        else:
            module, symbol = direct, direct.PLANAR_NHWC_SYMBOL if planar else direct.NHWC_SYMBOL
            blocks = ((0, lanes),) if planar else ((1, lanes), (0, lanes))  # type: ignore[assignment]
            self.args = direct.DirectArgs(
                n, groups, channels // groups, cout // groups, *sizes, x_n, x_c, x_h, x_w, 0, 0, 0,
                y_n, lanes, y_h, cout, lanes, 1, 1, *store,
            )  # fmt: skip
            scratch = direct.planar_scratch_bytes if planar else direct.scratch_bytes
            self.grid, self.scratch = int(direct.grid(isa, self.args)), scratch(isa, self.args)
        weights = guard(pack(w, Layout((0, 1, 2, 3), blocks, zero_padded=True)))
        self.operands = [read, weights, None if bias is None else guard(bias), None, self.y]
        self.kernel = load(module, isa)[symbol]

    def run(self, chunks: list[tuple[int, int]] | None = None) -> Any:
        return to_first(self.launch(chunks)).copy()

    def run_hooked(self) -> Any:
        n, oh, ow, cout = self.y.shape
        return to_first(self.hooked(n, oh * ow, cout).reshape(self.y.shape))


def operands(
    isa: Isa, n: int, groups: int, cin: int, cout: int, h: int, w: int, window: Window
) -> tuple[Any, Any, Any]:
    """x, weights and bias of this many channels of a group."""
    rng = np.random.default_rng(h * w + n)
    x, weights = normal(rng, n, groups * cin, h, w), normal(rng, groups * cout, cin, *window.kernel)
    return x, weights, normal(rng, groups * cout)


usual = st.builds(
    lambda size, stride, pads: Window((size, size), (stride, stride), pads),
    st.sampled_from([3, 5, 7]), st.sampled_from([1, 2, 4]), st.tuples(*[st.integers(0, 3)] * 4),
)  # fmt: skip


@each_isa
@settings(max_examples=60, deadline=None)
@given(
    window=st.one_of(usual, WINDOWS), n=st.integers(0, 2), blocks=st.integers(1, 5),
    h=st.sampled_from([1, 2, 3, 5, 7, 14, 17, 35]),
    w=st.one_of(st.integers(1, 40), st.sampled_from([63, 100])),
    bias=st.booleans(), act=st.integers(0, 2), gap=st.sampled_from([0, 3]),
    side=st.sampled_from(["start", "end"]),
)  # fmt: skip
@example(Window((7, 7), (1, 1), (3, 3, 3, 3)), 2, 2, 7, 7, True, 2, 0, "start")
@example(Window((3, 3)), 1, 3, 17, 35, True, 0, 0, "end")
@example(Window((1, 3), (1, 2), (0, 40, 0, 40)), 1, 1, 1, 2, True, 0, 0, "end")
@example(Window((3, 3), (1, 1), (2, 2, 2, 2), (12, 3)), 1, 5, 35, 40, True, 1, 3, "end")
def test_depthwise_matches_float64(
    isa: Isa, window: Window, n: int, blocks: int, h: int, w: int, bias: bool, act: int, gap: int, side: str
) -> None:
    if min(window.output(h, w)) < 1:
        return
    channels = blocks * isa.lanes
    x, weights, shift = operands(isa, n, channels, 1, 1, h, w, window)
    shift = shift if bias else None
    case = Convolution(isa, x, weights, shift, channels, window, act=act, side=side, gap=gap)
    expected = reference(x, weights, shift, channels, window, 0)
    expected = [expected, np.maximum(expected, 0), np.clip(expected, -0.5, 1.5)][act]
    assert_near(case.run(), expected, window.kernel[0] * window.kernel[1])


@each_isa
@settings(max_examples=60, deadline=None)
@given(
    window=st.one_of(usual, WINDOWS), n=st.integers(0, 2), groups=st.sampled_from([1, 1, 2]),
    cin=st.integers(1, 3), cout=st.integers(1, 4), h=st.integers(1, 19), w=st.integers(1, 40),
    bias=st.booleans(), act=st.integers(0, 2), planar=st.booleans(), gap=st.sampled_from([0, 5]),
    side=st.sampled_from(["start", "end"]),
)  # fmt: skip
@example(Window((1, 1)), 1, 1, 2, 3, 19, 19, True, 1, False, 0, "end")
@example(Window((2, 2), (2, 2)), 2, 1, 3, 2, 14, 14, True, 0, False, 0, "end")
@example(Window((7, 7), (4, 4), (3, 3, 3, 3)), 1, 1, 3, 2, 19, 40, True, 1, True, 0, "end")
@example(Window((8, 8), (8, 8)), 1, 1, 2, 2, 16, 40, True, 0, False, 0, "start")
def test_direct_matches_float64(
    isa: Isa, window: Window, n: int, groups: int, cin: int, cout: int, h: int, w: int, bias: bool, act: int,
    planar: bool, gap: int, side: str,
) -> None:  # fmt: skip
    if min(window.output(h, w)) < 1:
        return
    depth = cin if planar else cin * isa.lanes
    x, weights, shift = operands(isa, n, groups, depth, cout * isa.lanes, h, w, window)
    shift = shift if bias else None
    case = Convolution(isa, x, weights, shift, groups, window, planar=planar, act=act, side=side, gap=gap)
    expected = reference(x, weights, shift, groups, window, 0)
    expected = [expected, np.maximum(expected, 0), np.clip(expected, -0.5, 1.5)][act]
    assert_near(case.run(), expected, depth * window.kernel[0] * window.kernel[1])


CASES = {
    "depthwise": (48, 1, 1, Window((7, 7), pads=(3, 3, 3, 3)), False),
    "depthwise, dense rows": (32, 1, 1, Window((3, 3)), False),
    "patches": (1, 32, 48, Window((2, 2), (2, 2)), False),
    "picture": (1, 3, 32, Window((4, 4), (4, 4)), True),
    "deep": (1, 512, 64, Window((3, 3), (2, 2), (1, 1, 1, 1)), False),
    "groups": (2, 16, 32, Window((3, 3), pads=(1, 1, 1, 1)), False),
}


@each_isa
@pytest.mark.parametrize("name", CASES)
def test_any_chunking_gives_the_same_bits(isa: Isa, name: str) -> None:
    groups, cin, cout, window, planar = CASES[name]
    x, weights, bias = operands(isa, 2, groups, cin, cout, 37, 21, window)
    case = Convolution(isa, x, weights, bias, groups, window, planar=planar)
    whole = case.run_in_any_chunks()
    assert_near(whole, reference(x, weights, bias, groups, window, 0), cin * 49)


@each_isa
@pytest.mark.parametrize("name", CASES)
def test_hook_gets_every_element_once(isa: Isa, name: str) -> None:
    groups, cin, cout, window, planar = CASES[name]
    x, weights, bias = operands(isa, 2, groups, cin, cout, 17, 21, window)
    stored = Convolution(isa, x, weights, bias, groups, window, planar=planar).run_hooked()
    assert_near(stored, 3 * reference(x, weights, bias, groups, window, 0) + 1, cin * 49)
