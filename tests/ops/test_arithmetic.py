"""The numbers of multiplications and additions that ops report, compared with those that NumPy performs."""

from __future__ import annotations

import pytest

from graphwright import ops
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.arithmetic import Arithmetic, operations_of
from graphwright.ir.op import Op, Trait, registered_ops
from graphwright.ir.types import BF16, F32, I8, U8, U32, DType, TensorType
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.nn.attention import HEADS_INSIDE, ScaledDotProductAttention
from graphwright.ops.nn.channels_last_conv import ChannelsLastConv
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.conv_weight_gradient import ConvWeightGradient
from graphwright.ops.nn.lstm import LSTM
from graphwright.ops.nn.scaled_conv import ScaledConv
from graphwright.ops.quantized.conv_integer import ConvInteger
from graphwright.ops.quantized.matmul_integer import MatMulInteger
from graphwright.ops.quantized.matmul_nbits import MatMulNBits

ops.load()
CASES: list[tuple[Op, list[tuple[DType, tuple[int, ...]]], tuple[int, ...], int]] = [
    (MatMul(), [(F32, (4,)), (F32, (4,))], (), 2 * 4),
    (MatMul(), [(F32, (2, 1, 3, 5)), (F32, (7, 5, 4))], (2, 7, 3, 4), 2 * (2 * 7 * 3 * 4) * 5),
    (MatMul(BF16), [(F32, (3, 5)), (BF16, (5, 0))], (3, 0), 0),
    (Gemm(trans_a=True, trans_b=True), [(F32, (5, 3)), (F32, (4, 5))], (3, 4), 2 * 3 * 4 * 5),
    (Conv(group=2), [(F32, (1, 4, 7)), (F32, (6, 2, 3))], (1, 6, 5), 2 * (6 * 5) * (2 * 3)),
    (Conv(), [(F32, (2, 3, 5, 5)), (F32, (8, 3, 1, 1))], (2, 8, 5, 5), 2 * (2 * 8 * 25) * 3),
    (ScaledConv(), [(F32, (1, 4, 2, 2)), (F32, (6, 4, 1, 1)), (F32, (1, 4, 1, 1))], (1, 6, 2, 2), 2 * 24 * 4),
    (ChannelsLastConv(), [(F32, (1, 5, 5, 4)), (F32, (8, 4, 3, 3))], (1, 3, 3, 8), 2 * (9 * 8) * (4 * 9)),
    (ConvTranspose(), [(F32, (1, 4, 5)), (F32, (4, 3, 2))], (1, 3, 6), 2 * (4 * 5) * (3 * 2)),
    (ConvWeightGradient((2,)), [(F32, (1, 4, 5)), (F32, (1, 3, 4))], (3, 4, 2), 2 * (3 * 4) * (4 * 2)),
    (ConvInteger(), [(U8, (1, 3, 4, 4)), (I8, (2, 3, 2, 2))], (1, 2, 3, 3), 2 * (2 * 9) * (3 * 4)),
    (MatMulInteger(), [(U8, (3, 5)), (I8, (5, 4))], (3, 4), 2 * 12 * 5),
    (MatMulNBits(4, 32), [(F32, (3, 64)), (U32, (10, 8)), (F32, (10, 2))], (3, 10), 2 * 30 * 64),
    (LSTM(6), [(F32, (7, 2, 5)), (F32, (1, 24, 5)), (F32, (1, 24, 6))], (7, 1, 2, 6), 2 * 14 * 24 * 11),
    (
        ScaledDotProductAttention(q_axes=HEADS_INSIDE),
        [(F32, (1, 5, 4, 8)), (F32, (1, 2, 9, 8)), (F32, (1, 2, 9, 3))],
        (1, 4, 5, 3),
        2 * (4 * 5 * 9) * (8 + 3),
    ),
]
"""Op, operands, result, and operations: two for each product of two elements."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
def test_operations_by_hand(
    case: tuple[Op, list[tuple[DType, tuple[int, ...]]], tuple[int, ...], int],
) -> None:
    op, operands, result, operations = case
    values = [Value(TensorType(dtype, shape)) for dtype, shape in operands]
    node = Node(op, values, [TensorType(F32, result)] * op.output_count())
    assert operations_of(node) == operations


def test_contractions_implement_the_interface_arithmetic() -> None:
    found = {name for name, each in registered_ops().items() if Trait.CONTRACTION in each.traits}
    assert len(found) >= 8
    assert found == {name for name in found if issubclass(registered_ops()[name], Arithmetic)}
