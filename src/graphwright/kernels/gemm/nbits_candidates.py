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
from graphwright.kernels.gemm import grouped_gemm, nbits, nbits_bytes, nbits_gemm, problem
from graphwright.kernels.gemm.grouped_gemm import GroupedArgs
from graphwright.kernels.gemm.nbits_gemm import CodesArgs
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.library.bits import single_bits
from graphwright.kernels.movement.indexing_candidates import check
from graphwright.kernels.ref import KernelRef
from graphwright.layout.transform import packed_shape
from graphwright.ops.quantized.grouped_matmul_nbits import GroupedMatMulNBits
from graphwright.ops.quantized.matmul_nbits import MatMulNBits


def _weights_are_constant(node: Node) -> bool:
    """Whether all operands are, except for A and, of a grouped product, the ends."""
    variable = {0, 3} if isinstance(node.op, GroupedMatMulNBits) else {0}
    return all(v is None or is_constant(v) for p, v in enumerate(node.inputs) if p not in variable)


candidate(MatMulNBits, serves=_weights_are_constant)(without_epilogue)


def _groups(node: Node) -> tuple[int, int]:
    """There is no batch: all axes of A except the last are rows."""
    return 0, len(node.output.type.dims) - 1


@contraction(MatMulNBits, _groups, channel_axis=-1)
def product_of_codes(call: Contraction[MatMulNBits], context: Context) -> Launch | str:
    """f32 times constant weights of 2, 4 or 8 bits, which the kernel decodes."""
    a, codes = call.operand(0), call.operand(1)
    zeros = call.operands[3] if len(call.operands) > 3 else None
    weights = _weights(call.node.op, a, codes, call.operand(2), zeros, context)
    if isinstance(weights, str):
        return weights
    own, packed = weights
    m, k, n, epilogue = product(a.type.dims[:-1]), a.type.dims[-1], codes.type.dims[0], call.epilogue
    result_strides = (m * n, m * n, n, 1)
    args = problem.GemmArgs(*(
        1, 1, m, n, k, 0, 0, k, 1, 0, 0, 0, 0, 0, 1, *result_strides, *result_strides,
        *epilogue.args, single_bits(epilogue.scale),
    ))  # fmt: skip
    return call.launch(
        nbits_gemm.SYMBOL,
        nbits_gemm.ABI.ordered(a=a, **packed, bias=epilogue.bias, residual=epilogue.residual, c=call.result),
        (*args, *own),
        problem.grid(context.isa, args),
        nbits_gemm.scratch_bytes(context.isa, args, own),
        nbits_gemm.work_ns(context.isa, args, own),
    )


@candidate(GroupedMatMulNBits, serves=_weights_are_constant)
def grouped_product_of_codes(node: Node[GroupedMatMulNBits], context: Context) -> Run | str:
    """Groups of rows in f32 times constant weights of 2, 4 or 8 bits each."""
    a, codes, scales, ends, isa = *map(node.operand, range(4)), context.isa
    zeros = node.inputs[4] if len(node.inputs) > 4 else None
    weights = _weights(node.op.product, a, codes, scales, zeros, context)
    if isinstance(weights, str):
        return weights
    own, packed = weights
    (m, k), (groups, n, _) = a.type.dims, codes.type.dims
    args = GroupedArgs(groups, m, n, k, ends.type.dtype.bytes)
    similar = grouped_gemm.similar_product(args, packed=True)
    launch = Launch(
        KernelRef(nbits_gemm.GROUPED),
        nbits_gemm.GROUPED_ABI.ordered(
            a=a, b=packed["codes"], ends=ends, c=node.output, scales=packed["scales"], zeros=packed["zeros"]
        ),
        nbits_gemm.GROUPED_ABI.positions("c"),
        (*args, *own),
        grouped_gemm.grid(isa, args),
        nbits_gemm.scratch_bytes(isa, grouped_gemm.product(args), own),
        similar.batch0 * nbits_gemm.work_ns(isa, similar, own),
    )
    return Run((*check(ends, (m + 1,), node.output, context, from_end=False), launch))


def _weights(
    op: MatMulNBits, a: Value, codes: Value, scales: Value, zeros: Value | None, context: Context
) -> tuple[CodesArgs, dict[str, Value | None]] | str:
    """The arguments of the codes, and the packed weights by name; or why no kernel takes them."""
    if a.type.dtype != F32:
        return f"no GEMM for {a.type.dtype}"
    if any(v is not None and context.constant(v) is None for v in (codes, scales, zeros)):
        return "its weights are not constant"
    if zeros is not None and zeros.type.dtype == U8 and _largest(zeros, context) >> op.bits:
        return "its zero points exceed the range of the codes"
    layout = nbits.panels(problem.panel_columns(context.isa), len(codes.type.dims))
    has_floats = zeros is not None and zeros.type.dtype == F32
    is_dynamic = op.allows_bytes and context.numerics != "strict"
    packed = {
        "codes": _packed(codes, op.bits, layout, context),
        "scales": context.packed(scales, layout),
        "zeros": None if zeros is None else context.packed(zeros, layout),
    }
    return CodesArgs(op.bits, op.block, int(has_floats), int(is_dynamic)), packed


def _packed(codes: Value, bits: int, layout: Layout, context: Context) -> Value:
    if bits < 8:
        return context.packed(codes, layout)
    *rows, words = numbers(codes.type.dims)
    size = prod(packed_shape((*rows, 4 * words), layout))
    fill = partial(nbits_bytes.pack, layout=layout)
    return context.derived(codes, "bytes", (size,), fill, U8)


def _largest(value: Value, context: Context) -> int:
    array = context.constant(value)
    return 0 if array is None or not array.size else int(array.max())
