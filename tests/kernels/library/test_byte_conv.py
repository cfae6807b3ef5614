"""Convolutions of bytes against int64 NumPy, bit for bit: with and without VNNI, zero points, chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

from graphwright.kernels.byte_conv import byte_conv, byte_interleave
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import BYTES, chunkings, each_isa, guard, random_bytes
from tests.kernels.library.harness import call, hook, load


def expected_sums(x: Any, w: Any, groups: int, stride: int, pad: int, dilation: int) -> Any:
    """The convolution of integers in int64, with pads of 0."""
    n, c, _, _ = x.shape
    cout, cin, kh, kw = w.shape
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    size = ((kh - 1) * dilation + 1, (kw - 1) * dilation + 1)
    windows = sliding_window_view(padded, size, (2, 3))[:, :, ::stride, ::stride, ::dilation, ::dilation]
    grouped = windows.reshape(n, groups, c // groups, *windows.shape[2:])
    weights = w.reshape(groups, cout // groups, cin, kh, kw)
    sums = np.einsum("ngchwij,gmcij->ngmhw", grouped, weights, optimize=True)
    return sums.reshape(n, cout, *sums.shape[3:])


class Convolution:
    """A convolution with square kernels, ready to run; ``zeros``: 0 none, 1 single, 2 per feature;
    ``packed``: x is packed in panels before.
    """

    def __init__(
        self, isa: Isa, shape: tuple[int, int, int, int], groups: int, cout: int, kernel: int,
        stride: int = 1, pad: int = 0, dilation: int = 1, signs: Any = BYTES, zeros: int = 0,
        packed: bool = False,
    ) -> None:  # fmt: skip
        rng, (n, cin, h, w) = np.random.default_rng(sum(shape)), shape
        x = random_bytes(rng, signs[0], n, groups * cin, h, w)
        weights = random_bytes(rng, signs[1], groups * cout, cin, kernel, kernel)
        x_zero = random_bytes(rng, signs[0], 1) if zeros else None
        w_zero = random_bytes(rng, signs[1], groups * cout if zeros == 2 else 1) if zeros else None
        wide_x, wide_w = x.astype(np.int64), weights.astype(np.int64)
        if x_zero is not None and w_zero is not None:
            wide_x = wide_x - x_zero.astype(np.int64)
            wide_w = wide_w - w_zero.astype(np.int64).reshape(-1, 1, 1, 1)
        self.expected = expected_sums(wide_x, wide_w, groups, stride, pad, dilation).astype(np.int32)
        oh, ow = self.expected.shape[2:]
        tiles = np.zeros(byte_conv.packed_bytes(groups, cout, cin, kernel**2), np.uint8)
        byte_conv.pack(tiles, weights, groups)
        signed = [int(sign == np.int8) for sign in signs]
        whole = byte_interleave.InterleaveArgs(n, groups, cin, h * w, signed[0])
        first = byte_interleave.interleaving(isa, whole, packed=packed)
        quads = np.full(int(first.result_bytes), 99, np.uint8)
        self.isa, library = isa, load(byte_interleave, isa)
        assert call(library[first.symbol], [guard(x), quads], whole, first.grid, 0) == 0
        self.args = byte_conv.ByteConvArgs(
            n, groups, cin, cout, 1, h, w, 1, oh, ow, 1, kernel, kernel, 1, stride, stride, 0, pad, pad,
            1, dilation, dilation,
            groups * cout * oh * ow, oh * ow, int(zeros == 2), *signed, int(packed),
        )  # fmt: skip
        self.y = np.zeros(self.expected.shape, np.int32)
        self.operands = [guard(quads), guard(tiles), x_zero, w_zero, self.y]

    def run(self, symbol: str = byte_conv.SYMBOL, chunks: Any = None, **hooked: Any) -> Any:
        self.y[...] = 77
        kernel, scratch = load(byte_conv, self.isa)[symbol], byte_conv.scratch_bytes(self.isa, self.args)
        grid = byte_conv.grid(self.isa, self.args)
        error = call(kernel, self.operands, self.args, grid, scratch, chunks=chunks, **hooked)
        return error or self.y.copy()

    def check(self) -> None:
        for symbol in (byte_conv.SYMBOL, byte_conv.VNNI, byte_conv.WIDE):
            np.testing.assert_array_equal(self.run(symbol), self.expected)


@each_isa
@settings(max_examples=60, deadline=None)
@given(
    cin=st.sampled_from([1, 3, 4, 5, 33, 64]), cout=st.sampled_from([1, 7, 8, 17, 70]),
    groups=st.sampled_from([1, 1, 2]), images=st.integers(1, 2),
    size=st.tuples(st.integers(5, 23), st.integers(5, 23)),
    kernel=st.sampled_from([1, 2, 3, 5]), stride=st.integers(1, 3), pad=st.integers(0, 2),
    dilation=st.sampled_from([1, 1, 2]), signs=st.tuples(st.sampled_from(BYTES), st.sampled_from(BYTES)),
    zeros=st.integers(0, 2),
)  # fmt: skip
@example(3, 32, 1, 1, (40, 40), 7, 2, 3, 1, (np.uint8, np.int8), 1)
@example(600, 8, 1, 1, (9, 9), 3, 1, 1, 1, (np.int8, np.uint8), 2)
def test_is_exact(
    isa: Isa, cin: int, cout: int, groups: int, images: int, size: Any, kernel: int, stride: int, pad: int,
    dilation: int, signs: Any, zeros: int,
) -> None:  # fmt: skip
    kernel = 1 if min(size) + 2 * pad < (kernel - 1) * dilation + 1 else kernel
    Convolution(isa, (images, cin, *size), groups, cout, kernel, stride, pad, dilation, signs, zeros).check()


@each_isa
@settings(max_examples=40, deadline=None)
@given(
    cin=st.sampled_from([1, 3, 4, 5, 33, 64]), cout=st.sampled_from([1, 7, 8, 17, 70]),
    groups=st.sampled_from([1, 1, 2]), images=st.integers(1, 2), height=st.integers(1, 23),
    width=st.integers(1, 23), signs=st.tuples(st.sampled_from(BYTES), st.sampled_from(BYTES)),
    zeros=st.integers(0, 2),
)  # fmt: skip
@example(5, 8, 1, 1, 1, 1, (np.uint8, np.int8), 1)
@example(5, 8, 1, 1, 7, 7, (np.uint8, np.int8), 2)
@example(600, 8, 1, 2, 40, 49, (np.int8, np.uint8), 2)
def test_packed_images_give_the_same_sums(
    isa: Isa, cin: int, cout: int, groups: int, images: int, height: int, width: int, signs: Any, zeros: int
) -> None:
    shape = (images, cin, height, width)
    Convolution(isa, shape, groups, cout, 1, signs=signs, zeros=zeros, packed=True).check()


@each_isa
@pytest.mark.parametrize(("cin", "size", "kernel"), [(64, 30, 1), (20, 23, 3)])
def test_any_chunking_gives_the_same_bits(isa: Isa, cin: int, size: int, kernel: int) -> None:
    made = Convolution(isa, (2, cin, size, size), 1, 140, kernel, pad=kernel // 2, packed=kernel == 1)
    for chunks in chunkings(byte_conv.grid(isa, made.args)):
        np.testing.assert_array_equal(made.run(chunks=chunks), made.expected)


@each_isa
def test_error_of_the_hook_is_returned(isa: Isa) -> None:
    assert Convolution(isa, (1, 4, 5, 5), 1, 3, 3).run(hook=hook("fail")) == 7
