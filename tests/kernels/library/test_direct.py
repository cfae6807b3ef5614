"""Direct convolution into channel blocks against float64 NumPy: windows, groups, epilogues, chunking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.ir.symbols import evaluate, symbol
from graphwright.kernels.conv import direct
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.cases import each_isa, guard
from tests.kernels.library.direct_conv import Direct, operands
from tests.kernels.library.harness import call
from tests.kernels.library.windows import WINDOWS, Window, assert_near, normal, reference


@each_isa
@settings(max_examples=150, deadline=None)
@given(
    window=WINDOWS, n=st.integers(0, 2), cin=st.sampled_from([0, 1, 3, 4, 8, 17, 32, 37]),
    cout=st.sampled_from([1, 3, 8, 16, 17, 24, 33, 70]), h=st.integers(1, 19), w=st.integers(1, 40),
    bias=st.booleans(), act=st.integers(0, 2), residual=st.booleans(), planar=st.booleans(),
    gap=st.integers(0, 1), step=st.sampled_from([1, 1, 2]), at_end=st.booleans(),
)  # fmt: skip
@example(Window((1, 1)), 1, 17, 33, 19, 19, True, 1, True, False, 0, 1, True)
@example(Window((1, 1), (2, 2)), 2, 17, 33, 14, 14, True, 1, True, False, 0, 1, True)
@example(Window((3, 3), (1, 1), (1, 1, 1, 1)), 1, 16, 33, 7, 7, True, 1, True, False, 0, 1, True)
@example(Window((3, 3), (2, 2), (1, 1, 1, 1)), 1, 8, 64, 13, 13, True, 2, False, False, 1, 1, False)
@example(Window((7, 7), (2, 2), (3, 3, 3, 3)), 1, 3, 24, 19, 40, True, 1, False, True, 0, 1, True)
@example(Window((3, 1), (1, 2), (0, 9, 0, 0)), 1, 1, 1, 5, 1, True, 0, False, False, 0, 1, False)
@example(Window((3, 4), (2, 2), (1, 2, 1, 2)), 1, 20, 70, 9, 29, True, 1, True, False, 0, 1, True)
@example(Window((3, 3), (1, 1), (18,) * 4, (18, 18)), 1, 37, 70, 33, 33, True, 1, True, False, 0, 1, True)
@example(Window((3, 3), (1, 1), (18,) * 4, (18, 18)), 1, 5, 33, 33, 33, True, 1, False, True, 0, 1, True)
@example(Window((3, 3), (2, 2), (12,) * 4, (12, 12)), 1, 17, 33, 40, 40, True, 2, True, False, 0, 1, False)
@example(Window((2, 5), (1, 1), (0, 9, 9, 9), (9, 10)), 1, 700, 8, 12, 33, True, 1, False, False, 0, 1, True)
@example(Window((3, 3), (2, 2), (1, 1, 1, 1)), 1, 16, 49, 5, 2, True, 0, False, False, 0, 1, True)
@example(Window((1, 3), (1, 1), (0, 2, 0, 2), (1, 2)), 1, 37, 64, 3, 4, False, 0, False, False, 0, 1, True)
@example(Window((1, 1), (1, 1), (0, 0, 0, 3)), 1, 16, 16, 4, 9, False, 0, False, False, 0, 1, True)
@example(Window((1, 1), (2, 2), (0, 0, 0, 3)), 1, 16, 16, 4, 9, False, 0, False, False, 0, 1, True)
@example(Window((1, 1), (1, 1), (0, 1, 0, 0)), 1, 16, 16, 4, 9, False, 0, False, False, 0, 1, True)
def test_matches_float64(
    isa: Isa, window: Window, n: int, cin: int, cout: int, h: int, w: int, bias: bool, act: int,
    residual: bool, planar: bool, gap: int, step: int, at_end: bool,
) -> None:  # fmt: skip
    oh, ow = window.output(h, w)
    if min(oh, ow) < 1:
        return
    rng = np.random.default_rng(h * w)
    x, weights, shift = operands(rng, n, 1, cin, cout, h, w, window)
    shift = shift if bias else None
    added = normal(rng, n, cout, oh, ow) if residual else None
    case = Direct(
        isa, x, weights, shift, 1, window,
        planar=planar, residual=added, act=act, lo=-0.5, hi=1.5, gap=gap, step=step, at_end=at_end,
    )  # fmt: skip
    expected = reference(x, weights, shift, 1, window, 0) + (0 if added is None else added)
    limits = {0: (-np.inf, np.inf), 1: (0, np.inf), 2: (-0.5, 1.5)}[act]
    assert_near(case.run(), np.clip(expected, *limits), cin * window.kernel[0] * window.kernel[1])


@each_isa
@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("window", [Window((1, 1)), Window((3, 2), (2, 1), (1, 1, 1, 1))])
def test_groups_of_whole_blocks(isa: Isa, planar: bool, window: Window) -> None:
    cin, cout = isa.lanes * 2, isa.lanes * 3
    x, weights, bias = operands(np.random.default_rng(5), 2, 3, cin, cout, 9, 16, window)
    case = Direct(isa, x, weights, bias, 3, window, planar=planar)
    assert_near(case.run(), reference(x, weights, bias, 3, window, 0), 6 * cin)


DEEP = {
    "3x3": (Window((3, 3), pads=(1, 1, 1, 1)), 300, 70, 14, 14),
    "narrow": (Window((3, 3), pads=(1, 1, 1, 1)), 470, 70, 7, 7),
    "1x1": (Window((1, 1)), 2100, 130, 20, 20),
    "1x1 stride 2": (Window((1, 1), (2, 2)), 390, 9, 30, 31),
    "1-D": (Window((1, 5), pads=(0, 2, 0, 2)), 100, 30, 1, 1500),
    "a little more than a part": (Window((5, 5), pads=(2, 2, 2, 2)), 37, 24, 26, 22),
    "many taps": (Window((20, 21), pads=(9, 9, 9, 9)), 40, 10, 24, 25),
    "wide": (Window((3, 3), (2, 2), (1, 1, 1, 1)), 400, 20, 6, 700),
}


@each_isa
@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("name", DEEP)
def test_parts_of_channels_and_any_chunking_give_the_same_bits(isa: Isa, name: str, planar: bool) -> None:
    window, cin, cout, h, w = DEEP[name]
    rng = np.random.default_rng(1)
    x, weights, bias = operands(rng, 2, 1, cin, cout, h, w, window)
    residual = normal(rng, 2, cout, *window.output(h, w))
    case = Direct(isa, x, weights, bias, 1, window, residual=residual, act=1, planar=planar)
    whole = case.run_in_any_chunks()
    expected = np.maximum(reference(x, weights, bias, 1, window, 0) + residual, 0)
    assert_near(whole, expected, cin * window.kernel[0] * window.kernel[1])


PATCHES = {
    "3": (Window((3, 3), (3, 3)), 20, 101),
    "4": (Window((4, 4), (4, 4)), 22, 147),
    "4, wider": (Window((11, 11), (4, 4), (2, 2, 2, 2)), 39, 73),
    "8": (Window((2, 8), (2, 8), (0, 3, 0, 7)), 4, 251),
    "9": (Window((3, 11), (2, 9), (0, 4, 1, 6)), 5, 160),
    "14": (Window((14, 14), (14, 14)), 29, 224),
    "16": (Window((16, 16), (16, 16), (3, 5, 1, 40)), 40, 203),
    "20": (Window((1, 20), (1, 20), (0, 19, 0, 19)), 2, 31),
    "8, dilated": (Window((2, 9), (2, 8), (0, 30, 0, 0), (1, 3)), 4, 90),
    "8, all padding": (Window((1, 16), (1, 8), (0, 40, 0, 40)), 1, 3),
}


@each_isa
@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("name", PATCHES)
def test_long_strides_match_float64(isa: Isa, name: str, planar: bool) -> None:
    window, h, w = PATCHES[name]
    x, weights, bias = operands(np.random.default_rng(7), 1, 1, 3, 20, h, w, window)
    case = Direct(isa, x, weights, bias, 1, window, planar=planar)
    whole = case.run_in_any_chunks()
    assert_near(whole, reference(x, weights, bias, 1, window, 0), 3 * window.kernel[0] * window.kernel[1])


@each_isa
@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("cin, cout, size", [(3, 13, 9), (50, 40, 7), (600, 40, 16)])
def test_hook_gets_every_element_once(isa: Isa, planar: bool, cin: int, cout: int, size: int) -> None:
    for window in (Window((1, 1)), Window((3, 3), pads=(1, 1, 1, 1)), Window((2, 2), (2, 2))):
        x, weights, bias = operands(np.random.default_rng(2), 2, 1, cin, cout, size, size, window)
        stored = Direct(isa, x, weights, bias, 1, window, planar=planar).run_hooked()
        assert_near(stored, 3 * reference(x, weights, bias, 1, window, 0) + 1, 81 * cin)


@each_isa
@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("cin, cout, size", [(3, 1, 9), (50, 21, 14), (600, 3, 30)])
def test_results_in_planes(isa: Isa, planar: bool, cin: int, cout: int, size: int) -> None:
    for window in (Window((1, 1)), Window((3, 3), pads=(1, 1, 1, 1))):
        x, weights, bias = operands(np.random.default_rng(2), 2, 1, cin, cout, size, size, window)
        case = Direct(isa, x, weights, bias, 1, window, planar=planar, gap=1, step=2, into_planes=True)
        whole = case.run_in_any_chunks()
        expected = reference(x, weights, bias, 1, window, 0)
        assert_near(whole, expected, 9 * cin)
        stored = Direct(isa, x, weights, bias, 1, window, planar=planar, into_planes=True).run_hooked()
        assert_near(stored, 3 * expected + 1, 81 * cin)


@each_isa
@settings(max_examples=60, deadline=None)
@given(
    cin=st.integers(1, 40), cout=st.sampled_from([1, 7, 16, 24, 40, 64, 70]), h=st.integers(1, 20),
    w=st.integers(1, 60), size=st.sampled_from([1, 3]), stride=st.integers(1, 2), at_end=st.booleans(),
)  # fmt: skip
@example(20, 64, 3, 9, 1, 1, True)
def test_results_in_dense_planes_match_float64(
    isa: Isa, cin: int, cout: int, h: int, w: int, size: int, stride: int, at_end: bool
) -> None:
    window = Window((size, size), (stride, stride), (size // 2,) * 4)
    x, weights, bias = operands(np.random.default_rng(cin), 2, 1, cin, cout, h, w, window)
    case = Direct(isa, x, weights, bias, 1, window, act=1, into_planes=True, at_end=at_end)
    whole = case.run_in_any_chunks()
    assert_near(whole, np.maximum(reference(x, weights, bias, 1, window, 0), 0), size**2 * cin)


@each_isa
@pytest.mark.parametrize("split", [(2, 2), (1, 3), (2, 1)])
@pytest.mark.parametrize("into_planes", [False, True])
def test_channels_spread_over_pixels(isa: Isa, split: tuple[int, int], into_planes: bool) -> None:
    down, right = split
    each, unit, h, w = (3, 1, 5, 40) if into_planes else (2 * isa.lanes, isa.lanes, 5, 40)
    cout = each * down * right
    x, weights, bias = operands(np.random.default_rng(4), 2, 1, 20, cout, h, w, Window((1, 1)))
    case = Direct(isa, x, weights, bias, 1, Window((1, 1)), act=1, into_planes=into_planes)
    plane = h * down * w * right * unit
    places = (each // unit * plane, plane, down * w * right * unit, right * unit, unit, down, right)
    case.args = direct.DirectArgs(*[*case.args][:-10], *places, *[*case.args][-3:])
    y = guard(np.zeros((2, each // unit, h, down, w, right, unit), np.float32))
    case.operands[4] = y
    assert call(case.kernel, case.operands, case.args, case.grid, case.scratch) == 0
    conv = np.maximum(reference(x, weights, bias, 1, Window((1, 1)), 0), 0)
    parts = conv.reshape(2, down, each // unit, right, unit, h, w)
    assert_near(y, parts.transpose(0, 2, 5, 1, 6, 3, 4), 20)


@each_isa
def test_error_of_the_hook_is_returned(isa: Isa) -> None:
    window = Window((2, 2))
    case = Direct(isa, *operands(np.random.default_rng(0), 1, 1, 2, 3, 4, 5, window), 1, window)
    assert case.error_of_hook() == 7


@each_isa
@pytest.mark.parametrize("planar", [False, True])
def test_nan_and_inf_follow_numpy(isa: Isa, planar: bool) -> None:
    window = Window((3, 3), pads=(1, 1, 1, 1))
    x, weights, bias = operands(np.random.default_rng(3), 1, 1, 4, 9, 8, 50, window)
    x[0, 1, 0, 3], x[0, 2, 5, 20], x[0, 3, 7, 49] = np.nan, np.inf, -np.inf
    weights[4, 2, 1, 1] = 0
    for act, limits in enumerate([(-np.inf, np.inf), (0, np.inf), (-1, 1)]):
        with np.errstate(invalid="ignore"):
            expected = np.clip(reference(x, weights, bias, 1, window, 0), *limits)
        case = Direct(isa, x, weights, bias, 1, window, act=act, lo=-1, hi=1, planar=planar)
        assert_near(case.run(), expected, 36)


@each_isa
@pytest.mark.parametrize(
    ("window", "copied"),
    [
        (Window((1, 1)), False),
        (Window((3, 1), (1, 2), (1, 0, 1, 0)), False),
        (Window((1, 1), (1, 1), (0, 1, 0, 1)), True),
        (Window((1, 1), (1, 1), (0, 0, 0, 1)), True),
        (Window((1, 1), (1, 5)), True),
        (Window((3, 3), (1, 1), (1, 1, 1, 1)), True),
    ],
)
def test_scratch_without_a_copy(isa: Isa, window: Window, copied: bool) -> None:
    """Windows of one column read the image in place: scratch only has 16 bytes for each tap."""
    x, w, bias = operands(np.random.default_rng(0), 1, 1, 32, 16, 8, 40, window)
    taps = window.kernel[0] * window.kernel[1]
    scratch = Direct(isa, x, w, bias, 1, window).scratch
    assert scratch > 4 * 32 * 40 if copied else scratch == -(-16 * taps // 64) * 64


def test_sizes_may_be_symbols() -> None:
    n, h = symbol("N"), symbol("H")
    values = {"N": 2, "H": 300}
    for isa in ISAS.values():
        plane = 56 * isa.lanes
        strides = (h * plane * 4, h * plane, plane)
        args = direct.DirectArgs(
            n, 1, 64, 100, h, 56, h, 56, 3, 3, 1, 1, 1, 1, 1, 1, *strides, isa.lanes, *strides, *strides,
            isa.lanes, isa.lanes, 1, 1, 0, 0, 0,
        )  # fmt: skip
        known = direct.DirectArgs(*(evaluate(dim, values) for dim in args))
        formulas = (direct.grid, direct.scratch_bytes, direct.planar_scratch_bytes, direct.work_ns)
        for formula in formulas:
            assert evaluate(formula(isa, args), values) == formula(isa, known) > 0
