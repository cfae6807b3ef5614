"""The discrete Fourier transform."""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, UnknownRank, arg, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, floordiv, product, symbol
from graphwright.ir.types import BF16, F16, F32, F64, I32, I64, TensorType
from graphwright.ops.core.cast import as_dtype, in_f32
from graphwright.ops.core.checks import FLOATS, need_dtype, rank_of
from graphwright.ops.core.imports import without_trailing_none
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.references import like, quiet
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.size_inference import known_dims, known_ints, number
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.records import replace

MAX_MATRIX = 2**22
"""Elements of the largest transform matrix (16 MiB of f32). A transform that needs a larger one is a host
call.
"""
FAST_MATRIX = 2**19
"""Up to this many elements, one product with the transform matrix is faster than the products of two shorter
transforms.
"""
MIN_FACTOR, MAX_FACTOR = 4, 64
"""The range of lengths of the first of two shorter transforms."""


@op("DFT")
class DFT(Op):
    """The discrete Fourier transform along ``axis``: ``y[k] = sum(x[n] * exp(-2j*pi*k*n / length))``.

    The inverse transform (``inverse``) has ``+2j`` instead of ``-2j``, and divides by ``length``. The last
    axis of the input has size 1 (real numbers) or 2 (real and imaginary parts). The signal is truncated or
    zero-padded to ``length``, by default the size of the axis. ``onesided`` computes the first ``length // 2
    + 1`` elements of the transform of a real signal; with ``inverse``, it computes the real signal from them.
    The optional operands 1 and 2 are the length and, if ``axis`` is None, the axis.
    """

    axis: int | None = -2
    inverse: bool = False
    onesided: bool = False
    length: Dim | None = None
    optional_inputs = frozenset({1, 2})

    def fold_operands(
        self, x: Fact, length: Fact | None = None, axis: Fact | None = None
    ) -> tuple[Op, tuple[int, ...]] | None:
        folded = self
        if length is not None:
            sizes = known_dims(length)
            if sizes is None or len(sizes) != 1:
                return None
            folded = replace(folded, length=sizes[0])
        if axis is not None:
            axes = known_ints(axis)
            if axes is None or len(axes) != 1:
                return None
            folded = replace(folded, axis=axes[0])
        return None if folded is self else (folded, (0,))

    def infer(self, at: Inference, x: Fact, *operands: Fact | None) -> TensorType:
        need_dtype(at, x, FLOATS)
        if self.axis is None or any(operand is not None for operand in operands):
            raise UnknownRank
        if x.rank < 2:
            raise at.fail(
                f"the input is {x.type}; it must have a signal axis and a last axis of complex parts"
            )
        axis, parts = at.axis(self.axis, x.rank), x.shape[-1]
        if axis == x.rank - 1:
            raise at.fail(f"axis {self.axis} is the axis of real and imaginary parts")
        if self.onesided:
            at.equal(parts, 2 if self.inverse else 1, "size of the last axis of a onesided transform")
        at.at_least(parts, 1, "size of the last axis")
        at.at_most(parts, 2, "size of the last axis")
        length = self.full_length(x.shape[axis])
        at.at_least(length, 1, "the length of the transform")
        components = 1 if self.onesided and self.inverse else 2
        return TensorType(x.dtype, (*x.shape[:axis], self._bins(length), *x.shape[axis + 1 : -1], components))

    def full_length(self, dim: Dim) -> Dim:
        """The length of the transform, given the size of the axis."""
        if self.length is not None:
            return self.length
        return 2 * (dim - 1) if self.onesided and self.inverse else dim

    def _bins(self, length: Dim) -> Dim:
        """The size of the axis in the output."""
        return floordiv(length, 2) + 1 if self.onesided and not self.inverse else length

    @quiet
    def reference(self, x: Array) -> Array:
        assert self.axis is not None
        axis = self.axis % x.ndim
        length = number(self.full_length(x.shape[axis]))
        wide = x.astype(np.float64)
        signal = wide[..., 0] if x.shape[-1] == 1 else wide[..., 0] + 1j * wide[..., 1]
        if self.onesided and self.inverse:
            return like(np.fft.irfft(signal, length, axis)[..., np.newaxis], x)
        if self.onesided:
            spectrum = np.fft.rfft(signal, length, axis)
        else:
            spectrum = (np.fft.ifft if self.inverse else np.fft.fft)(signal, length, axis)
        return like(np.stack([spectrum.real, spectrum.imag], axis=-1), x)

    def decompose(self, b: Builder, x: Value, *operands: Value | None) -> Value | None:
        """Multiplication with the transform matrix, or with the matrices of two shorter transforms if it is
        large.

        The transformed axis is first moved before the last one, and 16-bit floats are widened to f32.
        """
        if self.axis is None or any(operand is not None for operand in operands):
            return None
        rank = rank_of(x)
        axis, dim, parts = self.axis % rank, x.type.dims[self.axis], x.type.dims[-1]
        length = self.full_length(dim)
        if not (isinstance(dim, int) and isinstance(length, int) and isinstance(parts, int)):
            return None
        if axis != rank - 2 or x.type.dtype in (F16, BF16):
            return self._canonical(b, x, axis)
        used = min(dim, length)
        size = self._matrix_size(used, parts, length)
        factor = None if size <= FAST_MATRIX else self._factor(length, parts)
        if size == 0 or (size > MAX_MATRIX and factor is None):
            return None
        if used < dim:
            x = b(Slice((0,), (used,), (rank - 2,), (1,)), x)
        if factor is None:
            return self._by_matrix(b, x, length)
        return self._by_factors(b, x, length, factor)

    def _canonical(self, b: Builder, x: Value, axis: int) -> Value:
        """The transform of ``axis`` as a transform of the second last axis, in f32 or f64."""
        rank = rank_of(x)
        order = (*(k for k in range(rank - 1) if k != axis), axis, rank - 1)
        back = tuple(order.index(k) for k in range(rank))
        rows = x if axis == rank - 2 else b(Transpose(order), x)
        transformed = as_dtype(b, b(replace(self, axis=-2), in_f32(b, rows)), x.type.dtype)
        result: Value = transformed if axis == rank - 2 else b(Transpose(back), transformed)
        return result

    def _matrix_size(self, used: int, parts: int, length: int) -> int:
        """The number of elements of :meth:`matrix`."""
        components = 1 if self.onesided and self.inverse else 2
        return used * parts * number(self._bins(length)) * components

    def _factor(self, length: int, parts: int) -> int | None:
        """The largest factor of ``length`` for which two shorter transforms are used; None if there
        is none.
        """
        if self.onesided and self.inverse:
            return None
        most = min(MAX_FACTOR, isqrt(length), MAX_MATRIX // (2 * length * parts))
        return next((p for p in range(most, MIN_FACTOR - 1, -1) if length % p == 0), None)

    def _by_matrix(self, b: Builder, x: Value, length: int) -> Value:
        """The transform of x[..., used, parts] as a product with the transform matrix."""
        *rest, used, parts = x.type.dims
        matrix = b.const(self.matrix(number(used), number(parts), length), x.type.dtype)
        spectrum = b(MatMul(), reshaped(b, x, (*rest, used * parts)), matrix)
        components = 1 if self.onesided and self.inverse else 2
        return reshaped(b, spectrum, (*rest, self._bins(length), components))

    def _by_factors(self, b: Builder, x: Value, length: int, p: int) -> Value:
        """The transform of x[..., used, parts] as transforms of length p and q (Cooley and Tukey 1965).

        With n = q*i + j and k = c + p*d: transforms over i for each j, multiplied by the twiddle factors
        ``exp(-2j*pi*c*j / length)``, then transforms over j.
        """
        *rest, used, parts = x.type.dims
        rows, q = product(tuple(rest)), length // p
        x = reshaped(b, x, (rows, used, parts))
        if used != length:
            x = b(Pad((0, 0, 0, 0, length - used, 0)), x)
        x = b(Transpose((2, 0, 1, 3)), reshaped(b, x, (rows, p, q, parts)))
        matrices = b.const(self._twiddled(p, q, number(parts)), x.type.dtype)
        x = b(MatMul(), reshaped(b, x, (q, rows, p * parts)), matrices)
        x = b(Transpose((1, 2, 0, 3)), reshaped(b, x, (q, rows, p, 2)))
        x = b(Transpose((0, 2, 1, 3)), b(DFT(-2, self.inverse), x))
        x, bins = reshaped(b, x, (rows, length, 2)), self._bins(length)
        if bins != length:
            x = b(Slice((0,), (bins,), (1,), (1,)), x)
        return reshaped(b, x, (*rest, bins, 2))

    def matrix(self, used: int, parts: int, length: int) -> Array:
        """The transform matrix, f64[used * parts, bins * components]: its rows are the transforms of the unit
        signals.
        """
        units = np.eye(used * parts).reshape(used * parts, used, parts)
        transforms: Array = replace(self, axis=1, length=length).reference(units)
        return transforms.reshape(used * parts, -1)

    def _twiddled(self, p: int, q: int, parts: int) -> Array:
        """The transform matrix of length p, multiplied by the twiddle factors of each j: f64[q, p * parts, 2
        * p].
        """
        plain = DFT(-2, self.inverse).matrix(p, parts, p).reshape(p * parts, p, 2)
        angles = 2 * np.pi * np.outer(np.arange(q), np.arange(p)) / (p * q)
        twiddles = np.exp((1j if self.inverse else -1j) * angles)
        twiddled = (plain[..., 0] + 1j * plain[..., 1]) * twiddles[:, np.newaxis]
        return np.stack([twiddled.real, twiddled.imag], axis=-1).reshape(q, p * parts, 2 * p)


def _import_with_axis(i: Importer) -> Any:
    op = DFT(int(i.attr("axis", 1)), bool(i.attr("inverse", 0)), bool(i.attr("onesided", 0)))
    return i.emit(op, *without_trailing_none([i.input(0), i.optional(1)]))


def _import(i: Importer) -> Any:
    axis = i.optional(2)
    op = DFT(-2 if axis is None else None, bool(i.attr("inverse", 0)), bool(i.attr("onesided", 0)))
    return i.emit(op, *without_trailing_none([i.input(0), i.optional(1), axis]))


def _export(e: Exporter, op: DFT, x: Value, *operands: Value | None) -> Any:
    length, axis = (*operands, None, None)[:2]
    return e.emit(
        "DFT",
        x,
        length if op.length is None else e.size(op.length),
        axis if op.axis is None else e.size(op.axis),
        since=20,
        inverse=op.inverse,
        onesided=op.onesided,
    )


DFT.to_onnx = _export
DFT.onnx = {("DFT", 17): _import_with_axis, ("DFT", 20): _import}
_N = symbol("N")
DFT.samples = (
    *(Sample(DFT(), (arg(t, 2, 6, 1),)) for t in (F32, F64, F16, BF16)),
    *(Sample(DFT(1, inverse), (arg(F32, 2, 6, 3, 2),)) for inverse in (False, True)),
    *(Sample(DFT(length=length), (arg(F32, _N, 5, 2),)) for length in (1, 3, 5, 8)),
    *(Sample(DFT(0, onesided=True, length=length), (arg(F32, 6, 2, 1),)) for length in (None, 5, 7)),
    *(
        Sample(DFT(1, inverse=True, onesided=True, length=length), (arg(F32, 2, 4, 2),))
        for length in (None, 5, 7, 9)
    ),
    Sample(DFT(), (arg(F32, 2, _N, 1),)),
    Sample(DFT(onesided=True), (arg(F32, _N, 1),)),
    Sample(DFT(), (arg(F32, 0, 4, 1),)),
    Sample(DFT(None), (arg(F32, 2, 3, 1), None, arg(I64, values=(-3,)))),
    Sample(DFT(1), (arg(F32, 2, 3, 1), arg(I32, values=(4,)))),
    Sample(DFT(), (arg(F32, 3),), "it must have a signal axis"),
    Sample(DFT(2), (arg(F32, 2, 3, 2),), "axis 2 is the axis of real and imaginary parts"),
    Sample(DFT(), (arg(F32, 2, 3, 4),), "size of the last axis: 4 is more than 2"),
    Sample(DFT(onesided=True), (arg(F32, 2, 3, 2),), "2 and 1 differ"),
    Sample(DFT(-2, inverse=True, onesided=True), (arg(F32, 2, 3, 1),), "1 and 2 differ"),
    Sample(DFT(length=0), (arg(F32, 2, 3, 1),), "the length of the transform: 0 is less than 1"),
    Sample(DFT(), (arg(I32, 2, 3, 1),), "the input is i32"),
)
