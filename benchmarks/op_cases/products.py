"""Matrix products: dense, thin, batched, of inputs, einsums, attention, few bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.op_cases.case import CONTRIB, NONE, Case, Operand, c, one, w, x


def _matmul(name: str, a: Operand, b: Operand) -> Case:
    return one(f"matmul {name}", "MatMul", a, b)


def _einsum(equation: str, *operands: Operand, name: str = "") -> Case:
    return one(f"einsum {equation}{name}", "Einsum", *operands, equation=equation)


def _attention(name: str, batch: int, heads: int, keys: int, rows: int, columns: int, **more: Any) -> Case:
    q, kv = x(batch, heads, rows, 64), (batch, keys, columns, 64)
    return one(f"attention {name}", "Attention", q, x(*kv), x(*kv), opset=23, **more)


def _few_bits(rows: int, k: int, n: int, bits: int) -> Case:
    blocks = k // 32
    codes = w(n, blocks, 32 * bits // 8, dtype="u1", low=0, high=256)
    scales = w(n * blocks, low=0.01, high=0.03)
    return one(f"{bits}-bit weights {rows} rows", "MatMulNBits", x(rows, k), codes, scales, domain=CONTRIB,
               tolerance=1e-2, K=k, N=n, bits=bits, block_size=32)  # fmt: skip


CASES = (
    _matmul("128x768x768", x(128, 768), w(768, 768)),
    _matmul("128x768x3072", x(128, 768), w(768, 3072)),
    _matmul("197x768x2304", x(197, 768), w(768, 2304)),
    _matmul("512x512x512 of inputs", x(512, 512), x(512, 512)),
    _matmul("1x768x768", x(1, 768), w(768, 768)),
    _matmul("1x4096x4096", x(1, 4096), w(4096, 4096)),
    _matmul("4x2048x2048", x(4, 2048), w(2048, 2048)),
    _matmul("16x1024x4096", x(16, 1024), w(1024, 4096)),
    _matmul("input column 2048x2048", x(2048, 2048), x(2048, 1)),
    _matmul("input vector 1000x768", x(1000, 768), x(768)),
    _matmul("input row 2048x2048", x(1, 2048), x(2048, 2048)),
    _matmul("row vector 512x4096", x(512), x(512, 4096)),
    _matmul("dot 100000", x(100_000), x(100_000)),
    _matmul("dot 1000", x(1000), x(1000)),
    _matmul("outer 1024x1024", x(1024, 1), x(1, 1024)),
    _matmul("16x20000x16", x(16, 20000), x(20000, 16)),
    _matmul("N 3", x(4096, 256), w(256, 3)),
    _matmul("N 1", x(4096, 256), w(256, 1)),
    _matmul("N 10", x(256, 1024), w(1024, 10)),
    _matmul("K 3", x(4096, 3), w(3, 256)),
    _matmul("K 8", x(4096, 8), x(8, 128)),
    _matmul("M 3", x(3, 1024), x(1024, 1024)),
    _matmul("points 4x4", x(20000, 4), x(4, 4)),
    _matmul("batched 4x4", x(1000, 4, 4), x(1000, 4, 4)),
    _matmul("batched 16x16", x(256, 16, 16), x(256, 16, 16)),
    _matmul("batched 64x64", x(64, 64, 64), x(64, 64, 64)),
    _matmul("heads QK", x(1, 12, 128, 64), x(1, 12, 64, 128)),
    _matmul("heads PV", x(1, 12, 128, 128), x(1, 12, 128, 64)),
    _matmul("heads one row", x(1, 32, 1, 128), x(1, 32, 128, 512)),
    _matmul("batch broadcast", x(32, 1, 128), w(128, 512)),
    _matmul("batched column", x(64, 128, 128), x(64, 128, 1)),
    _matmul("f64 256", x(256, 256, dtype="f8"), x(256, 256, dtype="f8")),
    _matmul("f64 weights", x(64, 512, dtype="f8"), w(512, 512, dtype="f8")),
    _matmul("f16", x(128, 768, dtype="f2"), w(768, 768, dtype="f2")),
    _matmul("i32", x(128, 128, dtype="i4", low=-9, high=9), x(128, 128, dtype="i4", low=-9, high=9)),
    one("gemm bias", "Gemm", x(64, 1024), w(1024, 1000), w(1000)),
    one("gemm B transposed", "Gemm", x(128, 512), w(1000, 512), w(1000), transB=1),
    one("gemm A transposed of inputs", "Gemm", x(512, 256), x(512, 384), transA=1),
    one("gemm both transposed", "Gemm", x(300, 200), x(250, 300), transA=1, transB=1),
    one("gemm alpha beta", "Gemm", x(128, 256), w(256, 256), x(128, 256), alpha=0.5, beta=2.0),
    one("gemm 1 row", "Gemm", x(1, 2048), w(1000, 2048), w(1000), transB=1),
    _einsum("ii->i", x(1024, 1024)),
    _einsum("bn,bn->b", x(512, 768), x(512, 768)),
    _einsum("bn,bn->", x(512, 768), x(512, 768)),
    _einsum("i,i->", x(100_000), x(100_000)),
    _einsum("i,j->ij", x(1024), x(1024)),
    _einsum("bhqd,bhkd->bhqk", x(1, 12, 128, 64), x(1, 12, 128, 64)),
    _einsum("bhqk,bhkd->bhqd", x(1, 12, 128, 128), x(1, 12, 128, 64)),
    _einsum("bqhd,bkhd->bhqk", x(1, 128, 12, 64), x(1, 128, 12, 64)),
    _einsum("bij,bjk->bik", x(16, 64, 64), x(16, 64, 64)),
    _einsum("ij->ji", x(1024, 1024)),
    _einsum("bij->b", x(64, 128, 128)),
    _einsum("bld,hd->blh", x(4, 128, 256), w(128, 256)),
    _einsum("bchw,cd->bdhw", x(1, 64, 56, 56), w(64, 128)),
    _einsum("nkctv,kvw->nctw", x(1, 3, 64, 60, 25), w(3, 25, 25)),
    _attention("12 heads x 128", 1, 12, 12, 128, 128),
    _attention("12 heads x 512", 1, 12, 12, 512, 512),
    _attention("causal 8 x 256", 1, 8, 8, 256, 256, is_causal=1),
    _attention("grouped 32 of 8, one row", 1, 32, 8, 1, 1024),
    _few_bits(1, 2048, 2048, 4),
    _few_bits(16, 2048, 2048, 4),
    _few_bits(64, 2048, 2048, 4),
    _few_bits(128, 2048, 2048, 4),
    _few_bits(1, 2048, 2048, 8),
    one("bias gelu", "BiasGelu", x(128, 3072), w(3072), domain=CONTRIB),
    one("fused matmul", "FusedMatMul", x(128, 256), x(512, 256), domain=CONTRIB, transB=1, alpha=0.125),
    one("quick gelu", "QuickGelu", x(128, 3072), domain=CONTRIB, alpha=1.702),
    one("skip layer norm", "SkipLayerNormalization", x(1, 128, 768), x(1, 128, 768), w(768), w(768),
        domain=CONTRIB),
    one("embed gather", "Gather", w(30522, 384), x(1, 128, dtype="i8", low=0, high=30522)),
    one("matmul integer", "MatMulInteger", x(128, 768, dtype="u1", low=0, high=256),
        w(768, 768, dtype="i1", low=-128, high=127), c(128, "u1"), c(0, "i1")),
    one("qlinear matmul", "QLinearMatMul", x(128, 768, dtype="u1", low=0, high=256), c(0.02, "f4"),
        c(128, "u1"), w(768, 768, dtype="i1", low=-128, high=127), c(0.01, "f4"), c(0, "i1"), c(0.3, "f4"),
        c(128, "u1"), tolerance=1e-2),
    one("qlinear conv 3x3", "QLinearConv", x(1, 64, 56, 56, dtype="u1", low=0, high=256), c(0.02, "f4"),
        c(128, "u1"), w(64, 64, 3, 3, dtype="i1", low=-128, high=127), c(0.01, "f4"), c(0, "i1"),
        c(0.3, "f4"), c(128, "u1"), pads=[1] * 4, tolerance=1e-2),
    one("qlinear conv 1x1", "QLinearConv", x(1, 128, 28, 28, dtype="u1", low=0, high=256), c(0.02, "f4"),
        c(128, "u1"), w(256, 128, 1, 1, dtype="i1", low=-128, high=127), c(0.01, "f4"), c(0, "i1"),
        c(0.3, "f4"), c(128, "u1"), tolerance=1e-2),
    one("qlinear conv depthwise", "QLinearConv", x(1, 96, 56, 56, dtype="u1", low=0, high=256),
        c(0.02, "f4"), c(128, "u1"), w(96, 1, 3, 3, dtype="i1", low=-128, high=127), c(0.01, "f4"),
        c(0, "i1"), c(0.1, "f4"), c(128, "u1"), pads=[1] * 4, group=96, tolerance=1e-2),
    one("conv integer", "ConvInteger", x(1, 32, 28, 28, dtype="u1", low=0, high=256),
        w(32, 32, 3, 3, dtype="u1", low=0, high=256), c(128, "u1"), c(128, "u1"), pads=[1] * 4),
    one("quantize", "QuantizeLinear", x(1, 64, 112, 112), c(0.02, "f4"), c(128, "u1"), tolerance=1e-2),
    one("quantize by channel", "QuantizeLinear", x(64, 64, 3, 3), w(64, low=0.01, high=0.02),
        c(np.zeros(64), "i1"), axis=0, tolerance=1e-2),
    one("dequantize", "DequantizeLinear", x(1, 64, 112, 112, dtype="u1", low=0, high=256), c(0.02, "f4"),
        c(128, "u1")),
    one("dynamic quantize", "DynamicQuantizeLinear", x(128, 768), outputs="y s z", tolerance=1e-2),
    one("gemm without bias", "Gemm", x(256, 512), w(512, 256), NONE),
)  # fmt: skip
