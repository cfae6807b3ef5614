"""GroupedMatMul: a mixture of experts multiplies the rows of each expert by the expert's own matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.arithmetic import Arithmetic, product_operations
from graphwright.ir.op import Array, AtenImporter, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import CannotExport, Exporter, Operand, refuse_others
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import BF16, F16, F32, F64, I32, I64, DType, TensorType
from graphwright.ops.core.checks import NUMBERS, need_dtype
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.references import quiet
from graphwright.ops.core.rounded_operands import product_dtype, rounded, summed, verify_precision


@op("GroupedMatMul")
class GroupedMatMul(Arithmetic, Op):
    """Multiplies consecutive groups of the rows of ``a[M, K]`` by one matrix each of ``b[G, K, N]``.

    Group ``g`` ends before row ``ends[g]``, and begins at the greatest end of the groups before it; it is
    empty if that is not before its own end. Rows after the last group are 0 in the result ``[M, N]``. An end
    outside of ``[0, M]`` is an error at run time. With ``precision`` bf16, both operands are rounded to bf16,
    and sums and result are f32.
    """

    precision: DType | None = None

    def verify(self) -> None:
        verify_precision(self.precision)

    def infer(self, at: Inference, a: Fact, b: Fact, ends: Fact) -> TensorType:
        dtype = product_dtype(at, self.precision, a, b)
        need_dtype(at, a, NUMBERS, "the operand")
        need_dtype(at, ends, {I32, I64}, "the vector of ends")
        if (a.rank, b.rank, ends.rank) != (2, 3, 1):
            raise at.fail(f"operands of {a.type}, {b.type} and {ends.type}: their ranks must be 2, 3 and 1")
        at.equal(a.shape[1], b.shape[1], f"{a.type} @ {b.type}")
        at.equal(b.shape[0], ends.shape[0], "matrices and ends of groups")
        return TensorType(dtype, (a.shape[0], b.shape[2]))

    def operations(self, node: Node) -> Dim:
        return product_operations(node)

    @quiet
    def reference(self, a: Array, b: Array, ends: Array) -> Array:
        if ends.size and not 0 <= int(ends.min()) <= int(ends.max()) <= len(a):
            raise ValueError(f"the ends are {ends.tolist()}; they must be in [0, {len(a)}]")
        left, right = rounded(a, self.precision), rounded(b, self.precision)
        result = np.zeros((len(a), b.shape[2]), np.result_type(left, right))
        begin = 0
        for matrix, end in zip(right, ends.tolist(), strict=True):
            if begin < end:
                result[begin:end] = left[begin:end] @ matrix
            begin = max(begin, end)
        return summed(result, a, self.precision)


_M, _K = symbol("M"), symbol("K")
_ENDS = arg(I32, 3, values=(1, 1, 4))
GroupedMatMul.samples = (
    *(Sample(GroupedMatMul(), (arg(t, 5, 4), arg(t, 3, 4, 2), _ENDS)) for t in (F32, F64, F16, BF16, I32)),
    *(
        Sample(GroupedMatMul(BF16), (arg(a, 5, 3), arg(b, 3, 3, 4), _ENDS))
        for a in (F32, BF16)
        for b in (F32, BF16)
    ),
    Sample(GroupedMatMul(), (arg(F32, _M, _K), arg(F32, 3, _K, 7), arg(I64, 3, values=(0, 2, 2)))),
    Sample(GroupedMatMul(), (arg(F32, 5, 4), arg(F32, 3, 4, 2), arg(I64, 3, values=(3, 2, 5)))),
    Sample(GroupedMatMul(), (arg(F32, 0, 4), arg(F32, 1, 4, 2), arg(I64, 1, values=(0,)))),
    Sample(GroupedMatMul(), (arg(F32, 3, 0), arg(F32, 1, 0, 2), arg(I64, 1, values=(3,)))),
    Sample(GroupedMatMul(), (arg(F32, 3, 4), arg(F32, 0, 4, 2), arg(I64, 0))),
    Sample(GroupedMatMul(F16), (arg(F16, 3, 4), arg(F16, 1, 4, 2), arg(I32, 1)), "the precision f16 is not"),
    Sample(GroupedMatMul(), (arg(F32, 3, 4), arg(F32, 4, 2), arg(I32, 1)), "must be 2, 3 and 1"),
    Sample(GroupedMatMul(), (arg(F32, 3, 4), arg(F32, 3, 5, 2), _ENDS), "4 and 5 differ"),
    Sample(GroupedMatMul(), (arg(F32, 3, 4), arg(F32, 2, 4, 2), _ENDS), "2 and 3 differ"),
    Sample(GroupedMatMul(), (arg(F32, 3, 4), arg(F32, 1, 4, 2), arg(F32, 1)), "the vector of ends is f32"),
    Sample(GroupedMatMul(), (arg(F32, 3, 4), arg(F64, 1, 4, 2), arg(I32, 1)), "one dtype"),
)


def _export(e: Exporter, op: GroupedMatMul, a: Value, b: Value, ends: Operand) -> Any:
    """A Slice and a MatMul for each group, and the Concat of their results and zeros."""
    refuse_others(op, ())
    groups, _, n = b.type.dims
    if not isinstance(groups, int):
        raise CannotExport(f"ONNX cannot express a grouped product with {groups} groups")
    ends, zero, parts = e.cast(ends, I64), e.const(np.zeros(1, np.int64)), []
    begin = axes = zero
    for group in range(groups):
        last = e.emit("Gather", ends, e.const(np.array([group])))
        end = e.emit("Max", begin, last, since=12)
        taken = e.emit("Slice", a, begin, end, axes, since=10)
        parts.append(e.emit("MatMul", taken, e.emit("Gather", b, e.const(np.array(group)))))
        begin = end
    rest = e.emit("Sub", e.sizes(a.type.dims[:1]), begin)
    shape = e.emit("Concat", rest, e.sizes((n,)), axis=0)
    zeros = e.emit("Expand", e.const(np.zeros((), a.type.dtype.numpy)), shape, since=8)
    return e.emit("Concat", *parts, zeros, axis=0)


GroupedMatMul.to_onnx = _export


def _aten_grouped_mm(i: AtenImporter) -> Any:
    """Groups of rows of a matrix, or of a batch of matrices, which need no ends."""
    a, b, ends = i.input(0), i.input(1), i.optional(2)
    ranks = len(a.type.dims), len(b.type.dims)
    if i.optional(3) is not None:
        raise i.fail("grouped_mm with a bias is not supported")
    if ranks == (3, 3):
        return i.emit(MatMul(), a, b)
    if ranks != (2, 3):
        raise i.fail(f"grouped_mm of operands with {ranks[0]} and {ranks[1]} axes is not supported")
    return i.emit(GroupedMatMul(), a, b, ends)


GroupedMatMul.aten = {
    "_grouped_mm": _aten_grouped_mm,
    "transformers.grouped_mm_fallback": lambda i: i.emit(GroupedMatMul(), i.input(0), i.input(1), i.input(2)),
}
