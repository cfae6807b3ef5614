"""Grouped matrix multiplications in f32, and in bf16 with f32 sums."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.ir.types import BF16, F32
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.gemm import bf16_gemm, gemm, grouped_gemm, problem
from graphwright.kernels.gemm.candidates import packed_panels
from graphwright.kernels.gemm.grouped_gemm import GroupedArgs
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.movement.indexing_candidates import check
from graphwright.kernels.ref import KernelRef
from graphwright.ops.core.grouped_matmul import GroupedMatMul


@candidate(GroupedMatMul)
def grouped_matmul(node: Node[GroupedMatMul], context: Context) -> Run | str:
    """A grouped GEMM; constant matrices are packed."""
    a, b, ends, in_bf16 = *map(node.operand, range(3)), node.op.precision == BF16
    if not in_bf16 and a.type.dtype != F32:
        return f"no grouped GEMM for {a.type.dtype}"
    (m, k), (groups, _, n), isa = a.type.dims, b.type.dims, context.isa
    packed = context.constant(b) is not None
    args = GroupedArgs(groups, m, n, k, ends.type.dtype.bytes)
    product, similar = grouped_gemm.product(args), grouped_gemm.similar_product(args, packed=packed)
    kernels, times = (bf16_gemm, bf16_gemm) if in_bf16 else (gemm, problem)
    singles = (int(a.type.dtype == F32), int(not packed and b.type.dtype == F32)) if in_bf16 else ()
    launch = Launch(
        KernelRef(kernels.GROUPED_PACKED if packed else kernels.GROUPED),
        (a, packed_panels(b, context, in_pairs=in_bf16) if packed else b, ends, node.output),
        (3,),
        (*args, *singles),
        grouped_gemm.grid(isa, args),
        times.scratch_bytes(isa, product, packed=packed),
        times.work_ns(isa, similar),
    )
    return Run((*check(ends, (m + 1,), node.output, context, from_end=False), launch))
