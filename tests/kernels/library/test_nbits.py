"""Products with weights of few bits against float64: widths, blocks, zero points, hook, chunks, guards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.kernels.gemm import nbits, nbits_dynamic, problem
from graphwright.layout.transform import pack, unpack
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import chunkings, each_isa
from tests.kernels.library.nbits_product import Product, pack_bytes

ROWS = st.one_of(st.integers(0, 10), st.sampled_from([16, 17, 145, 150]))
COLUMNS = st.one_of(st.integers(1, 20), st.sampled_from([47, 48, 49, 97, 200]))
DEPTHS = st.one_of(st.integers(0, 40), st.sampled_from([64, 100, 769, 1031]))


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
    product = Product(isa, m, 101, 130, 4, 32, "bytes", bias=False, side="end", dynamic=dynamic)
    found = product.hooked(1, m, 101)
    expected = 3 * product.run().reshape(found.shape) + 1
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-4)


@each_isa
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("bits", nbits.WIDTHS)
def test_equal_rows_have_equal_results(isa: Isa, bits: int, dynamic: bool) -> None:
    """The last row, which is alone in its group, has the bits of the others."""
    product = Product(
        isa, nbits.group_rows(isa) + 1, 49, 200, bits, 32, "bytes", bias=False, side="end", dynamic=dynamic
    )
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
    product = Integers(isa, m, 60, 300, bits, block, "bytes", bias=True, side="end", dynamic=True)
    exact = Integers(isa, m, 60, 300, bits, block, "bytes", bias=True, side="end", dynamic=False)
    product.bound = exact.bound
    product.assert_near(product.run())


@each_isa
@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
def test_rows_next_to_one_with_infinity_keep_their_results(isa: Isa, wrong: float) -> None:
    """Tiles of rows with numbers that are not finite are multiplied in f32, whatever the chunks."""
    product = Product(isa, 40, 60, 96, 4, 32, "bytes", bias=True, side="end", dynamic=True)
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
    product = Product(isa, 2, 20, 64, 4, 32, "bytes", bias=False, side="end", dynamic=True)
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
