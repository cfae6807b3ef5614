"""MatMulNBits, a matrix multiplication with packed weights of 2, 4 or 8 bits (weight-only quantization)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphwright.ir.graph import Node
from graphwright.ir.interfaces.arithmetic import Arithmetic, product_operations
from graphwright.ir.op import (
    Array,
    AtenImporter,
    Fact,
    Inference,
    InferError,
    Op,
    Sample,
    Trait,
    arg,
    op,
)
from graphwright.ir.symbols import Dim, ceildiv, symbol
from graphwright.ir.types import BF16, F16, F32, I8, U8, U32, TensorType
from graphwright.ops.core.binary import Mul
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import need_dtype, same_dtype
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.references import quiet, widened
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.quantized.quantized import SCALES

WIDTHS = (2, 4, 8)
WORD = 32
BYTES = 4
"""The accuracy level at which kernels may round A to 8 bits."""
MIN_BLOCK = 16


@op("MatMulNBits")
class MatMulNBits(Arithmetic, Op):
    """``a[..., K] @ w.T`` with the weights w[N, K] = (codes - zeros) * scales.

    Operands: a; the codes, u32[N, words], with ``bits`` bits per element, the first element in the low bits;
    the scales [N, blocks]; and optionally the zero points [N, blocks], u8 or of the dtype of ``a``. By
    default, the zero point is the middle of the range of codes. A block is ``block`` elements along K, a
    power of two; the last block is padded. 16-bit floats are multiplied in f32. ``accuracy_level`` is that of
    ONNX Runtime's op of this name, which packs the codes as bytes: at level 4, kernels may round each block
    of A to 8 bits.
    """

    bits: int = 4
    block: int = 32
    accuracy_level: int = 0
    traits = Trait.CONTRACTION
    optional_inputs = frozenset({3})

    def verify(self) -> None:
        if self.bits not in WIDTHS:
            raise InferError(
                f"the number of bits is {self.bits}; it must be one of {', '.join(map(str, WIDTHS))}"
            )
        if self.block < MIN_BLOCK or self.block & (self.block - 1):
            raise InferError(
                f"the block size is {self.block}; it must be a power of two, at least {MIN_BLOCK}"
            )

    @property
    def middle(self) -> int:
        """The default zero point."""
        return 1 << (self.bits - 1)

    @property
    def allows_bytes(self) -> bool:
        return self.accuracy_level == BYTES

    def infer(
        self, at: Inference, a: Fact, codes: Fact, scales: Fact, zeros: Fact | None = None
    ) -> TensorType:
        need_dtype(at, a, SCALES, "a")
        same_dtype(at, a, scales)
        need_dtype(at, codes, {U32}, "the codes")
        if not a.rank or codes.rank != 2:
            raise at.fail(
                f"a is {a.type} and the codes {codes.type}; a must have an axis, and the codes 2 axes"
            )
        n, blocks = codes.shape[0], ceildiv(a.shape[-1], self.block)
        at.equal(
            codes.shape[1], blocks * (self.block * self.bits // WORD), "words in a row of packed weights"
        )
        check_scales(at, {"rows": n, "blocks": blocks}, scales, zeros)
        return TensorType(a.dtype, (*a.shape[:-1], n))

    def operations(self, node: Node) -> Dim:
        return product_operations(node)

    @quiet
    def reference(self, a: Array, codes: Array, scales: Array, zeros: Array | None = None) -> Array:
        weights = self.weights(a.shape[-1], codes, scales, zeros)
        return np.asarray(np.matmul(widened(a), weights.T)).astype(a.dtype)

    def weights(self, k: int, codes: Array, scales: Array, zeros: Array | None) -> Array:
        """The dequantized weights w[N, K] in f32."""
        numbers = unpacked(np.ascontiguousarray(codes).view(np.uint8), self.bits)[:, :k].astype(np.float32)
        zeros = np.full(scales.shape, self.middle) if zeros is None else zeros
        shift, factor = (np.repeat(x.astype(np.float32), self.block, 1)[:, :k] for x in (zeros, scales))
        return np.asarray((numbers - shift) * factor)


def check_scales(at: Inference, sizes: Mapping[str, Dim], scales: Fact, zeros: Fact | None) -> None:
    """Fails unless the scales, and the zero points if there are any, have an axis of each of ``sizes``."""
    if zeros is not None:
        need_dtype(at, zeros, {U8, scales.dtype}, "the zero points")
    for parameter, what in ((scales, "the scales"), (zeros, "the zero points")):
        if parameter is None:
            continue
        if parameter.rank != len(sizes):
            raise at.fail(f"{what} are {parameter.type}; they must have {len(sizes)} axes")
        for given, (axis, size) in zip(parameter.shape, sizes.items(), strict=True):
            at.equal(given, size, f"{axis} of {what}")


def unpacked(packed: Array, bits: int) -> Array:
    """The elements of ``bits`` bits in rows of bytes, those in the low bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    elements = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return np.asarray(elements.reshape(*packed.shape[:-1], packed.shape[-1] * len(shifts)))


