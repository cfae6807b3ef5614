"""GroupedMatMulNBits: a grouped matrix multiplication with packed weights, for quantized experts."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Node
from graphwright.ir.interfaces.arithmetic import Arithmetic, product_operations
from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import Dim, ceildiv, symbol
from graphwright.ir.types import BF16, F16, F32, I32, I64, U8, U32, TensorType
from graphwright.ops.core.checks import need_dtype, same_dtype
from graphwright.ops.core.grouped_matmul import GroupedMatMul
from graphwright.ops.core.references import quiet
from graphwright.ops.quantized.matmul_nbits import (
    WORD,
    MatMulNBits,
    check_scales,
    sample_codes,
    sample_scales,
)
from graphwright.ops.quantized.quantized import SCALES


@op("GroupedMatMulNBits")
class GroupedMatMulNBits(Arithmetic, Op):
    """Multiplies consecutive groups of the rows of ``a[M, K]`` by one matrix each of packed weights.

    Operands: a; the codes u32[G, N, words] and their scales [G, N, blocks], as in :class:`MatMulNBits` for
    each group; the ends of the groups [G], as in :class:`GroupedMatMul`; and optionally the zero points
    [G, N, blocks].
    """

    bits: int = 4
    block: int = 32
    accuracy_level: int = 0
    optional_inputs = frozenset({4})

    @property
    def product(self) -> MatMulNBits:
        """The product of one group."""
        return MatMulNBits(self.bits, self.block, self.accuracy_level)

    def verify(self) -> None:
        self.product.verify()

    def infer(
        self, at: Inference, a: Fact, codes: Fact, scales: Fact, ends: Fact, zeros: Fact | None = None
    ) -> TensorType:
        need_dtype(at, a, SCALES, "a")
        same_dtype(at, a, scales)
        need_dtype(at, codes, {U32}, "the codes")
        need_dtype(at, ends, {I32, I64}, "the vector of ends")
        if (a.rank, codes.rank, ends.rank) != (2, 3, 1):
            raise at.fail(
                f"operands of {a.type}, {codes.type} and {ends.type}: their ranks must be 2, 3 and 1"
            )
        groups, n, words = codes.shape
        blocks = ceildiv(a.shape[1], self.block)
        at.equal(words, blocks * (self.block * self.bits // WORD), "words in a row of packed weights")
        at.equal(groups, ends.shape[0], "matrices and ends of groups")
        check_scales(at, {"groups": groups, "rows": n, "blocks": blocks}, scales, zeros)
        return TensorType(a.dtype, (a.shape[0], n))

    def operations(self, node: Node) -> Dim:
        return product_operations(node)

    @quiet
    def reference(
        self, a: Array, codes: Array, scales: Array, ends: Array, zeros: Array | None = None
    ) -> Array:
        k, own = a.shape[1], self.product
        given: Any = [None] * len(codes) if zeros is None else zeros
        groups = zip(codes, scales, given, strict=True)
        matrices = [own.weights(k, *group).T for group in groups]
        weights = np.array(matrices, np.float32).reshape(len(codes), k, codes.shape[1])
        return np.asarray(GroupedMatMul().reference(a, weights, ends))


_ENDS, _M = arg(I64, 2, values=(1, 4)), symbol("M")
_ZEROS = arg(U8, 2, 7, 2, values=tuple(7 * i % 16 for i in range(28)))
_BY_4 = GroupedMatMulNBits(4, 16)
GroupedMatMulNBits.samples = (
    *(
        Sample(
            GroupedMatMulNBits(bits, 16),
            (arg(F32, 5, 40), sample_codes(bits, 2, 5, 3 * bits // 2), sample_scales(F32, 2, 5, 3), _ENDS),
        )
        for bits in (2, 4, 8)
    ),
    *(
        Sample(
            GroupedMatMulNBits(),
            (arg(t, 4, 64), sample_codes(4, 2, 7, 8), sample_scales(t, 2, 7, 2), _ENDS, _ZEROS),
        )
        for t in (F32, F16, BF16)
    ),
    Sample(
        GroupedMatMulNBits(),
        (
            arg(F32, _M, 32),
            sample_codes(4, 2, 50, 4),
            sample_scales(F32, 2, 50, 1),
            arg(I32, 2, values=(0, 1)),
        ),
    ),
    Sample(
        _BY_4,
        (arg(F32, 0, 16), sample_codes(4, 1, 3, 2), sample_scales(F32, 1, 3, 1), arg(I32, 1, values=(0,))),
    ),
    Sample(GroupedMatMulNBits(3), (), "the number of bits is 3"),
    Sample(_BY_4, (arg(F32, 3, 40), arg(U32, 2, 5, 5), arg(F32, 2, 5, 3), _ENDS), "words in a row"),
    Sample(_BY_4, (arg(F32, 3, 16), arg(U32, 5, 2), arg(F32, 5, 1), _ENDS), "must be 2, 3 and 1"),
    Sample(_BY_4, (arg(F32, 3, 16), arg(U32, 2, 5, 2), arg(F32, 2, 5), _ENDS), "must have 3 axes"),
    Sample(
        _BY_4,
        (arg(F32, 3, 16), arg(U32, 2, 5, 2), arg(F32, 2, 4, 1), _ENDS),
        "rows of the scales",
    ),
    Sample(_BY_4, (arg(F32, 3, 16), arg(U32, 3, 5, 2), arg(F32, 3, 5, 1), _ENDS), "3 and 2 differ"),
)
