"""Gemm."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.arithmetic import Arithmetic
from graphwright.ir.interfaces.output_channels import OutputChannels
from graphwright.ir.interfaces.padding import Padded, PaddingRule, broadcast_leak
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.checks import NUMBERS, need_broadcast, need_dtype, same_dtype
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.references import like, quiet, widened
from graphwright.ops.core.transpose import Transpose
from graphwright.records import replace


@op("Gemm")
class Gemm(Arithmetic, OutputChannels, PaddingRule, Op):
    """``alpha * A @ B + beta * C`` of matrices. ``trans_a`` and ``trans_b`` transpose ``A`` and ``B``; the
    optional ``C`` is broadcast to the product.
    """

    alpha: float = 1.0
    beta: float = 1.0
    trans_a: bool = False
    trans_b: bool = False
    traits = Trait.CONTRACTION
    optional_inputs = frozenset({2})

    def infer(self, at: Inference, a: Fact, b: Fact, c: Fact | None = None) -> TensorType:
        dtype = same_dtype(at, a, b, *([] if c is None else [c]))
        need_dtype(at, a, NUMBERS, "the operand")
        if a.rank != 2 or b.rank != 2:
            raise at.fail(f"operands of {a.type} and {b.type}: both must be matrices")
        m, k = reversed(a.shape) if self.trans_a else a.shape
        inner, n = reversed(b.shape) if self.trans_b else b.shape
        at.equal(k, inner, f"{a.type} times {b.type}")
        if c is not None:
            need_broadcast(at, c, (m, n), "C")
        return TensorType(dtype, (m, n))

    def padding_leak(self, node: Node, padded: Padded) -> str:
        a, b, *added = (value for value in node.inputs if value is not None)
        if padded.among(a, [0 if self.trans_a else 1]) or padded.among(b, [1 if self.trans_b else 0]):
            return "it sums along a padded axis"
        return broadcast_leak((c.type.dims for c in added), node.output.type.dims, padded)

    def operations(self, node: Node) -> Dim:
        return 2 * product(node.output.type.dims) * node.operand(0).type.dims[-2 if self.trans_a else -1]

    def weights_by_channel(self, weights: Array) -> Array:
        return weights if self.trans_b else weights.T

    def along_channels(self, scale: Array, weights: tuple[int, ...]) -> Array:
        return scale[:, np.newaxis] if self.trans_b else scale[np.newaxis, :]

    def with_whole_bias(self) -> tuple[Gemm, float]:
        return replace(self, beta=1.0), self.beta

    @quiet
    def reference(self, a: Array, b: Array, c: Array | None = None) -> Array:
        left, right = widened(a.T if self.trans_a else a), widened(b.T if self.trans_b else b)
        product = np.matmul(left, right) * like(self.alpha, left)
        return like(product if c is None else product + widened(c) * like(self.beta, left), a)

    def decompose(self, b: Builder, x: Value, y: Value, c: Value | None = None) -> Value:
        left = b(Transpose((1, 0)), x) if self.trans_a else x
        right = b(Transpose((1, 0)), y) if self.trans_b else y
        product: Value = _scaled(b, b(MatMul(), left, right), self.alpha)
        if c is None:
            return product
        result: Value = b(Add(), product, _scaled(b, c, self.beta))
        return result


def _scaled(b: Builder, x: Value, factor: float) -> Value:
    if factor == 1:
        return x
    result: Value = b(Mul(), x, b.const(factor, x.type.dtype))
    return result


def _import(i: Importer) -> Any:
    trans_a, trans_b = bool(i.attr("transA", 0)), bool(i.attr("transB", 0))
    op = Gemm(float(i.attr("alpha", 1.0)), float(i.attr("beta", 1.0)), trans_a, trans_b)
    c = i.optional(2)
    return i.emit(op, i.input(0), i.input(1), *([] if c is None else [c]))


Gemm.onnx = {("Gemm", 7): _import, ("Gemm", 11): _import}
Gemm.to_onnx = as_onnx("Gemm", alpha="alpha", beta="beta", transA="trans_a", transB="trans_b")
_N, _K = symbol("N"), symbol("K")
Gemm.samples = (
    *(Sample(Gemm(), (arg(t, 3, 4), arg(t, 4, 5), arg(t, 5))) for t in (F32, F64, F16, I32)),
    Sample(Gemm(), (arg(F32, 3, 4), arg(F32, 4, 5))),
    Sample(Gemm(0.5, 2.0), (arg(F32, 3, 4), arg(F32, 4, 5), arg(F32, 3, 1))),
    Sample(Gemm(1.0, 0.0, trans_a=True, trans_b=True), (arg(F32, 4, 3), arg(F32, 5, 4), arg(F32))),
    Sample(Gemm(trans_b=True), (arg(F32, _N, _K), arg(F32, 7, _K), arg(F32, 1, 7))),
    Sample(Gemm(), (arg(F32, 0, 4), arg(F32, 4, 5), arg(F32, 1))),
    Sample(Gemm(), (arg(F32, 3, 0), arg(F32, 0, 5), arg(F32, 3, 5))),
    Sample(Gemm(), (arg(F32, 3, 4), arg(F32, 5, 6)), "4 and 5 differ"),
    Sample(Gemm(), (arg(F32, 1, 4), arg(F32, 4, 5), arg(F32, 3, 5)), "3 and 1 differ"),
    Sample(Gemm(), (arg(F32, 3, 4), arg(F32, 4, 5), arg(F32, 1, 3, 5)), "C has 3 axes"),
    Sample(Gemm(), (arg(F32, 2, 3, 4), arg(F32, 4, 5)), "both must be matrices"),
    Sample(Gemm(), (arg(F32, 3, 4), arg(F64, 4, 5)), "one dtype"),
)
