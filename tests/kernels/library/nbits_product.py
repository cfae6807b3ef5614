"""Matrix multiplications with weights of few bits that tests build."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.types import Layout
from graphwright.kernels.gemm import gemm, nbits, nbits_bytes, nbits_gemm, problem
from graphwright.kernels.library.bits import single_bits
from graphwright.layout.transform import pack
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.harness import load, strided
from tests.kernels.library.prepared import PreparedKernel

ROUNDED = 0.501 / 127
"""The most that a quantized number is off, relative to the largest of its block."""


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
