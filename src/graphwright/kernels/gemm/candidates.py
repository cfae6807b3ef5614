"""Matrix multiplications in f32, and in bf16 with f32 sums."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.graph import Node, Value
from graphwright.ir.symbols import Dim, product
from graphwright.ir.types import BF16, F32, Layout
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.contractions import Contraction, contraction, without_epilogue
from graphwright.kernels.candidates.epilogues import Epilogue
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.gemm import bf16_gemm, dual_gemm, gemm, problem
from graphwright.kernels.launch import Launch
from graphwright.kernels.library.bits import single_bits
from graphwright.kernels.ref import KernelRef
from graphwright.kernels.strides import row_major_strides
from graphwright.ops.core.matmul import MatMul
from graphwright.records import replace
from graphwright.targets.cpu.isa import Isa

candidate(MatMul)(without_epilogue)


def matmul_groups(node: Node) -> tuple[int, int]:
    """Leading dims are batch, then M, then N; a vector operand has no dim of its own in the output. If the
    batch shares one B, the batch of A is treated as rows (see :func:`matmul`).
    """
    rank = len(node.output.type.dims)
    a, b = (node.operand(p).type.dims for p in (0, 1))
    columns = int(len(b) > 1)
    if product(b[:-2]) == 1:
        return 0, rank - columns
    return rank - int(len(a) > 1) - columns, int(len(a) > 1)


@contraction(MatMul, matmul_groups, channel_axis=-1)
def matmul(call: Contraction[MatMul], context: Context) -> Launch | str:
    """A GEMM in f32 or bf16 with up to two batch axes. A constant B is packed, or transposed if it has few
    columns.
    """
    if call.second is not None:
        return _dual(call, call.second, context)
    a, b, in_bf16 = call.operand(0), call.operand(1), call.node.op.precision == BF16
    if not in_bf16 and a.type.dtype != F32:
        return f"no GEMM for {a.type.dtype}"
    epilogue = call.epilogue
    if epilogue.bias is not None and len(b.type.dims) == 1:
        return "its bias has one element per row, not per column"
    a_shape, b_shape = _matrices(a.type.dims, b.type.dims)
    m, k, n = a_shape[-2], a_shape[-1], b_shape[-1]
    batch = two_batch_axes(a_shape[:-2], b_shape[:-2])
    if isinstance(batch, str):
        return batch
    constant = len(b_shape) == 2 and context.constant(b) is not None
    narrow = constant and not in_bf16 and problem.is_narrow(n, k)
    packed = constant and not narrow
    b_strides: tuple[Dim, Dim] = (n, 1)
    if packed:
        b = packed_panels(b, context, in_pairs=in_bf16)
    elif narrow:
        b, b_strides = _along_k(b, context), (1, k)
    args = _gemm_args(m, k, n, batch, b_strides, epilogue)
    operands = problem.ABI.ordered(a=a, b=b, bias=epilogue.bias, residual=epilogue.residual, c=call.result)
    if in_bf16:
        return _launch_in_bf16(call, args, operands, packed, context.isa)
    return call.launch(
        gemm.PACKED if packed else gemm.UNPACKED,
        operands,
        args,
        problem.grid(context.isa, args),
        problem.scratch_bytes(context.isa, args, packed=packed),
        problem.work_ns(context.isa, args),
    )


def _gemm_args(
    m: Dim, k: Dim, n: Dim, batch: BatchAxes, b_strides: tuple[Dim, Dim], epilogue: Epilogue
) -> problem.GemmArgs:
    """The arguments of a GEMM of row-major operands, except B, which has ``b_strides``."""
    batches, a_batch, b_batch = batch
    result_strides = (batches[1] * m * n, m * n, n, 1)
    return problem.GemmArgs(*(
        *batches, m, n, k,
        *(stride * m * k for stride in a_batch), k, 1,
        *(stride * k * n for stride in b_batch), *b_strides,
        0, 1, *result_strides, *result_strides,
        *epilogue.args, single_bits(epilogue.scale),
    ))  # fmt: skip


def _matrices(a: Sequence[Dim], b: Sequence[Dim]) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """The shapes of A and B as matrices with batch axes: a vector becomes a single row or column. If the
    batch shares B, the batch axes of A are treated as rows.
    """
    rows = (1, *a) if len(a) == 1 else tuple(a)
    columns = (*b, 1) if len(b) == 1 else tuple(b)
    if product(columns[:-2]) == 1:
        return (product(rows[:-2]) * rows[-2], rows[-1]), columns[-2:]
    return rows, columns


def _dual(call: Contraction[MatMul], second: Value, context: Context) -> Launch | str:
    """A dual GEMM in f32 or bf16: two products of one left factor with constant matrices of the same size."""
    a, b, in_bf16, isa = call.operand(0), call.operand(1), call.node.op.precision == BF16, context.isa
    if b.type != second.type or len(b.type.dims) != 2 or not (is_constant(b) and is_constant(second)):
        return f"no GEMM of {a.type} with {b.type} and {second.type} at once"
    if not in_bf16 and a.type.dtype != F32:
        return f"no GEMM for {a.type.dtype}"
    k, n = b.type.dims
    args = dual_gemm.DualArgs(product(a.type.dims[:-1]), n, k)
    symbol, kernels = (bf16_gemm.DUAL, bf16_gemm) if in_bf16 else (gemm.DUAL, problem)
    panels = (packed_panels(each, context, in_pairs=in_bf16) for each in (b, second))
    return Launch(
        KernelRef(symbol),
        (a, *panels),
        (),
        (*args, int(a.type.dtype == F32)) if in_bf16 else tuple(args),
        dual_gemm.grid(isa, args),
        kernels.scratch_bytes(isa, dual_gemm.panels(isa, args), packed=True),
        kernels.work_ns(isa, dual_gemm.product(args)),
        takes_hook=True,
        hook=call.hook,
    )


def _launch_in_bf16(
    call: Contraction[MatMul],
    args: problem.GemmArgs,
    operands: tuple[Value | None, ...],
    packed: bool,
    isa: Isa,
) -> Launch:
    args = replace(args, b_k=0, b_n=0) if packed else args
    singles = (int(call.operand(0).type.dtype == F32), int(not packed and call.operand(1).type.dtype == F32))
    return call.launch(
        bf16_gemm.PACKED if packed else bf16_gemm.UNPACKED,
        operands,
        (*args, *singles),
        problem.grid(isa, args),
        bf16_gemm.scratch_bytes(isa, args, packed=packed),
        bf16_gemm.work_ns(isa, args),
    )


def packed_panels(b: Value, context: Context, *, in_pairs: bool) -> Value:
    """The packed constant B: matrices [..., K, N], or a vector [K]."""
    rank, panels = len(b.type.dims), bf16_gemm.panels if in_pairs else gemm.panels
    return context.packed(b, panels(max(rank, 2), context.isa), (*b.type.sizes, 1) if rank == 1 else None)


def _along_k(b: Value, context: Context) -> Value:
    """The constant B transposed to [N, K], for dot products."""
    rank = len(b.type.dims)
    if rank == 1 or b.type.dims[-1] == 1:
        return b
    return context.packed(b, Layout((*range(rank - 2), rank - 1, rank - 2)))


BatchAxes = tuple[tuple[Dim, Dim], tuple[Dim, Dim], tuple[Dim, Dim]]
"""The sizes of two batch axes, and the strides of A and of B along them, in matrices."""


def two_batch_axes(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> BatchAxes | str:
    """The batch axes ``a`` and ``b`` of both operands, broadcast and joined to two; or why they cannot be."""
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    a_steps, b_steps = _steps(a), _steps(b)
    axes: list[tuple[Dim, Dim, Dim]] = []
    for size_a, size_b, step_a, step_b in zip(a, b, a_steps, b_steps, strict=True):
        size = size_b if size_a == 1 else size_a
        if size == 1:
            continue
        if axes and axes[-1][1] == step_a * size and axes[-1][2] == step_b * size:
            axes[-1] = (axes[-1][0] * size, step_a, step_b)
        else:
            axes.append((size, step_a, step_b))
    if len(axes) > 2:
        return "its operands are broadcast along more than two batch axes"
    (n0, a0, b0), (n1, a1, b1) = [(1, 0, 0)] * (2 - len(axes)) + axes
    return (n0, n1), (a0, a1), (b0, b1)


def _steps(batch: tuple[Dim, ...]) -> list[Dim]:
    """Strides along batch axes, in matrices; 0 where the operand is broadcast."""
    strides = row_major_strides(batch)
    return [0 if size == 1 else stride for size, stride in zip(batch, strides, strict=True)]
