"""Products and convolutions of bytes: MatMulInteger and ConvInteger by the library's kernels."""

from __future__ import annotations

from math import prod

from graphwright.ir.constant import is_constant
from graphwright.ir.graph import Array, Node, Value
from graphwright.ir.symbols import Dim, product
from graphwright.ir.types import I8, U8, TensorType
from graphwright.kernels.candidates.contractions import alone, matmul_groups, two_batch_axes
from graphwright.kernels.candidates.epilogues import Epilogue
from graphwright.kernels.candidates.registry import Context, Contraction, candidate, contraction
from graphwright.kernels.candidates.sliding import sliding
from graphwright.kernels.conv import byte_conv
from graphwright.kernels.gemm import byte_gemm
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.ref import KernelRef
from graphwright.ops.quantized.conv_integer import ConvInteger
from graphwright.ops.quantized.matmul_integer import MatMulInteger
from graphwright.ops.quantized.quantized import is_single
from graphwright.records import dataclass

_GROUP_CHANNELS = 4
"""Channels of a group, in and out, from which on the kernel does not multiply mostly padding."""


@dataclass(frozen=True)
class _Product:
    """How operands of a product lie: sizes, and strides in elements (of b in matrices)."""

    batches: tuple[Dim, Dim]
    m: Dim
    n: Dim
    k: Dim
    a_batch: tuple[Dim, Dim]
    b_batch: tuple[Dim, Dim]
    a_zero: tuple[Dim, Dim, Dim]
    b_zero: tuple[Dim, Dim, Dim]


def _product(node: Node) -> _Product | str:
    """The layout that the kernel takes of a MatMulInteger's operands, or the reason why it takes none."""
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
    if product(b_dims[:-2]) == 1 and rows:  # one B for all: the batch of A is rows
        a_dims, b_dims = (product(a_dims[:-1]), k), b_dims[-2:]
        m = a_dims[0]
    batch = two_batch_axes(a_dims[:-2], b_dims[:-2])
    if isinstance(batch, str):
        return batch
    batches, a_batch, b_batch = batch
    of_a, of_b = _zero_steps(a_zero, m, a_batch, a_dims[:-2]), _zero_steps(b_zero, n, b_batch, b_dims[:-2])
    if of_a is None or of_b is None:
        return "zero points that are broadcast along some axes"
    return _Product(batches, m, n, k, a_batch, b_batch, of_a, of_b)


def _zero_steps(
    zero: Value | None, size: Dim, batch: tuple[Dim, Dim], outer: tuple[Dim, ...]
) -> tuple[Dim, Dim, Dim] | None:
    """Strides along two batch axes and the rows (or columns): one for all, for each row, for each of all."""
    if zero is None or is_single(zero.type.dims):
        return 0, 0, 0
    if zero.type.elements == size and (len(zero.type.dims) == 1 or product(outer) == 1):
        return 0, 0, 1
    if zero.type.elements == product(outer) * size:
        return batch[0] * size, batch[1] * size, 1
    return None


def _multiplies(node: Node) -> bool:
    return not isinstance(_product(node), str)


candidate(MatMulInteger, serves=_multiplies)(alone)


@contraction(MatMulInteger, matmul_groups, channel_axis=-1)
def byte_product(call: Contraction, context: Context) -> Launch | Run | str:
    if call.epilogue != Epilogue():
        return "the kernel's store adds and clips nothing"
    found = _product(call.node)
    if isinstance(found, str):
        return found
    a, b, *zeros = call.operands
    assert a is not None and b is not None
    isa = context.isa
    matrix, signed = byte_gemm.packed_bytes(isa, found.k, found.n), int(b.type.dtype == I8)
    packed, preparation = _panels(b, found, context)
    a_zero, b_zero = (*zeros, None, None)[:2]
    m, n, k = found.m, found.n, found.k
    args = byte_gemm.ByteGemmArgs._make((
        *found.batches, m, n, k,
        *(step * m * k for step in found.a_batch), k, *(step * matrix for step in found.b_batch),
        found.batches[1] * m * n, m * n, n, *found.a_zero, *found.b_zero,
        int(a.type.dtype == I8), signed,
    ))  # fmt: skip
    launch = call.launch(
        byte_gemm.SYMBOL,
        (a, packed, a_zero, b_zero),
        args,
        byte_gemm.grid(isa, args),
        byte_gemm.scratch_bytes(isa, args),
        byte_gemm.work_ns(isa, args),
    )
    if preparation is None:
        return launch
    return Run((preparation, launch), temporaries=(packed,))


