"""Products with quantized weights: MatMulNBits by the library's GEMM, which decodes them."""

from __future__ import annotations

from functools import partial
from math import prod

from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.graph import Node, Value
from graphwright.ir.symbols import numbers, product
from graphwright.ir.types import F32, U8, Layout
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.contractions import Contraction, contraction, without_epilogue
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.gemm import nbits, nbits_bytes, nbits_gemm, problem
from graphwright.kernels.launch import Launch
from graphwright.kernels.library.bits import single_bits
from graphwright.layout.transform import packed_shape
from graphwright.ops.quantized.matmul_nbits import MatMulNBits


def _weights_are_constant(node: Node) -> bool:
    return all(v is None or is_constant(v) for v in node.inputs[1:])


candidate(MatMulNBits, serves=_weights_are_constant)(without_epilogue)


def _groups(node: Node) -> tuple[int, int]:
    """There is no batch: all axes of A except the last are rows."""
    return 0, len(node.output.type.dims) - 1


@contraction(MatMulNBits, _groups, channel_axis=-1)
def product_of_codes(call: Contraction[MatMulNBits], context: Context) -> Launch | str:
    """f32 times constant weights of 2, 4 or 8 bits, which the kernel decodes."""
    op, (a, codes, scales), rest = call.node.op, map(call.operand, range(3)), call.operands[3:]
    if a.type.dtype != F32:
        return f"no GEMM for {a.type.dtype}"
    zeros = rest[0] if rest else None
    if any(v is not None and context.constant(v) is None for v in (codes, scales, zeros)):
        return "its weights are not constant"
    if zeros is not None and zeros.type.dtype == U8 and _largest(zeros, context) >> op.bits:
        return "its zero points exceed the range of the codes"
    m, k, n = product(a.type.dims[:-1]), a.type.dims[-1], codes.type.dims[0]
    layout, epilogue = nbits.panels(problem.panel_columns(context.isa)), call.epilogue
    result_strides = (m * n, m * n, n, 1)
    args = problem.GemmArgs(*(
        1, 1, m, n, k, 0, 0, k, 1, 0, 0, 0, 0, 0, 1, *result_strides, *result_strides,
        *epilogue.args, single_bits(epilogue.scale),
    ))  # fmt: skip
    has_floats = zeros is not None and zeros.type.dtype == F32
    is_dynamic = op.allows_bytes and context.numerics != "strict"
    own = nbits_gemm.CodesArgs(op.bits, op.block, int(has_floats), int(is_dynamic))
    read = {"scales": scales, "zeros": zeros}
    packed = {name: v if v is None else context.packed(v, layout) for name, v in read.items()}
    packed["codes"] = _packed(codes, op.bits, layout, context)
    return call.launch(
        nbits_gemm.SYMBOL,
        nbits_gemm.ABI.ordered(a=a, **packed, bias=epilogue.bias, residual=epilogue.residual, c=call.result),
        (*args, *own),
        problem.grid(context.isa, args),
        nbits_gemm.scratch_bytes(context.isa, args, own),
        nbits_gemm.work_ns(context.isa, args, own),
    )


def _packed(codes: Value, bits: int, layout: Layout, context: Context) -> Value:
    if bits < 8:
        return context.packed(codes, layout)
    rows, words = numbers(codes.type.dims)
    size = prod(packed_shape((rows, 4 * words), layout))
    fill = partial(nbits_bytes.pack, layout=layout)
    return context.derived(codes, "bytes", (size,), fill, U8)


def _largest(value: Value, context: Context) -> int:
    array = context.constant(value)
    return 0 if array is None or not array.size else int(array.max())
