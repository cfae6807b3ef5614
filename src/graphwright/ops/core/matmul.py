"""MatMul."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Node
from graphwright.ir.interfaces.arithmetic import Arithmetic, product_operations
from graphwright.ir.interfaces.padding import Padded, PaddingRule, broadcast_leak
from graphwright.ir.op import Array, AtenImporter, Fact, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import BF16, BOOL, F16, F32, F64, I32, DType, TensorType
from graphwright.ops.core.aten_elementwise import times_number
from graphwright.ops.core.binary import Add
from graphwright.ops.core.checks import NUMBERS, need_dtype
from graphwright.ops.core.imports import simple
from graphwright.ops.core.references import quiet
from graphwright.ops.core.rounded_operands import product_dtype, rounded, summed, verify_precision


@op("MatMul")
class MatMul(Arithmetic, PaddingRule, Op):
    """The matrix product ``a[..., M, K] @ b[..., K, N]``; the leading axes are broadcast.

    As in NumPy, a vector ``a`` is a row and a vector ``b`` a column, and the result does not have this axis.
    With ``precision`` bf16, both operands are rounded to bf16, and sums and result are f32.
    """

    precision: DType | None = None
    traits = Trait.CONTRACTION

    def verify(self) -> None:
        verify_precision(self.precision)

    def infer(self, at: Inference, a: Fact, b: Fact) -> TensorType:
        dtype = product_dtype(at, self.precision, a, b)
        need_dtype(at, a, NUMBERS, "the operand")
        if not a.rank or not b.rank:
            raise at.fail(f"operands of {a.type} and {b.type}: neither may be a scalar")
        rows, columns = a.shape[-2:-1], b.shape[-1:] if b.rank > 1 else ()
        at.equal(a.shape[-1], b.shape[-2] if b.rank > 1 else b.shape[0], f"{a.type} @ {b.type}")
        return TensorType(dtype, (*at.broadcast(a.shape[:-2], b.shape[:-2]), *rows, *columns))

    def padding_leak(self, node: Node, padded: Padded) -> str:
        a, b = node.operand(0), node.operand(1)
        if padded.among(a, [-1]) or padded.among(b, [-2 if len(b.type.dims) > 1 else -1]):
            return "it sums along a padded axis"
        batch = node.output.type.dims[: max(len(a.type.dims), len(b.type.dims)) - 2]
        return broadcast_leak((a.type.dims[:-2], b.type.dims[:-2]), batch, padded)

    def operations(self, node: Node) -> Dim:
        return product_operations(node)

    @quiet
    def reference(self, a: Array, b: Array) -> Array:
        product = np.matmul(rounded(a, self.precision), rounded(b, self.precision))
        return summed(product, a, self.precision)


MatMul.onnx = {("MatMul", 1): simple(MatMul)}
MatMul.to_onnx = as_onnx("MatMul")
_N, _K = symbol("N"), symbol("K")
MatMul.samples = (
    *(Sample(MatMul(), (arg(t, 3, 4), arg(t, 4, 5))) for t in (F32, F64, F16, BF16, I32)),
    *(Sample(MatMul(BF16), (arg(a, 3, 5), arg(b, 5, 4))) for a in (F32, BF16) for b in (F32, BF16)),
    Sample(MatMul(BF16), (arg(F32, _N, 6), arg(BF16, 6, 4))),
    Sample(MatMul(BF16), (arg(F16, 3, 4), arg(BF16, 4, 2)), "an operand of a product in bf16 is f16"),
    Sample(MatMul(F16), (arg(F16, 3, 4), arg(F16, 4, 2)), "the precision f16 is not supported"),
    Sample(MatMul(), (arg(F32, 2, 1, 3, 4), arg(F32, 5, 4, 2))),
    Sample(MatMul(), (arg(F32, 4), arg(F32, 4))),
    Sample(MatMul(), (arg(F32, 4), arg(F32, 2, 4, 3))),
    Sample(MatMul(), (arg(F32, 2, 3, 4), arg(F32, 4))),
    Sample(MatMul(), (arg(F32, _N, 3, _K), arg(F32, _K, 2))),
    Sample(MatMul(), (arg(F32, 3, 0), arg(F32, 0, 2))),
    Sample(MatMul(), (arg(F32, 0, 3), arg(F32, 3, 2))),
    Sample(MatMul(), (arg(F32, 3, 4), arg(F32, 5, 2)), "4 and 5 differ"),
    Sample(MatMul(), (arg(F32, 2, 3, 4), arg(F32, 3, 4, 2)), "2 and 3 differ"),
    Sample(MatMul(), (arg(F32), arg(F32, 4)), "neither may be a scalar"),
    Sample(MatMul(), (arg(F32, 3, 4), arg(F64, 4, 2)), "one dtype"),
    Sample(MatMul(), (arg(BOOL, 3, 4), arg(BOOL, 4, 2)), "the operand is bool"),
)


def _product(i: AtenImporter, first: int, second: int) -> Any:
    """The product of two operands. PyTorch's meta functions accept operands of different dtypes, but its
    kernels raise an error, which is left to them.
    """
    a, b = i.input(first), i.input(second)
    if a.type.dtype != b.type.dtype:
        raise i.fail(f"PyTorch does not multiply {a.type.dtype} by {b.type.dtype}")
    return i.emit(MatMul(), a, b)


def _aten_addmm(i: AtenImporter) -> Any:
    """``beta * input + alpha * (a @ b)``."""
    product = _product(i, 1, 2)
    product = times_number(i, product, "alpha")
    if i.number("beta") == 0:
        return product
    return i.emit(Add(), product, times_number(i, i.input(0), "beta"))


MatMul.aten = {
    **{name: lambda i: _product(i, 0, 1) for name in ("mm", "bmm", "mv", "dot")},
    "addmm": _aten_addmm,
    "baddbmm": _aten_addmm,
}
