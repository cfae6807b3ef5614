"""Convolution against float64 NumPy: windows, groups, layouts, bias, hook, chunking, guard pages."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.ir.symbols import evaluate, symbol
from graphwright.kernels.conv import conv
from graphwright.layout import transform
from graphwright.records import replace
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.cases import each_isa
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


def panels_of(w: Any, groups: int, rows: int) -> Any:
    """Weights [Cout, Cin/groups, kh, kw] as panels [groups, panels, Cin/groups * kh * kw, rows]."""
    features, taps = w.shape[0] // groups, prod(w.shape[1:])
    panels = -(-features // rows)
    padded = np.zeros((groups, panels * rows, taps), w.dtype)
    padded[:, :features] = w.reshape(groups, features, taps)
    return np.ascontiguousarray(padded.reshape(groups, panels, rows, taps).transpose(0, 1, 3, 2))


class Convolution(Prepared):
    """Operands laid out in guarded memory and ready to run."""

    def __init__(
        self, isa: Isa, x: Any, w: Any, bias: Any, groups: int, window: Window, *, act: int = 0,
        layout: str = "nchw", y_layout: str = "nchw", side: str = "end", unit_tiles: int = 0,
        block_panels: int = 0,
    ) -> None:  # fmt: skip
        (n, channels, *sizes), cout = x.shape, w.shape[0]
        rank, counts = len(sizes), window.output(*sizes)
        order, gap, step = LAYOUTS[layout]
        x, x_strides = strided(x, with_depth(order, rank), gap, side, step)
        order, gap, step = LAYOUTS[y_layout]
        self.y, y_strides = strided(np.zeros((n, cout, *counts)), with_depth(order, rank), gap, side, step)
        self.args = conv.ConvArgs(
            n, groups, channels // groups, cout // groups, *depth_height_width(sizes, window),
            *deep_strides(x_strides), *deep_strides(y_strides), act, 0, 0,
        )  # fmt: skip
        self.args = replace(self.args, block_panels=block_panels or conv.block_panels(isa, self.args))
        self.args = replace(self.args, unit_tiles=unit_tiles or conv.unit_tiles(isa, self.args))
        panels, _ = strided(panels_of(w, groups, conv.panel_rows(isa)), range(4), 0, side)
        bias = None if bias is None else strided(bias, (0,), 0, side)[0]
        self.operands = [x, panels, bias, self.y]
        self.kernel = load(conv, isa)[conv.SYMBOL]
        self.grid, self.scratch = conv.grid(isa, self.args), conv.scratch_bytes(isa, self.args)


def operands(
    rng: np.random.Generator, n: int, groups: int, cin: int, cout: int, *sizes_and_window: Any
) -> Any:
    """Returns x, the weights and the bias."""
    *sizes, window = sizes_and_window
    weights = normal(rng, groups * cout, cin, *window.kernel)
    return normal(rng, n, groups * cin, *sizes), weights, normal(rng, groups * cout)


@each_isa
@settings(max_examples=120, deadline=None)
@given(
    window=WINDOWS, n=st.integers(0, 2), groups=st.integers(1, 3), cin=st.sampled_from([1, 2, 3, 8, 17]),
    cout=st.sampled_from([1, 4, 5, 8, 13, 33]), h=st.integers(1, 19), w=st.integers(1, 40),
    bias=st.booleans(),
    act=st.integers(0, 1), layout=st.sampled_from(list(LAYOUTS)), y_layout=st.sampled_from(list(LAYOUTS)),
    side=st.sampled_from(["start", "end"]),
)  # fmt: skip
@example(Window((1, 1)), 1, 1, 17, 33, 19, 19, True, 1, "nchw", "nchw", "end")
@example(Window((3, 3), (2, 2), (1, 1, 1, 1)), 1, 1, 8, 33, 15, 33, True, 1, "nchw", "nchw", "end")
def test_matches_float64(
    isa: Isa, window: Window, n: int, groups: int, cin: int, cout: int, h: int, w: int, bias: bool, act: int,
    layout: str, y_layout: str, side: str,
) -> None:  # fmt: skip
    if min(window.output(h, w)) < 1:
        return
    x, weights, shift = operands(np.random.default_rng(h * w), n, groups, cin, cout, h, w, window)
    shift = shift if bias else None
    case = Convolution(
        isa, x, weights, shift, groups, window, act=act, layout=layout, y_layout=y_layout, side=side
    )
    depth = cin * window.kernel[0] * window.kernel[1]
    assert_near(case.run(), reference(x, weights, shift, groups, window, act), depth)


@each_isa
@settings(max_examples=60, deadline=None)
@given(
    window=DEEP_WINDOWS, n=st.integers(0, 2), groups=st.integers(1, 2), cin=st.sampled_from([1, 3, 17]),
    cout=st.sampled_from([1, 5, 33]), act=st.integers(0, 1),
    size=st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(1, 20)),
    layout=st.sampled_from(list(LAYOUTS)), y_layout=st.sampled_from(list(LAYOUTS)),
    side=st.sampled_from(["start", "end"]),
)  # fmt: skip
@example(Window((1,) * 3, (1,) * 3, (0,) * 6, (1,) * 3), 1, 1, 17, 33, 1, (3, 5, 7), "nchw", "nchw", "end")
@example(Window((2, 4, 4), (2, 4, 4), (0,) * 6, (1,) * 3), 1, 1, 3, 33, 0, (4, 17, 19), "nchw", "nchw", "end")
def test_three_axes_match_float64(
    isa: Isa, window: Window, n: int, groups: int, cin: int, cout: int, act: int, size: tuple[int, int, int],
    layout: str, y_layout: str, side: str,
) -> None:  # fmt: skip
    if min(window.output(*size)) < 1:
        return
    x, weights, shift = operands(np.random.default_rng(sum(size)), n, groups, cin, cout, *size, window)
    case = Convolution(
        isa, x, weights, shift, groups, window, act=act, layout=layout, y_layout=y_layout, side=side
    )
    expected = reference(x, weights, shift, groups, window, act)
    assert_near(case.run(), expected, cin * prod(window.kernel))
    assert_near(case.run_hooked(), 3 * expected + 1, 9 * cin * prod(window.kernel))


DEEP = {
    "3x3": (Window((3, 3), pads=(1, 1, 1, 1)), 1, 130, 300, 14, 14),
    "1x1": (Window((1, 1)), 1, 800, 70, 20, 20),
    "1x1 stride 2": (Window((1, 1), (2, 2)), 1, 390, 9, 30, 31),
    "1-D": (Window((1, 5), pads=(0, 2, 0, 2)), 2, 100, 30, 1, 500),
    "more taps than a block": (Window((20, 21), pads=(9, 9, 9, 9)), 1, 3, 10, 24, 25),
}


@each_isa
@pytest.mark.parametrize("name", DEEP)
def test_blocks_of_channels_and_any_chunking_give_the_same_bits(isa: Isa, name: str) -> None:
    window, groups, cin, cout, h, w = DEEP[name]
    x, weights, bias = operands(np.random.default_rng(1), 2, groups, cin, cout, h, w, window)
    cases = [
        Convolution(isa, x, weights, bias, groups, window, act=1, unit_tiles=tiles, block_panels=panels)
        for tiles, panels in ((0, 0), (1, 1), (3, 2), (3, 32))
    ]
    whole, *others = [case.run_in_any_chunks() for case in cases]
    assert_near(
        whole, reference(x, weights, bias, groups, window, 1), cin * window.kernel[0] * window.kernel[1]
    )
    assert all(np.array_equal(whole, other) for other in others)


@each_isa
@pytest.mark.parametrize("groups, cin, cout, size", [(1, 3, 13, 9), (3, 50, 10, 7), (1, 500, 40, 16)])
def test_hook_gets_every_element_once(isa: Isa, groups: int, cin: int, cout: int, size: int) -> None:
    for window in (Window((1, 1)), Window((3, 3), pads=(1, 1, 1, 1))):
        x, weights, bias = operands(np.random.default_rng(2), 2, groups, cin, cout, size, size, window)
        stored = Convolution(isa, x, weights, bias, groups, window, act=1).run_hooked()
        assert_near(stored, 3 * reference(x, weights, bias, groups, window, 1) + 1, 81 * cin)


@each_isa
def test_error_of_the_hook_is_returned(isa: Isa) -> None:
    window = Window((2, 2))
    case = Convolution(isa, *operands(np.random.default_rng(0), 1, 1, 2, 3, 4, 5, window), 1, window)
    assert case.error_of_hook() == 7


@each_isa
def test_nan_and_inf_follow_numpy(isa: Isa) -> None:
    window = Window((3, 3), pads=(1, 1, 1, 1))
    x, weights, bias = operands(np.random.default_rng(3), 1, 1, 4, 9, 8, 50, window)
    x[0, 1, 0, 3], x[0, 2, 5, 20], x[0, 3, 7, 49] = np.nan, np.inf, -np.inf
    weights[4, 2, 1, 1] = 0
    for act in (0, 1):
        with np.errstate(invalid="ignore"):
            expected = reference(x, weights, bias, 1, window, act)
        assert_near(Convolution(isa, x, weights, bias, 1, window, act=act).run(), expected, 36)


def test_panels_follow_their_layout() -> None:
    weights = normal(np.random.default_rng(4), 2 * 11, 3, 2, 5)
    panels = panels_of(weights, 2, 8)
    assert panels.shape == (2, 2, 30, 8)
    assert panels[1, 1, 29, 2] == weights[21, 2, 1, 4]
    assert not panels[:, 1, :, 3:].any()
    for isa in ISAS.values():
        packed = transform.pack(weights.reshape(2, 11, 30), conv.weights_layout(isa))
        np.testing.assert_array_equal(packed, panels_of(weights, 2, conv.panel_rows(isa)))


def test_sizes_may_be_symbols() -> None:
    n, h = symbol("N"), symbol("H")
    sizes = (1, h, 56, 1, h, 56, 1, 3, 3, 1, 1, 1, 0, 1, 1, 1, 1, 1)
    x_strides, y_strides = ((c * 56 * h, 56 * h, 56 * h, 56, 1) for c in (64, 200))
    args = conv.ConvArgs(n, 1, 64, 200, *sizes, *x_strides, *y_strides, 0, 8, 4)
    values = {"N": 2, "H": 30}
    known = conv.ConvArgs(*(evaluate(dim, values) for dim in args))
    for isa in ISAS.values():
        for formula in (conv.grid, conv.scratch_bytes, conv.work_ns):
            assert evaluate(formula(isa, args), values) == formula(isa, known) > 0
