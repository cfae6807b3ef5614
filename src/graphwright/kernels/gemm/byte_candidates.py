"""GEMM of bytes: MatMulInteger by a library kernel."""

from __future__ import annotations

from graphwright.ir.graph import Node, Value
from graphwright.ir.op import Array
from graphwright.ir.symbols import Dim, product
from graphwright.ir.types import I8, U8, TensorType
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.contractions import Contraction, contraction, without_epilogue
from graphwright.kernels.candidates.epilogues import Epilogue
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.gemm import byte_gemm
from graphwright.kernels.gemm.candidates import matmul_groups, two_batch_axes
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.ref import KernelRef
from graphwright.ops.quantized.matmul_integer import MatMulInteger
from graphwright.ops.quantized.quantized import is_single
from graphwright.records import dataclass


@dataclass(frozen=True)
class _Product:
    """The layout of the operands of a product: sizes, and strides in elements (of b: in matrices)."""

    batches: tuple[Dim, Dim]
    m: Dim
    n: Dim
    k: Dim
    a_batch: tuple[Dim, Dim]
    b_batch: tuple[Dim, Dim]
    a_zero: tuple[Dim, Dim, Dim]
    b_zero: tuple[Dim, Dim, Dim]


def _product(node: Node) -> _Product | str:
    """The layout of a MatMulInteger's operands, or the reason why the kernel does not support them."""
    a, b = (node.operand(k).type for k in (0, 1))
    a_zero, b_zero = (node.inputs[k] if len(node.inputs) > k else None for k in (2, 3))
    if any(t.shape is None for t in (a, b)) or any(
        z is not None and z.type.shape is None for z in (a_zero, b_zero)
    ):
        return "a rank is not known"
    a_dims = a.dims if len(a.dims) > 1 else (1, *a.dims)
    b_dims = b.dims if len(b.dims) > 1 else (*b.dims, 1)
    m, k, n = a_dims[-2], a_dims[-1], b_dims[-1]
    rows = a_zero is None or is_single(a_zero.type.dims) or a_zero.type.elements == product(a_dims[:-1])
    if product(b_dims[:-2]) == 1 and rows:  # B is shared by the batch, so the batch of A is treated as rows
        a_dims, b_dims = (product(a_dims[:-1]), k), b_dims[-2:]
        m = a_dims[0]
    batch = two_batch_axes(a_dims[:-2], b_dims[:-2])
    if isinstance(batch, str):
        return batch
    batches, a_batch, b_batch = batch
    of_a, of_b = _zero_steps(a_zero, m, a_batch, a_dims[:-2]), _zero_steps(b_zero, n, b_batch, b_dims[:-2])
    if of_a is None or of_b is None:
        return "its zero points are broadcast along some axes"
    return _Product(batches, m, n, k, a_batch, b_batch, of_a, of_b)


def _zero_steps(
    zero: Value | None, size: Dim, batch: tuple[Dim, Dim], outer: tuple[Dim, ...]
) -> tuple[Dim, Dim, Dim] | None:
    """Strides of zero points along two batch axes and the rows (or columns), for one zero point, one per row,
    or one per row and batch.
    """
    if zero is None or is_single(zero.type.dims):
        return 0, 0, 0
    if zero.type.elements == size and (len(zero.type.dims) == 1 or product(outer) == 1):
        return 0, 0, 1
    if zero.type.elements == product(outer) * size:
        return batch[0] * size, batch[1] * size, 1
    return None


def _multiplies(node: Node) -> bool:
    return not isinstance(_product(node), str)


candidate(MatMulInteger, serves=_multiplies)(without_epilogue)


@contraction(MatMulInteger, matmul_groups, channel_axis=-1)
def byte_product(call: Contraction, context: Context) -> Launch | Run | str:
    """Multiplies bytes to i32. B is packed at compile time if it is constant, else by a launch."""
    if call.epilogue != Epilogue():
        return "the kernel cannot add or clip when it stores"
    found = _product(call.node)
    if isinstance(found, str):
        return found
    a, b, zeros = call.operand(0), call.operand(1), call.operands[2:]
    isa = context.isa
    matrix, signed = byte_gemm.packed_bytes(isa, found.k, found.n), int(b.type.dtype == I8)
    packed, preparation = _panels(b, found, context)
    a_zero, b_zero = (*zeros, None, None)[:2]
    m, n, k = found.m, found.n, found.k
    args = byte_gemm.ByteGemmArgs(*(
        *found.batches, m, n, k,
        *(step * m * k for step in found.a_batch), k, *(step * matrix for step in found.b_batch),
        found.batches[1] * m * n, m * n, n, *found.a_zero, *found.b_zero,
        int(a.type.dtype == I8), signed,
    ))  # fmt: skip
    launch = call.launch(
        byte_gemm.SYMBOL,
        byte_gemm.ABI.ordered(a=a, b=packed, a_zero=a_zero, b_zero=b_zero, c=call.result),
        args,
        byte_gemm.grid(isa, args),
        byte_gemm.scratch_bytes(isa, args),
        byte_gemm.work_ns(isa, args),
    )
    if preparation is None:
        return launch
    return Run((preparation, launch), temporaries=(packed,))


def _panels(b: Value, found: _Product, context: Context) -> tuple[Value, Launch | None]:
    """B in panels: packed once if it is constant, else by a launch before each product."""
    isa, matrices = context.isa, product(b.type.dims[:-2])
    size = matrices * byte_gemm.packed_bytes(isa, found.k, found.n)
    if context.constant(b) is not None and isinstance(size, int):
        columns = (*b.type.sizes, 1) if len(b.type.dims) == 1 else b.type.sizes

        def fill(out: Array, array: Array) -> None:
            byte_gemm.pack(out, array.reshape(columns), isa)

        return context.derived(b, "byte panels", (size,), fill), None
    target = Value(TensorType(U8, (size,)), "panels")
    args = byte_gemm.BytePackArgs(matrices, found.k, found.n, int(b.type.dtype == I8))
    grid, work = byte_gemm.pack_grid(isa, args), byte_gemm.pack_work_ns(isa, args)
    operands = byte_gemm.PACK_ABI.ordered(b=b, panels=target)
    return target, Launch(KernelRef(byte_gemm.PACK), operands, (1,), tuple(args), grid, work=work)
