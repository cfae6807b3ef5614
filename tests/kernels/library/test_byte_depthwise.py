"""Depthwise convolutions of bytes against int64 NumPy: with and without VNNI, zero points, chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

from graphwright.kernels.byte_conv import byte_depthwise
from graphwright.kernels.byte_conv.byte_conv import ByteConvArgs
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import BYTES, chunkings, each_isa, guard, random_bytes
from tests.kernels.library.harness import call, hook, load

Pair = tuple[int, int]


def expected_sums(x: Any, w: Any, strides: Pair, pads: Pair, dilations: Pair) -> Any:
    """The convolution of integers in int64, with pads of 0; negative pads crop."""
    channels, multiplier = x.shape[1], len(w) // x.shape[1]
    top, left = (max(-pad, 0) for pad in pads)
    cropped = x[:, :, top : x.shape[2] - top, left : x.shape[3] - left]
    padded = np.pad(cropped, ((0, 0), (0, 0), *((max(pad, 0),) * 2 for pad in pads)))
    size = tuple((k - 1) * d + 1 for k, d in zip(w.shape[1:], dilations, strict=True))
    (sh, sw), (dh, dw) = strides, dilations
    windows = sliding_window_view(padded, size, (2, 3))[:, :, ::sh, ::sw, ::dh, ::dw]
    weights = w.reshape(channels, multiplier, *w.shape[1:])
    sums = np.einsum("nchwij,cmij->ncmhw", windows, weights, optimize=True)
    return sums.reshape(len(x), len(w), *sums.shape[3:])


class Convolution:
    """A convolution, ready to run; ``zeros``: 0 none, 1 single, 2 per feature."""

    def __init__(
        self, isa: Isa, shape: tuple[int, int, int, int], multiplier: int, kernel: Pair,
        strides: Pair = (1, 1), pads: Pair = (0, 0), dilations: Pair = (1, 1), signs: Any = BYTES,
        zeros: int = 0,
    ) -> None:  # fmt: skip
        rng, features = np.random.default_rng(sum(shape)), shape[1] * multiplier
        x, w = random_bytes(rng, signs[0], *shape), random_bytes(rng, signs[1], features, *kernel)
        x_zero = random_bytes(rng, signs[0], 1) if zeros else None
        w_zero = random_bytes(rng, signs[1], features if zeros == 2 else 1) if zeros else None
        wide_x, wide_w = x.astype(np.int64), w.astype(np.int64)
        if x_zero is not None and w_zero is not None:
            wide_x = wide_x - x_zero.astype(np.int64)
            wide_w = wide_w - w_zero.astype(np.int64).reshape(-1, 1, 1)
        self.expected = expected_sums(wide_x, wide_w, strides, pads, dilations).astype(np.int32)
        oh, ow = self.expected.shape[2:]
        packed = np.zeros(byte_depthwise.packed_bytes(features, *kernel), np.uint8)
        byte_depthwise.pack(packed, w)
        self.isa, signed = isa, [int(sign == np.int8) for sign in signs]
        self.args = ByteConvArgs(
            *shape[:2], 1, multiplier, 1, *shape[2:], 1, oh, ow, 1, *kernel, 1, *strides, 0, *pads,
            1, *dilations, features * oh * ow, oh * ow, int(zeros == 2), *signed, 0,
        )  # fmt: skip
        self.y = np.zeros(self.expected.shape, np.int32)
        self.operands = [guard(x), guard(packed), x_zero, w_zero, guard(self.y)]

    def run(self, symbol: str = byte_depthwise.SYMBOL, chunks: Any = None, **hooked: Any) -> Any:
        y = self.operands[-1]
        y[...] = 77
        kernel = load(byte_depthwise, self.isa)[symbol]
        scratch = byte_depthwise.scratch_bytes(self.isa, self.args)
        grid = byte_depthwise.grid(self.args)
        error = call(kernel, self.operands, self.args, grid, scratch, chunks=chunks, **hooked)
        return error or y.copy()

    def check(self) -> None:
        for symbol in (byte_depthwise.SYMBOL, byte_depthwise.EXPANDED, byte_depthwise.WIDE):
            np.testing.assert_array_equal(self.run(symbol), self.expected)


@each_isa
@settings(max_examples=80, deadline=None)
@given(
    channels=st.sampled_from([1, 3, 8]), multiplier=st.sampled_from([1, 1, 2]), images=st.integers(1, 2),
    size=st.tuples(st.integers(1, 37), st.integers(1, 37)),
    kernel=st.tuples(*(st.sampled_from([1, 2, 3, 3, 5, 5, 7, 9]),) * 2),
    strides=st.tuples(*(st.sampled_from([1, 1, 2, 3]),) * 2), pads=st.tuples(*(st.integers(-2, 4),) * 2),
    dilations=st.tuples(*(st.sampled_from([1, 1, 1, 2, 3]),) * 2),
    signs=st.tuples(st.sampled_from(BYTES), st.sampled_from(BYTES)), zeros=st.integers(0, 2),
)  # fmt: skip
@example(2, 1, 1, (70, 80), (3, 3), (1, 1), (1, 1), (1, 1), (np.uint8, np.int8), 0)
@example(2, 1, 1, (23, 23), (3, 3), (2, 2), (1, 1), (1, 1), (np.uint8, np.int8), 0)
@example(2, 1, 1, (23, 23), (5, 5), (1, 1), (2, 2), (1, 1), (np.int8, np.int8), 1)
@example(2, 1, 1, (23, 23), (5, 5), (2, 2), (2, 2), (1, 1), (np.uint8, np.uint8), 2)
@example(5, 1, 2, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1), (np.int8, np.int8), 1)
@example(40, 1, 1, (14, 14), (5, 5), (2, 2), (2, 2), (1, 1), (np.uint8, np.int8), 1)
@example(8, 2, 1, (14, 32), (1, 2), (1, 2), (4, 4), (1, 1), (np.uint8, np.int8), 2)
@example(1, 2, 1, (1, 3000), (1, 5), (1, 1), (0, 2), (1, 1), (np.uint8, np.int8), 0)
@example(1, 1, 1, (5000, 1), (3, 1), (1, 1), (1, 0), (1, 1), (np.uint8, np.int8), 0)
def test_is_exact(
    isa: Isa, channels: int, multiplier: int, images: int, size: Pair, kernel: Pair, strides: Pair,
    pads: Pair, dilations: Pair, signs: Any, zeros: int,
) -> None:  # fmt: skip
    spans = ((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    if any(n + 2 * p < span for n, p, span in zip(size, pads, spans, strict=True)):
        kernel = (1, 1)
        pads = (max(pads[0], 0), max(pads[1], 0))
    shape = (images, channels, *size)
    Convolution(isa, shape, multiplier, kernel, strides, pads, dilations, signs, zeros).check()


@each_isa
def test_any_chunking_gives_the_same_bits(isa: Isa) -> None:
    made = Convolution(isa, (2, 3, 90, 75), 2, (3, 3), pads=(1, 1), zeros=2)
    for chunks in chunkings(byte_depthwise.grid(made.args)):
        np.testing.assert_array_equal(made.run(chunks=chunks), made.expected)


@each_isa
def test_error_of_the_hook_is_returned(isa: Isa) -> None:
    assert Convolution(isa, (1, 4, 5, 5), 1, (3, 3)).run(hook=hook("fail")) == 7
