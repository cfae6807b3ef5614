"""Products with weights of few bits against float64: widths, blocks, zero points, hook, chunks, guards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.ir.types import Layout
from graphwright.kernels.gemm import gemm, nbits, nbits_bytes, nbits_dynamic, nbits_gemm, problem
from graphwright.kernels.library.bits import single_bits
from graphwright.layout.transform import pack, unpack
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import chunkings, each_isa
from tests.kernels.library.harness import load, strided
from tests.kernels.library.prepared import PreparedKernel

ROWS = st.one_of(st.integers(0, 10), st.sampled_from([16, 17, 145, 150]))
COLUMNS = st.one_of(st.integers(1, 20), st.sampled_from([47, 48, 49, 97, 200]))
ROUNDED = 0.501 / 127
"""The most that a quantized number is off, relative to the largest of its block."""
DEPTHS = st.one_of(st.integers(0, 40), st.sampled_from([64, 100, 769, 1031]))


def pack_bytes(words: Any, layout: Layout) -> Any:
    """Codes of 8 bits in words of four, as signed bytes [panel, k, column]."""
    rows, count = words.shape
    columns = layout.blocks[0][1]
    packed = np.empty((-(-rows // columns), 4 * count, columns), np.uint8)
    nbits_bytes.pack(packed.reshape(-1), words, layout)
    return packed


def largest_of_blocks(a: Any, block: int) -> Any:
    """For each number, the largest magnitude of its block."""
    rows, k = a.shape
    padded = np.zeros((rows, -(-k // block) * block))
    padded[:, :k] = np.abs(a)
    largest = padded.reshape(rows, -(-k // block), block).max(-1, initial=0)
    return np.repeat(largest, block, 1)[:, :k]


class Product(PreparedKernel):
    """``a @ w.T + bias`` of drawn codes, laid out and ready to run; ``expected`` is in float64."""

    def __init__(
        self, isa: Isa, m: int, n: int, k: int, bits: int, block: int, zeros: str, bias: bool, side: str,
        dynamic: bool = False,
    ) -> None:  # fmt: skip
        rng, width, blocks = np.random.default_rng(n * 1009 + k), problem.panel_columns(isa), -(-k // block)
        codes = rng.integers(0, 256, (n, blocks, block * bits // 8), dtype=np.uint8)
        scales = rng.uniform(0.5, 1.5, (n, blocks)).astype(np.float32)
        zero = {
            "none": np.full((n, blocks), 1 << (bits - 1)),
            "bytes": rng.integers(0, 1 << bits, (n, blocks)),
            "floats": rng.uniform(0, 1 << bits, (n, blocks)).astype(np.float32),
        }[zeros]
        a = self.rows(rng, m, k)
        added = rng.standard_normal((1, n)).astype(np.float32) if bias else None
        weights = self.weights(codes, scales, zero, bits, block, k)
        self.expected = a.astype(np.float64) @ weights.T + (0 if added is None else added)
        magnitude = np.abs(a).astype(np.float64) @ np.abs(weights).T + 8
        self.bound = 2e-6 * magnitude
        if dynamic and bits < 8:
            self.bound += ROUNDED * np.abs(largest_of_blocks(a, block)) @ np.abs(weights).T

        layout, words = nbits.panels(width), codes.reshape(n, codes[0].size).view("<u4")
        packed = [pack_bytes(words, layout) if bits == 8 else pack(words, layout), pack(scales, layout)]
        of_zeros = None
        if zeros != "none":
            of_zeros = pack(zero.astype(np.uint8 if zeros == "bytes" else np.float32), layout)
        self.c = strided(np.zeros((1, 1, m, n), np.float32), (0, 1, 2, 3), 0, side, 1)[0]
        own = nbits_gemm.CodesArgs(bits, block, int(zeros == "floats"), int(dynamic))
        args = problem.GemmArgs(
            1, 1, m, n, k, 0, 0, k, 1, 0, 0, 0, 0, 0, int(bias), m * n, m * n, n, 1, 0, 0, 0, 0,
            0, 0, 0, single_bits(1.0),
        )  # fmt: skip
        held = [strided(x.view(np.float32), (0, 1, 2), 0, side, 1)[0] for x in packed]
        self.operands: list[Any] = [a, *held, of_zeros, added, None, self.c]
        self.args = (*args, *own)
        self.kernel, self.grid = load(gemm, isa)[nbits_gemm.SYMBOL], problem.grid(isa, args)
        self.scratch = nbits_gemm.scratch_bytes(isa, args, own)

    @staticmethod
    def rows(rng: np.random.Generator, m: int, k: int) -> Any:
        """The left operand."""
        return rng.standard_normal((m, k)).astype(np.float32)

    @staticmethod
    def weights(codes: Any, scales: Any, zero: Any, bits: int, block: int, k: int) -> Any:
        """The weights, unpacked bit by bit with ``unpackbits``."""
        rows = codes.reshape(len(codes), codes[0].size)
        single = np.unpackbits(rows, axis=1, bitorder="little")
        parts = single.reshape(len(codes), rows.shape[1] * 8 // bits, bits).astype(np.float64)
        numbers = (parts * 2.0 ** np.arange(bits)).sum(-1)
        spread = (np.repeat(x.astype(np.float64), block, 1) for x in (zero, scales))
        shift, factor = spread
        return ((numbers - shift) * factor)[:, :k]

    def run(self, chunks: list[tuple[int, int]] | None = None) -> Any:
        return self.launch(chunks).copy().reshape(self.expected.shape)

    def assert_near(self, actual: Any) -> None:
        assert (np.abs(actual - self.expected) <= self.bound).all()


@each_isa
@settings(max_examples=40, deadline=None)
@given(
    m=ROWS, n=COLUMNS, k=DEPTHS, bits=st.sampled_from(nbits.WIDTHS), block=st.sampled_from([16, 32, 64, 256]),
    zeros=st.sampled_from(["none", "bytes", "floats"]), bias=st.booleans(),
    side=st.sampled_from(["start", "end"]), dynamic=st.booleans(),
)  # fmt: skip
@example(1, 200, 1031, 4, 32, "bytes", True, "end", False)
@example(4, 97, 769, 2, 16, "floats", False, "start", False)
@example(150, 97, 769, 4, 256, "floats", True, "start", True)
@example(5, 48, 33, 8, 16, "none", True, "end", False)
def test_matches_float64(
    isa: Isa, m: int, n: int, k: int, bits: int, block: int, zeros: str, bias: bool, side: str,
    dynamic: bool,
) -> None:  # fmt: skip
    product = Product(isa, m, n, k, bits, block, zeros, bias, side, dynamic)
    whole = product.run([(0, product.grid)])
    product.assert_near(whole)
    for chunks in chunkings(product.grid):
        assert product.run(chunks).tobytes() == whole.tobytes()


@each_isa
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("m", [1, 3, 9, 150])
def test_hook_sees_the_tiles(isa: Isa, m: int, dynamic: bool) -> None:
    product = Product(isa, m, 101, 130, 4, 32, "bytes", False, "end", dynamic)
    found = product.hooked(1, m, 101)
    expected = 3 * product.run().reshape(found.shape) + 1
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-4)


@each_isa
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("bits", nbits.WIDTHS)
def test_equal_rows_have_equal_results(isa: Isa, bits: int, dynamic: bool) -> None:
    """The last row, which is alone in its group, has the bits of the others."""
    product = Product(isa, nbits.group_rows(isa) + 1, 49, 200, bits, 32, "bytes", False, "end", dynamic)
    product.operands[0][:] = product.operands[0][0]
    rows = product.run()
    assert all(row.tobytes() == rows[0].tobytes() for row in rows)


class Integers(Product):
    """Rows of integers up to 127, which occurs in every block: quantization changes no number."""

    @staticmethod
    def rows(rng: np.random.Generator, m: int, k: int) -> Any:
        a = rng.integers(-127, 128, (m, k)).astype(np.float32)
        a[:, ::16] = 127
        return a


@each_isa
@pytest.mark.parametrize("block", [16, 32, 128])
@pytest.mark.parametrize("bits", nbits_dynamic.WIDTHS)
@pytest.mark.parametrize("m", [1, 4, 13])
def test_numbers_that_are_bytes_stay_exact(isa: Isa, m: int, bits: int, block: int) -> None:
    product = Integers(isa, m, 60, 300, bits, block, "bytes", True, "end", True)
    exact = Integers(isa, m, 60, 300, bits, block, "bytes", True, "end", False)
    product.bound = exact.bound
    product.assert_near(product.run())


@each_isa
@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
def test_rows_next_to_one_with_infinity_keep_their_results(isa: Isa, wrong: float) -> None:
    """Tiles of rows with numbers that are not finite are multiplied in f32, whatever the chunks."""
    product = Product(isa, 40, 60, 96, 4, 32, "bytes", True, "end", True)
    finite, row = product.run(), 21
    product.operands[0][row, 5] = wrong
    found = product.run([(0, product.grid)])
    assert product.run().tobytes() == found.tobytes()
    others = np.arange(40) != row
    assert (np.abs(found - finite)[others] <= 2 * product.bound[others]).all()
    tile = problem.tile_shape(isa).rows
    assert found[: row - tile].tobytes() == finite[: row - tile].tobytes()
    assert found[row + tile :].tobytes() == finite[row + tile :].tobytes()
    assert not np.isfinite(found[row]).any()


@each_isa
def test_zeros_and_the_smallest_numbers(isa: Isa) -> None:
    product = Product(isa, 2, 20, 64, 4, 32, "bytes", False, "end", True)
    product.operands[0][0] = 0
    product.operands[0][1] = 1e-44
    np.testing.assert_array_equal(product.run(), np.zeros((2, 20), np.float32))


def test_bytes_of_a_panel_lie_side_by_side() -> None:
    """For each k, a panel has the code of every column minus 128, and codes of 0 after the last column."""
    codes = np.random.default_rng(0).integers(0, 256, (20, 12), dtype=np.uint8)
    packed = pack_bytes(codes.view("<u4"), nbits.panels(16)).view(np.int8)
    np.testing.assert_array_equal(packed[0, 7], codes[:16, 7].astype(np.int16) - 128)
    np.testing.assert_array_equal(packed[1, 11], [*(codes[16:, 11].astype(np.int16) - 128), *[-128] * 12])


def test_packed_panels_interleave_words_of_columns() -> None:
    """For each word, a panel has one word of every column, and zeros after the last column."""
    words = np.arange(20 * 3, dtype=np.uint32).reshape(20, 3)
    packed = pack(words, nbits.panels(16))
    np.testing.assert_array_equal(packed[1, 2], [*words[16:, 2], *[0] * 12])
    np.testing.assert_array_equal(unpack(packed, nbits.panels(16), (20, 3)), words)