def _panels(b: Value, found: _Product, context: Context) -> tuple[Value, Launch | None]:
    """B in panels: a constant once, else by a launch in front of each product."""
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
    return target, Launch(KernelRef(byte_gemm.PACK), (b, target), (1,), args, grid, work=work)


def _convolves(node: Node) -> bool:
    return _conv_refusal(node) is None and is_constant(node.operand(1))


def _conv_refusal(node: Node) -> str | None:
    op, x, w = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, ConvInteger)
    if op.auto_pad or x.type.shape is None or len(x.type.dims) not in (3, 4, 5):
        return "no kernel for more than three spatial axes, or for pads that are not known"
    if not all(isinstance(d, int) for d in w.type.dims):
        return "the sizes of its weights are not known"
    cout, cin = w.type.sizes[:2]
    if op.group > 1 and min(cin, cout // op.group) < _GROUP_CHANNELS:
        return f"groups of {cin} to {cout // op.group} channels are mostly padding"
    return None


candidate(ConvInteger, serves=_convolves)(alone)


@contraction(ConvInteger, lambda node: (1, 1), channel_axis=1)
def byte_convolution(call: Contraction, context: Context) -> Run | str:
    """Quads of channels, then the convolution."""
    op, (x, w, *zeros) = call.node.op, call.operands
    assert isinstance(op, ConvInteger) and x is not None and w is not None
    if call.epilogue != Epilogue():
        return "the kernel's store adds and clips nothing"
    refusal = _conv_refusal(call.node)
    if refusal is not None or context.constant(w) is None:
        return refusal or "its weights are not constant"
    isa, groups = context.isa, op.group
    images, (features, cin, *kernel) = x.type.dims[0], w.type.sizes
    cout, taps = features // groups, prod(kernel)
    window, y_dims = op.conv.windows(w.type.dims[2:]), call.node.output.type.dims[2:]
    axes = sliding(window, x.type.dims[2:], y_dims).merged()
    x_signed, w_signed = int(x.type.dtype == I8), int(w.type.dtype == I8)
    x_zero, w_zero = (*zeros, None, None)[:2]
    whole = byte_conv.InterleaveArgs(images, groups, cin, product(axes.sizes), x_signed)
    quads = Value(TensorType(U8, (byte_conv.quads_bytes(whole),)), "quads")
    pixels = product(axes.counts)
    args = byte_conv.ByteConvArgs._make((
        images, groups, cin, cout, *axes.depth_height_width, groups * cout * pixels, pixels,
        int(w_zero is not None and not is_single(w_zero.type.dims)), x_signed, w_signed,
    ))  # fmt: skip
    weights = context.derived(
        w,
        f"byte tiles of {groups}",
        (byte_conv.packed_bytes(groups, cout, cin, taps),),
        lambda out, array: byte_conv.pack(out, array, groups),
    )
    interleave = Launch(
        KernelRef(byte_conv.INTERLEAVE), (x, quads), (1,), whole,
        byte_conv.interleave_grid(whole), work=byte_conv.interleave_work_ns(isa, whole),
    )  # fmt: skip
    convolution = call.launch(
        byte_conv.SYMBOL,
        (quads, weights, x_zero, w_zero),
        args,
        byte_conv.grid(isa, args),
        byte_conv.scratch_bytes(isa, args),
        byte_conv.work_ns(isa, args),
    )
    return Run((interleave, convolution), temporaries=(quads,))