def in_words(codes: Array, op: MatMulNBits) -> Array:
    """Codes u8[N, K], packed to the words of the operand of ``op``."""
    n, k = codes.shape
    padded = np.zeros((n, -(-k // op.block) * op.block), np.uint32)
    padded[:, :k] = codes
    parts = padded.reshape(n, padded.shape[1] * op.bits // WORD, WORD // op.bits)
    words = np.zeros(parts.shape[:2], np.uint32)
    for position in range(parts.shape[2]):
        words |= parts[..., position] << np.uint32(position * op.bits)
    return words


def sample_codes(seed: int, *shape: int) -> Any:
    """An operand of packed codes for samples."""
    size = int(np.prod(shape))
    return arg(U32, *shape, values=tuple((2654435761 * (i + seed)) % 2**32 for i in range(size)))


def _zeros(*shape: int) -> Any:
    return arg(U8, *shape, values=tuple(7 * i % 16 for i in range(int(np.prod(shape)))))


def sample_scales(dtype: Any, *shape: int) -> Any:
    """An operand of small floats for samples."""
    size = int(np.prod(shape))
    return arg(dtype, *shape, values=tuple(0.0625 * (i % 5 + 1) for i in range(size)))


_N = symbol("N")
MatMulNBits.samples = (
    *(
        Sample(
            MatMulNBits(b, 16), (arg(F32, 3, 40), sample_codes(b, 5, 3 * b // 2), sample_scales(F32, 5, 3))
        )
        for b in WIDTHS
    ),
    *(
        Sample(
            MatMulNBits(4, 32),
            (arg(t, 2, 3, 64), sample_codes(4, 7, 8), sample_scales(t, 7, 2), _zeros(7, 2)),
        )
        for t in (F32, F16, BF16)
    ),
    Sample(
        MatMulNBits(4, 16),
        (arg(F32, 16), sample_codes(4, 3, 2), sample_scales(F32, 3, 1), sample_scales(F32, 3, 1)),
    ),
    Sample(MatMulNBits(4, 32), (arg(F32, _N, 32), sample_codes(4, 50, 4), sample_scales(F32, 50, 1))),
    Sample(MatMulNBits(8, 16), (arg(F32, 0, 16), sample_codes(8, 3, 4), sample_scales(F32, 3, 1))),
    Sample(MatMulNBits(3), (), "the number of bits is 3"),
    Sample(MatMulNBits(4, 24), (), "the block size is 24"),
    Sample(
        MatMulNBits(4, 16),
        (arg(F32, 3, 40), arg(U32, 5, 5), arg(F32, 5, 3)),
        "words in a row of packed weights",
    ),
    Sample(MatMulNBits(4, 16), (arg(F32, 3, 16), arg(I8, 5, 8), arg(F32, 5, 1)), "the codes is i8"),
    Sample(MatMulNBits(4, 16), (arg(F32, 3, 16), arg(U32, 5, 2), arg(F32, 5)), "they must have 2 axes"),
    Sample(MatMulNBits(4, 16), (arg(F32, 3, 16), arg(U32, 5, 2), arg(F32, 4, 1)), "rows of the scales"),
    Sample(MatMulNBits(4, 16), (arg(F32, 3, 16), arg(U32, 5, 2), arg(F16, 5, 1)), "one dtype"),
)


def _aten_weight_int8pack_mm(i: AtenImporter) -> Any:
    """``x @ w.T * scales`` with w[N, K] of i8. If w is constant, a pass replaces it by MatMulNBits."""
    x, scales = i.input(0), i.input(2)
    w = i.emit(Cast(x.type.dtype), i.emit(Transpose((1, 0)), i.input(1)))
    return i.emit(Mul(), i.emit(MatMul(), x, w), scales)


MatMulNBits.aten = {"_weight_int8pack_mm": _aten_weight_int8pack_mm}
