"""Winograd convolution against float64 NumPy: sizes, edges, epilogues, chunking, accuracy, choice by cost."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.ir.symbols import evaluate, symbol
from graphwright.ir.types import Layout
from graphwright.kernels.conv.blocked_algorithm import Algorithm, Winograd, is_faster, ranked
from graphwright.kernels.winograd import winograd, winograd_cost, winograd_transforms
from graphwright.kernels.winograd.winograd import Conv3x3
from graphwright.layout.transform import pack, unpack
from graphwright.records import replace
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.cases import each_isa, guard
from tests.kernels.library.harness import Array, load
from tests.kernels.library.prepared import PreparedKernel
from tests.kernels.library.windows import Window, normal, reference

each_form = pytest.mark.parametrize("m", winograd.SYMBOLS)
SIZES = [*range(1, 18), 56, 63]


def window(pads: tuple[int, int, int, int], dilation: int = 1) -> Window:
    return Window((3, 3), pads=pads, dilation=(dilation, dilation))


def bits(value: float) -> int:
    """The int64 whose low half are the bits of an f32; the high half is not read."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0]) | 7 << 32


def blocked(isa: Isa) -> Layout:
    return Layout((0, 1, 2, 3), ((1, isa.lanes),))


def to_blocks(x: Any, isa: Isa, *, at_end: bool = True, gap: int = 0) -> Array:
    """``x`` [N, C, H, W] in guarded memory, NaN in the pad lanes and in ``gap`` channel blocks and pixels
    after each image and row.
    """
    packed = pack(x, blocked(isa))
    packed[:, x.shape[1] // isa.lanes :, ..., x.shape[1] % isa.lanes :] = np.nan
    n, c, h, w, lanes = packed.shape
    room = guard(np.full((n, c + gap, h, w + gap, lanes), np.nan, np.float32), at_end=at_end)
    room[:, :c, :, :w] = packed
    return room


def transformed(w: Any, m: int, isa: Isa) -> Array:
    made = np.empty(winograd_transforms.transformed_shape(w.shape[0], w.shape[1], m, isa), np.float32)
    winograd_transforms.transform_weights(made, w, m, isa)
    return made


class PreparedWinograd(PreparedKernel):
    """Operands laid out in guarded memory and ready to run."""

    def __init__(
        self, m: int, isa: Isa, x: Any, w: Any, bias: Any = None, residual: Any = None, *,
        pads: tuple[int, int, int, int] = (1, 1, 1, 1), act: int = 0, lo: float = 0, hi: float = 0,
        blocking: tuple[int, int] | None = None, gap: int = 0, at_end: bool = True, dilation: int = 1,
    ) -> None:  # fmt: skip
        (n, cin, h, width), cout = x.shape, w.shape[0]
        oh, ow = window(pads, dilation).output(h, width)
        self.m, self.isa, self.shape = m, isa, (n, cout, oh, ow)
        x = to_blocks(x, isa, at_end=at_end, gap=gap)
        self.y = to_blocks(np.zeros(self.shape, np.float32), isa, at_end=at_end, gap=gap)
        residual = None if residual is None else to_blocks(residual, isa, at_end=at_end, gap=gap)
        args = winograd.dense_args(m, isa, Conv3x3(n, cin, cout, oh, ow, dilation), pads)
        args = replace(args, act=act, lo=bits(lo), hi=bits(hi))
        strides = {name: strides_of(v) for name, v in (("x", x), ("r", self.y), ("y", self.y))}
        if gap:
            names = {
                f"{v}_{axis}": s
                for v in strides
                for axis, s in zip(("n", "cb", "h"), strides[v], strict=True)
            }
            args = replace(args, **names)
        if blocking:
            args = replace(args, block_tiles=blocking[0], unit_groups=blocking[1])
        self.args = args
        weights = guard(transformed(w, m, isa), at_end=at_end)
        if bias is not None:
            bias = guard(np.pad(bias, (0, -cout % isa.lanes)), at_end=at_end)
        self.operands = [x, weights, bias, residual, self.y]
        self.kernel = load(winograd, isa)[winograd.SYMBOLS[m]]
        self.grid = evaluate(winograd.grid(m, isa, args), {})
        self.scratch = winograd.scratch_bytes(m, isa, args)

    def run(self, chunks: list[tuple[int, int]] | None = None) -> Array:
        y = self.launch(chunks)
        ow, blocks = self.shape[3], -(-self.shape[1] // self.isa.lanes)
        dense = y[:, :blocks, :, :ow]
        assert np.isnan(y[:, blocks:]).all() and np.isnan(y[:, :, :, ow:]).all()
        return unpack(np.ascontiguousarray(dense), blocked(self.isa), self.shape)

    def run_hooked(self) -> Array:
        n, cout, oh, ow = self.shape
        blocks, lanes = -(-cout // self.isa.lanes), self.isa.lanes
        stored = self.hooked(n * blocks, oh * ow, lanes)
        return unpack(stored.reshape(n, blocks, oh, ow, lanes), blocked(self.isa), self.shape)


def strides_of(x: Array) -> tuple[int, int, int]:
    """The strides of images, channel blocks and rows, in elements."""
    n, cb, h = (stride // 4 for stride in x.strides[:3])
    return n, cb, h


def operands(seed: int, n: int, cin: int, cout: int, h: int, w: int) -> Any:
    """Returns x, the weights and the bias."""
    rng = np.random.default_rng(seed)
    return normal(rng, n, cin, h, w), normal(rng, cout, cin, 3, 3), normal(rng, cout)


def assert_near(actual: Any, expected: Any, cin: int) -> None:
    """Within the error of sums over ``cin`` channels of values of about 1, transformed and back."""
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-5 * (9 * cin + 4) ** 0.5)


@each_isa
@each_form
@settings(max_examples=80, deadline=None)
@given(
    n=st.integers(0, 2), cin=st.sampled_from([1, 3, 8, 16, 17, 35]),
    cout=st.sampled_from([1, 5, 16, 24, 40, 70]),
    h=st.sampled_from(SIZES), w=st.sampled_from(SIZES), pads=st.tuples(*[st.integers(0, 5)] * 4),
    dilation=st.sampled_from([1, 1, 2, 3, 7]),
    bias=st.booleans(), residual=st.booleans(), act=st.sampled_from([0, 1, 2]), gap=st.sampled_from([0, 1]),
    at_end=st.booleans(),
)  # fmt: skip
@example(1, 16, 16, 1, 1, (1, 1, 1, 1), 1, True, True, 0, 0, True)
@example(1, 3, 5, 1, 2, (2, 2, 2, 2), 1, True, False, 1, 1, False)
@example(1, 16, 32, 56, 56, (1, 1, 1, 1), 1, True, True, 1, 0, True)
@example(1, 16, 16, 63, 3, (0, 0, 0, 0), 1, True, False, 0, 0, True)
@example(2, 17, 40, 41, 56, (2, 1, 2, 3), 2, True, True, 2, 1, True)
@example(1, 16, 5, 3, 2, (5, 7, 8, 7), 7, True, True, 1, 0, True)
def test_matches_float64(
    m: int, isa: Isa, n: int, cin: int, cout: int, h: int, w: int, pads: tuple[int, int, int, int],
    dilation: int, bias: bool, residual: bool, act: int, gap: int, at_end: bool,
) -> None:  # fmt: skip
    oh, ow = window(pads, dilation).output(h, w)
    if min(oh, ow) < 1:
        return
    x, weights, shift = operands(h * w, n, cin, cout, h, w)
    shift = shift if bias else None
    add = normal(np.random.default_rng(1), n, cout, oh, ow) if residual else None
    case = PreparedWinograd(
        m, isa, x, weights, shift, add, pads=pads, act=act, lo=-0.5, hi=3, gap=gap, at_end=at_end,
        dilation=dilation,
    )  # fmt: skip
    expected = reference(x, weights, shift, 1, window(pads, dilation), 0)
    expected = expected if add is None else expected + add
    if act:
        expected = np.maximum(expected, 0) if act == 1 else np.clip(expected, -0.5, 3)
    assert_near(case.run(), expected, cin)


@each_isa
@each_form
@pytest.mark.parametrize("channels, h, w", [((128, 80), 28, 29), ((64, 40), 57, 13), ((257, 16), 9, 7)])
def test_blocks_of_many_tiles_and_channels(
    m: int, isa: Isa, channels: tuple[int, int], h: int, w: int
) -> None:  # fmt: skip
    x, weights, bias = operands(4, 2, *channels, h, w)
    expected = reference(x, weights, bias, 1, window((1, 1, 1, 1)), 1)
    for blocking in (None, (1, 1), (5, 2), (64, 16)):
        case = PreparedWinograd(m, isa, x, weights, bias, act=1, blocking=blocking)
        assert_near(case.run(), expected, channels[0])


@each_isa
@each_form
@pytest.mark.parametrize("shape", [(33, 48, 14, 14), (16, 24, 57, 13), (5, 130, 7, 7)])
def test_any_chunking_gives_the_same_bits(m: int, isa: Isa, shape: tuple[int, int, int, int]) -> None:
    x, weights, bias = operands(1, 2, *shape)
    for blocking, dilation in ((None, 1), ((6, 1), 1), (None, 3)):
        case = PreparedWinograd(
            m, isa, x, weights, bias, act=1, blocking=blocking, pads=(1,) * 4, dilation=dilation
        )
        whole = case.run_in_any_chunks()
        assert_near(whole, reference(x, weights, bias, 1, window((1, 1, 1, 1), dilation), 1), shape[0])


@each_isa
@each_form
@pytest.mark.parametrize("h, w", [(8, 8), (13, 57), (3, 121), (1, 1)])
def test_hook_gets_every_element_once(m: int, isa: Isa, h: int, w: int) -> None:
    x, weights, bias = operands(2, 2, 19, 40, h, w)
    stored = PreparedWinograd(m, isa, x, weights, bias).run_hooked()
    assert_near(stored, 3 * reference(x, weights, bias, 1, window((1, 1, 1, 1)), 0) + 1, 9 * 19)


@each_isa
@each_form
def test_error_of_the_hook_is_returned(m: int, isa: Isa) -> None:
    case = PreparedWinograd(m, isa, *operands(0, 1, 2, 3, 9, 9))
    assert case.error_of_hook() == 7


@each_isa
@each_form
def test_nan_stays_nan_and_in_its_tiles(m: int, isa: Isa) -> None:
    x, weights, bias = operands(3, 1, 4, 20, 24, 24)
    clean = PreparedWinograd(m, isa, x, weights, bias, act=1).run()
    x[0, 1, 9, 9] = np.nan
    for act in (0, 1, 2):
        y = PreparedWinograd(m, isa, x, weights, bias, act=act, lo=-1, hi=1).run()
        assert np.isnan(y[:, :, 8:11, 8:11]).all()
        near = np.zeros(y.shape, bool)
        near[:, :, 9 - m - 1 : 9 + m + 2, 9 - m - 1 : 9 + m + 2] = True
        assert not np.isnan(y[~near]).any()
        if act == 1:
            assert np.array_equal(y[~near], clean[~near])


def direct_f32(x: Any, w: Any) -> Any:
    """Fused multiply-adds in f32, channel by channel, as a direct kernel forms the sums."""
    padded = np.pad(x[0], [(0, 0), (1, 1), (1, 1)]).astype(np.float64)
    h, width = x.shape[2:]
    y = np.zeros((w.shape[0], h, width), np.float32)
    for i, j in np.ndindex(3, 3):
        for c in range(x.shape[1]):
            y = (
                y + w[:, c, i, j, None, None].astype(np.float64) * padded[c, i : i + h, j : j + width]
            ).astype(np.float32)
    return y[None]


@each_isa
@pytest.mark.parametrize("channels", [64, 128, 512])
def test_rms_error_compared_with_direct_convolution(isa: Isa, channels: int) -> None:
    """Winograd is allowed where its RMS error is at most 2.5 times that of direct convolution."""
    x, weights, _ = operands(channels, 1, channels, 16, 16, 16)
    x, weights = np.maximum(x, 0), weights / np.float32(channels**0.5 * 3)
    exact = reference(x, weights, None, 1, window((1, 1, 1, 1)), 0)

    def rms(y: Any) -> float:
        return float(np.sqrt(np.mean((y - exact) ** 2)))

    direct = rms(direct_f32(x, weights))
    assert rms(PreparedWinograd(4, isa, x, weights).run()) < 2.5 * direct
    assert rms(PreparedWinograd(2, isa, x, weights).run()) < 1.1 * direct


@each_form
@pytest.mark.parametrize("isa", ISAS.values(), ids=lambda isa: isa.name)
def test_weights_are_the_filter_at_the_points(m: int, isa: Isa) -> None:
    """Planes at 0 and infinity are taps; padding lanes are zero; blocks of a group are adjacent."""
    cout, cin, vectors = 5 * isa.lanes - 2, 5, 3 if isa.lanes == 16 else 2
    w = normal(np.random.default_rng(0), cout, cin, 3, 3)
    packed = transformed(w, m, isa)
    assert packed.dtype == np.float32 and packed.shape == (5, (m + 2) * 4 * cin * isa.lanes)
    groups = -(-5 // vectors)
    cuts = [5 * group // groups for group in range(groups + 1)]
    parts = [packed[a:b].reshape(m + 2, 4, cin, -1) for a, b in pairwise(cuts)]
    planes = np.concatenate(parts, axis=3)
    np.testing.assert_array_equal(planes[0, 0, :, :cout], w[:, :, 0, 0].T)
    np.testing.assert_array_equal(planes[0, 1, :, :cout], w[:, :, 0, 2].T)
    np.testing.assert_array_equal(planes[1, 1, :, :cout], w[:, :, 2, 2].T)
    half = 0.5**0.5
    at_half = w[:, :, 0].astype(np.float64) @ [1, half, half**2]
    np.testing.assert_allclose(planes[0, 2, :, :cout], at_half.T, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(planes[:, :, :, cout:], 0)


def test_sizes_may_be_symbols() -> None:
    n, h, w = symbol("N"), symbol("H"), symbol("W")
    values = {"N": 2, "H": 30, "W": 45}
    for isa in ISAS.values():
        for m in winograd.SYMBOLS:
            args = winograd.dense_args(m, isa, Conv3x3(n, 64, 96, h, w), pads=(1, 1, 1, 1))
            known = winograd.dense_args(m, isa, Conv3x3(2, 64, 96, 30, 45), pads=(1, 1, 1, 1))
            assert winograd.WinogradArgs(*(evaluate(dim, values) for dim in args)) == known
            for formula in (winograd.grid, winograd.scratch_bytes, winograd_cost.work_ns):
                value = evaluate(formula(m, isa, args), values)
                assert value == formula(m, isa, known) and value > 0


def fastest(isa: Isa, cin: int, cout: int, oh: int, ow: int) -> Algorithm:
    """The algorithm that is predicted to be the fastest for one image."""
    return next(iter(ranked(isa, Conv3x3(1, cin, cout, oh, ow))))


@pytest.mark.parametrize("isa", ISAS.values(), ids=lambda isa: isa.name)
def test_the_faster_algorithm_is_chosen_when_the_sizes_are_known(isa: Isa) -> None:
    args = winograd.dense_args(4, isa, Conv3x3(1, 64, 96, symbol("H"), symbol("W")), pads=(1, 1, 1, 1))
    faster = is_faster(Winograd(4), isa, args)
    for height, width in ((1, 1), (2, 2), (3, 40), (80, 80), (500, 1)):
        found, chosen = (
            evaluate(faster, {"H": height, "W": width}),
            fastest(isa, 64, 96, height, width),
        )
        assert found == 1 if chosen == Winograd(4) else found == 0 or chosen == Winograd(2)
    assert [evaluate(faster, {"H": n, "W": n}) for n in (1, 80)] == [0, 1]


def test_cost_chooses_the_algorithm() -> None:
    """Large tiles are chosen for many pixels, small tiles for large weights, and none where little can be
    saved.
    """
    v4 = ISAS["v4"]
    assert fastest(v4, 64, 64, 56, 56) == Winograd(4)
    assert fastest(v4, 512, 512, 28, 28) == Winograd(4)
    assert fastest(v4, 256, 256, 14, 14) == Winograd(4)
    assert fastest(v4, 512, 512, 7, 7) == Winograd(2)
    assert fastest(v4, 3, 64, 224, 224) == "direct"
    assert fastest(v4, 32, 32, 1, 1) == "direct"
