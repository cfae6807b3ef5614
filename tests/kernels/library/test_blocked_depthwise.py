"""Depthwise convolution of channel blocks against float64 NumPy: windows, borders, slots, hook, chunking."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.ir.symbols import evaluate, symbol
from graphwright.kernels.conv import blocked_depthwise
from graphwright.kernels.conv.blocked_depthwise import BlockedDepthwiseArgs
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.blocked import blocks, in_blocks, in_rows, place, room
from tests.kernels.library.cases import each_isa
from tests.kernels.library.harness import Array, guarded, load
from tests.kernels.library.prepared import PreparedKernel
from tests.kernels.library.windows import WINDOWS, Window, assert_near, normal, reference


def float_bits(value: float) -> int:
    """The int64 whose low half has the bits of an f32."""
    return int(np.float32(value).view(np.int32))


def weights_in_blocks(w: Any, isa: Isa) -> Array:
    """[C, 1, kh, kw] as [CB, 1, kh, kw, lanes], zero padded."""
    packed = in_blocks(np.moveaxis(w, 0, 1), isa, pad=0.0)
    return place(np.moveaxis(packed, 1, 0).copy().reshape(1, *packed.shape[1:2], -1, 1, isa.lanes))[0]


def vector_in_blocks(bias: Any, isa: Isa) -> Array:
    padded = guarded(blocks(len(bias), isa) * isa.lanes, "end")
    padded[: len(bias)] = bias
    return padded


class Depthwise(PreparedKernel):
    """Operands in guarded memory, ready to run; NaN in the lanes of x that have no channel."""

    def __init__(
        self, isa: Isa, x: Any, w: Any, bias: Any, window: Window, *, residual: Any = None, act: int = 0,
        lo: float = 0.0, hi: float = 0.0, side: str = "end", gap: int = 0,
    ) -> None:  # fmt: skip
        n, channels, h, width = x.shape
        oh, ow = window.output(h, width)
        blocked_x, x_strides = place(in_blocks(x, isa), side, gap)
        self.y, y_strides = room(n, channels, oh, ow, isa, side, gap)
        added, r_strides = (None, (0, 0, 0)) if residual is None else place(in_blocks(residual, isa), side)
        self.args = BlockedDepthwiseArgs(
            n, channels, 1, 1, h, width, oh, ow,
            *window.kernel, *window.stride, *window.pads[:2], *window.dilation,
            *x_strides, *r_strides, *y_strides, act, float_bits(lo), float_bits(hi),
        )  # fmt: skip
        shift = None if bias is None else vector_in_blocks(bias, isa)
        self.operands = [blocked_x, weights_in_blocks(w, isa), shift, added, self.y]
        self.kernel = load(blocked_depthwise, isa)[blocked_depthwise.SYMBOL]
        self.grid = int(blocked_depthwise.grid(isa, self.args))
        self.scratch = blocked_depthwise.scratch_bytes(isa, self.args)

    def run(self, chunks: list[tuple[int, int]] | None = None) -> Any:
        return in_rows(self.launch(chunks), int(self.args.groups)).copy()

    def run_hooked(self) -> Any:
        n, cb, oh, ow, lanes = self.y.shape
        stored = self.hooked(n * cb, oh * ow, lanes)
        return in_rows(stored.reshape(self.y.shape), int(self.args.groups))


def operands(rng: np.random.Generator, n: int, channels: int, h: int, w: int, window: Window) -> Any:
    """Returns x, the weights and the bias."""
    return (
        normal(rng, n, channels, h, w), normal(rng, channels, 1, *window.kernel), normal(rng, channels)
    )  # fmt: skip


usual = st.builds(
    lambda size, stride, pads: Window((size, size), (stride, stride), pads),
    st.sampled_from([3, 5, 7]), st.sampled_from([1, 2]), st.tuples(*[st.integers(0, 3)] * 4),
)  # fmt: skip


@each_isa
@settings(max_examples=120, deadline=None)
@given(
    window=st.one_of(usual, WINDOWS), n=st.integers(0, 2), channels=st.sampled_from([1, 3, 8, 16, 19, 33]),
    h=st.sampled_from([1, 2, 3, 5, 7, 14, 17, 35]),
    w=st.one_of(st.integers(1, 40), st.sampled_from([63, 100])),
    bias=st.booleans(), residual=st.booleans(), act=st.integers(0, 2), gap=st.sampled_from([0, 3]),
    side=st.sampled_from(["start", "end"]),
)  # fmt: skip
@example(Window((3, 3), (2, 2), (0, 0, 1, 1)), 1, 17, 35, 35, True, False, 1, 0, "end")
@example(Window((7, 7), (1, 1), (3, 3, 3, 3)), 2, 16, 7, 7, True, True, 2, 0, "start")
@example(Window((1, 9), (1, 1), (0, 4, 0, 4)), 1, 5, 4, 29, True, False, 0, 0, "end")
@example(Window((9, 1), (1, 1), (4, 0, 4, 0)), 1, 5, 29, 4, True, False, 0, 5, "end")
@example(Window((2, 2), (3, 3), (0, 0, 0, 0)), 1, 5, 17, 17, False, False, 0, 0, "end")
@example(Window((1, 3), (1, 2), (0, 40, 0, 40)), 1, 2, 1, 2, True, False, 0, 0, "end")
@example(Window((3, 1), (1, 2), (9, 9, 9, 0)), 1, 1, 5, 1, True, True, 0, 0, "start")
@example(Window((3, 3), (1, 1), (2, 2, 2, 2), (12, 3)), 1, 20, 35, 40, True, False, 0, 0, "end")
def test_matches_float64(
    isa: Isa, window: Window, n: int, channels: int, h: int, w: int, bias: bool, residual: bool, act: int,
    gap: int, side: str,
) -> None:  # fmt: skip
    oh, ow = window.output(h, w)
    if min(oh, ow) < 1:
        return
    rng = np.random.default_rng(h * w)
    x, weights, shift = operands(rng, n, channels, h, w, window)
    added = normal(rng, n, channels, oh, ow) if residual else None
    shift = shift if bias else None
    case = Depthwise(
        isa, x, weights, shift, window, residual=added, act=act, lo=-0.5, hi=1.5, gap=gap, side=side
    )
    expected = reference(x, weights, shift, channels, window, 0)
    expected = expected if added is None else expected + added
    expected = [expected, np.maximum(expected, 0), np.clip(expected, -0.5, 1.5)][act]
    assert_near(case.run(), expected, window.kernel[0] * window.kernel[1])


@each_isa
@pytest.mark.parametrize("size, stride", [(3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (4, 3)])
def test_any_chunking_gives_the_same_bits(isa: Isa, size: int, stride: int) -> None:
    window = Window((size, size), (stride, stride), (1, 1, 1, 1))
    x, weights, bias = operands(np.random.default_rng(1), 2, 37, 67, 33, window)
    case = Depthwise(isa, x, weights, bias, window, act=1)
    whole = case.run_in_any_chunks()
    assert_near(whole, reference(x, weights, bias, 37, window, 1), size * size)


@each_isa
def test_hook_gets_every_element_once(isa: Isa) -> None:
    for window in (Window((3, 3), pads=(1, 1, 1, 1)), Window((2, 3), (2, 1)), Window((5, 5), (3, 3))):
        for channels, h, w in ((18, 37, 21), (5, 3, 90)):
            if min(window.output(h, w)) < 1:
                continue
            x, weights, bias = operands(np.random.default_rng(2), 2, channels, h, w, window)
            stored = Depthwise(isa, x, weights, bias, window).run_hooked()
            assert_near(stored, 3 * reference(x, weights, bias, channels, window, 0) + 1, 81)


@each_isa
def test_error_of_the_hook_is_returned(isa: Isa) -> None:
    window = Window((2, 2))
    case = Depthwise(isa, *operands(np.random.default_rng(0), 1, 2, 4, 5, window), window)
    assert case.error_of_hook() == 7


@each_isa
def test_nan_and_inf_follow_numpy(isa: Isa) -> None:
    window = Window((3, 3), pads=(1, 1, 1, 1))
    x, weights, bias = operands(np.random.default_rng(3), 1, 4, 8, 50, window)
    x[0, 1, 0, 3], x[0, 2, 5, 20], x[0, 3, 7, 49] = np.nan, np.inf, -np.inf
    weights[2, 0, 1, 1] = 0
    with np.errstate(invalid="ignore"):
        plain = reference(x, weights, bias, 4, window, 0)
    for act, expected in enumerate((plain, np.maximum(plain, 0), np.clip(plain, -1, 1))):
        case = Depthwise(isa, x, weights, bias, window, act=act, lo=-1.0, hi=1.0)
        assert_near(case.run(), expected, 9)


def test_sizes_may_be_symbols() -> None:
    n, h = symbol("N"), symbol("H")
    plane, image = 56 * 16 * h, 4 * 56 * 16 * h
    args = BlockedDepthwiseArgs(
        n, 64, 1, 1, h, 56, h, 56, 3, 3, 1, 1, 1, 1, 1, 1,
        image, plane, 56 * 16, 0, 0, 0, image, plane, 56 * 16, 0, 0, 0,
    )  # fmt: skip
    values = {"N": 2, "H": 30}
    known = BlockedDepthwiseArgs(*(evaluate(dim, values) for dim in args))
    for isa in ISAS.values():
        assert blocked_depthwise.grid(isa, known) == 2 * 64 // isa.lanes * 2
        for formula in (blocked_depthwise.grid, blocked_depthwise.scratch_bytes, blocked_depthwise.work_ns):
            assert evaluate(formula(isa, args), values) == formula(isa, known) > 0
