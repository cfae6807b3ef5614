"""Products of bytes against int64 NumPy, bit for bit: with and without VNNI, zero points, chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.ir.symbols import evaluate, symbol
from graphwright.kernels.gemm import byte_gemm
from graphwright.records import replace
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.cases import BYTES, chunkings, each_isa, guard, random_bytes
from tests.kernels.library.harness import call, hook, load

SIZES = st.one_of(st.integers(0, 20), st.sampled_from([31, 47, 48, 49, 97, 131]))
DEPTHS = st.one_of(st.integers(0, 20), st.sampled_from([63, 64, 65, 127, 257, 1030]))


class Product:
    """``(a - a_zero) @ (b - b_zero)``, ready to run; zero points are None, of one element, or of each row."""

    def __init__(self, isa: Isa, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> None:
        self.batch, self.isa, (m, k), n = a.shape[:-2], isa, a.shape[-2:], b.shape[-1]
        count, own = int(np.prod(self.batch)), b.ndim > 2
        matrix = byte_gemm.packed_bytes(isa, k, n)
        packed = np.zeros((b.shape[0] if own else 1) * matrix, np.uint8)
        byte_gemm.pack(packed, b, isa)
        self.c = np.zeros((count, m, n), np.int32)
        of_a, of_b = (int(zero is not None and zero.size > 1) for zero in (a_zero, b_zero))
        self.args = byte_gemm.ByteGemmArgs(
            1, count, m, n, k, 0, m * k, k, 0, matrix * own, 0, m * n, n, 0, 0, of_a, 0, 0, of_b,
            int(a.dtype == np.int8), int(b.dtype == np.int8),
        )  # fmt: skip
        self.operands = [guard(a), guard(packed), a_zero, b_zero, self.c]
        wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
        wide_a -= 0 if a_zero is None else a_zero.astype(np.int64)[:, None]
        wide_b -= 0 if b_zero is None else b_zero.astype(np.int64)
        self.expected = (wide_a @ wide_b).astype(np.int32).reshape(self.c.shape)

    def run(
        self, name: str = byte_gemm.SYMBOL, chunks: Any = None, sanitizer: str = "", **hooked: Any
    ) -> Any:
        self.c[...] = 77
        kernel = load(byte_gemm, self.isa, sanitizer)[name]
        scratch = byte_gemm.scratch_bytes(self.isa, self.args)
        grid = byte_gemm.grid(self.isa, self.args)
        error = call(kernel, self.operands, self.args, grid, scratch, chunks=chunks, **hooked)
        return error or self.c.copy()

    def check(self, sanitizer: str = "") -> None:
        for kernel in (byte_gemm.SYMBOL, byte_gemm.VNNI, byte_gemm.WIDE):
            np.testing.assert_array_equal(self.run(kernel, sanitizer=sanitizer), self.expected)


@each_isa
@settings(max_examples=60, deadline=None)
@given(m=SIZES, n=SIZES, k=DEPTHS, a_dtype=st.sampled_from(BYTES), b_dtype=st.sampled_from(BYTES),
       zeros=st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([0, 1, 2])))  # fmt: skip
@example(400, 97, 1030, np.int8, np.uint8, (2, 2))
def test_is_exact(isa: Isa, m: int, n: int, k: int, a_dtype: Any, b_dtype: Any, zeros: Any) -> None:
    rng = np.random.default_rng(m * 1000003 + n * 1009 + k)
    a, b = random_bytes(rng, a_dtype, m, k), random_bytes(rng, b_dtype, k, n)
    a_zero = None if zeros[0] == 0 else random_bytes(rng, a_dtype, 1 if zeros[0] == 1 else m)
    b_zero = None if zeros[1] == 0 else random_bytes(rng, b_dtype, 1 if zeros[1] == 1 else n)
    Product(isa, a, b, a_zero, b_zero).check()


def largest_bytes(isa: Isa, signs: Any, k: int) -> Product:
    """255 * 127 twice does not fit s16; 70,000 products of the farthest differences do not fit s32."""
    (least_a, most_a), (least_b, most_b) = (
        (np.iinfo(dtype).min, np.iinfo(dtype).max) for dtype in signs
    )  # fmt: skip
    a, b = np.full((3, k), most_a, signs[0]), np.full((k, 5), most_b, signs[1])
    a[1], b[:, 2] = least_a, least_b
    return Product(isa, a, b, np.array([least_a], signs[0]), np.array([least_b], signs[1]))


@each_isa
@pytest.mark.parametrize("signs", [(a, b) for a in BYTES for b in BYTES])
def test_the_largest_bytes_do_not_saturate_and_sums_wrap(isa: Isa, signs: Any) -> None:
    for k in (1, 2, 300, 70_000):
        largest_bytes(isa, signs, k).check()


@each_isa
def test_sums_wrap_without_overflow_of_signed_numbers(isa: Isa, capfd: pytest.CaptureFixture[str]) -> None:
    """Signed overflow is undefined in C, and the sanitizer would report it."""
    for signs in [(a, b) for a in BYTES for b in BYTES]:
        largest_bytes(isa, signs, 70_000).check("signed-integer-overflow")
    assert "runtime error" not in capfd.readouterr().err


@each_isa
@pytest.mark.parametrize("own", [False, True])
def test_batches_are_exact(isa: Isa, own: bool) -> None:
    rng = np.random.default_rng(1)
    a, b = random_bytes(rng, np.uint8, 3, 10, 70), random_bytes(rng, np.int8, *([3] * own), 70, 60)
    Product(isa, a, b).check()


@each_isa
@pytest.mark.parametrize(("m", "n", "k"), [(205, 300, 100), (1, 700, 64), (13, 97, 5), (101, 40, 70)])
def test_any_chunking_gives_the_same_bits(isa: Isa, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(2)
    product = Product(isa, random_bytes(rng, np.int8, m, k), random_bytes(rng, np.uint8, k, n))
    for chunks in chunkings(byte_gemm.grid(isa, product.args)):
        np.testing.assert_array_equal(product.run(chunks=chunks), product.expected)


@each_isa
def test_packing_at_run_time_gives_the_same_panels(isa: Isa) -> None:
    rng = np.random.default_rng(3)
    for dtype in BYTES:
        for k, n in ((1, 1), (5, 50), (64, 97), (0, 3)):
            b = random_bytes(rng, dtype, 2, k, n)
            expected = np.zeros(2 * byte_gemm.packed_bytes(isa, k, n), np.uint8)
            byte_gemm.pack(expected, b, isa)
            args = byte_gemm.BytePackArgs(2, k, n, int(dtype == np.int8))
            made = np.full_like(expected, 77)
            assert (
                call(load(byte_gemm, isa)[byte_gemm.PACK], [b, made], args, byte_gemm.pack_grid(isa, args), 0)
                == 0
            )
            np.testing.assert_array_equal(made, expected)


@each_isa
def test_error_of_the_hook_is_returned(isa: Isa) -> None:
    product = Product(isa, np.ones((3, 3), np.uint8), np.ones((3, 3), np.int8))
    assert product.run(hook=hook("fail")) == 7


def test_sizes_may_be_symbols() -> None:
    m, k = symbol("M"), symbol("K")
    args = byte_gemm.ByteGemmArgs(1, 1, m, 70, k, 0, 0, k, 0, 0, 0, 0, 70, 0, 0, 0, 0, 0, 0, 0, 1)
    known, values = replace(args, m=1000, k=3000, a_m=3000), {"M": 1000, "K": 3000}
    for isa in ISAS.values():
        for figure in (byte_gemm.grid, byte_gemm.scratch_bytes, byte_gemm.work_ns):
            assert evaluate(figure(isa, args), values) == figure(isa, known)
