"""The short-time Fourier transform."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, UnknownRank, arg, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, floordiv, symbol
from graphwright.ir.types import BF16, F16, F32, F64, I32, I64, TensorType
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.cast import as_dtype, in_f32
from graphwright.ops.core.checks import FLOATS, need_dtype, rank_of, same_dtype
from graphwright.ops.core.dft import DFT
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.imports import without_trailing_none
from graphwright.ops.core.range import Range
from graphwright.ops.core.references import like, quiet
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.size_inference import known_dims, number
from graphwright.records import replace


@op("STFT")
class STFT(Op):
    """Short-time Fourier transform: y[batch, frame, bin, 2] of signals x[batch, time, 1 or 2].

    A frame of ``length`` samples starts every ``step`` samples, is multiplied by the window (operand 1), and
    transformed by DFT. The length is by default that of the window or, if it is absent, of the signal.
    ``onesided`` computes the first ``length // 2 + 1`` bins of real signals. A real signal may be x[batch,
    time], as in ONNX Runtime. If ``step`` is None, operands 1 to 3 are step, window and length; the last two
    may be absent.
    """

    onesided: bool = True
    step: Dim | None = None
    length: Dim | None = None
    optional_inputs = frozenset({1, 2, 3})

    def fold_operands(
        self, x: Fact, step: Fact | None = None, window: Fact | None = None, length: Fact | None = None
    ) -> tuple[Op, tuple[int, ...]] | None:
        if self.step is not None:
            return None
        steps, lengths = known_dims(step), (None,) if length is None else known_dims(length)
        if steps is None or lengths is None or (len(steps), len(lengths)) != (1, 1):
            return None
        folded = replace(self, step=steps[0], length=lengths[0])
        return folded, (0,) if window is None else (0, 2)

    def infer(self, at: Inference, x: Fact, window: Fact | None = None, *others: Fact | None) -> TensorType:
        need_dtype(at, x, FLOATS)
        if self.step is None:
            raise UnknownRank
        if x.rank not in (2, 3):
            raise at.fail(f"the input is {x.type}; it must be [batch, time] or [batch, time, 1 or 2]")
        batch, time, parts = (*x.shape, 1)[:3]
        length = self._length(time, None if window is None else _window_length(at, x, window))
        if window is not None:
            at.equal(_window_length(at, x, window), length, "elements of the window and of a frame")
        at.at_least(length, 1, "the length of a frame")
        at.at_least(self.step, 1, "the step between frames")
        at.at_most(length, time, "samples of a frame and of the signal")
        if self.onesided:
            at.equal(parts, 1, "size of the last axis of a onesided transform")
        at.at_least(parts, 1, "size of the last axis")
        at.at_most(parts, 2, "size of the last axis")
        frames = floordiv(time - length, self.step) + 1
        return TensorType(x.dtype, (batch, frames, self._bins(length), 2))

    def _length(self, time: Dim, window: Dim | None) -> Dim:
        """The length of a frame."""
        if self.length is not None:
            return self.length
        return time if window is None else window

    def _bins(self, length: Dim) -> Dim:
        return floordiv(length, 2) + 1 if self.onesided else length

    @quiet
    def reference(self, x: Array, window: Array | None = None) -> Array:
        x = x if x.ndim == 3 else x[..., np.newaxis]
        length = number(self._length(x.shape[1], None if window is None else len(window)))
        windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), length, axis=1)
        frames = np.moveaxis(windows[:, :: number(self.step)], -1, 2)
        if window is not None:
            frames = frames * window.astype(np.float64)[:, np.newaxis]
        return like(DFT(-2, inverse=False, onesided=self.onesided).reference(frames), x)

    def decompose(
        self, b: Builder, x: Value, window: Value | None = None, *others: Value | None
    ) -> Value | None:
        """Gathers the frames, multiplies them by the window, and transforms each of them."""
        if self.step is None:
            return None
        if rank_of(x) == 2:
            x = reshaped(b, x, (*x.type.dims, 1))
        time = x.type.dims[1]
        length = self._length(time, None if window is None else window.type.dims[0])
        if not (isinstance(length, int) and isinstance(self.step, int)):
            return None
        count = floordiv(time - length, self.step) + 1
        starts = reshaped(b, b(Range((0, count * self.step, self.step))), (count, 1))
        positions = b(Add(), starts, b(Range((0, length, 1))))
        frames = b(Gather(1), in_f32(b, x), positions)
        if window is not None:
            column = reshaped(b, as_dtype(b, window, frames.type.dtype), (length, 1))
            frames = b(Mul(), frames, column)
        return as_dtype(b, b(DFT(-2, inverse=False, onesided=self.onesided), frames), x.type.dtype)


def _window_length(at: Inference, x: Fact, window: Fact) -> Dim:
    same_dtype(at, x, window)
    if window.rank != 1:
        raise at.fail(f"the window is {window.type}; it must be a vector")
    return window.shape[0]


def _import(i: Importer) -> Any:
    operands = without_trailing_none([i.input(0), i.input(1), i.optional(2), i.optional(3)])
    return i.emit(STFT(bool(i.attr("onesided", 1))), *operands)


def _export(e: Exporter, op: STFT, x: Value, *operands: Value | None) -> Any:
    if op.step is not None:
        window = operands[0] if operands else None
        given: Any = (e.size(op.step), window, None if op.length is None else e.size(op.length))
    return e.emit("STFT", x, *(operands if op.step is None else given), onesided=op.onesided)


STFT.to_onnx = _export
STFT.onnx = {("STFT", 17): _import}
_N, _T = symbol("N"), symbol("T")
_STEP = arg(I64, values=(2,))
STFT.samples = (
    *(
        Sample(STFT(onesided=True, step=2, length=4), (arg(t, 2, 9, 1), arg(t, 4)))
        for t in (F32, F64, F16, BF16)
    ),
    *(Sample(STFT(onesided=False, step=3), (arg(F32, 2, 11, parts), arg(F32, 5))) for parts in (1, 2)),
    Sample(STFT(onesided=True, step=1, length=7), (arg(F32, _N, 9, 1),)),
    Sample(STFT(onesided=True, step=2, length=3), (arg(F32, 1, _T, 1), arg(F32, 3))),
    Sample(STFT(onesided=True, step=2), (arg(F32, 2, 6, 1),)),
    Sample(STFT(onesided=True, step=2), (arg(F32, 2, _T, 1),)),
    Sample(STFT(onesided=True, step=2, length=4), (arg(F32, 0, 8, 1),)),
    Sample(STFT(), (arg(F32, 1, 8, 1), _STEP, arg(F32, 4))),
    Sample(STFT(), (arg(F32, 1, 8, 1), _STEP, None, arg(I32, values=(6,)))),
    *(Sample(STFT(onesided, 2, 4), (arg(F32, 2, 9), arg(F32, 4))) for onesided in (True, False)),
    Sample(STFT(onesided=True, step=2, length=3), (arg(F32, _N, _T), arg(F32, 3))),
    Sample(
        STFT(onesided=True, step=2, length=4),
        (arg(F32, 8),),
        "it must be [batch, time] or [batch, time, 1 or 2]",
    ),
    Sample(STFT(onesided=True, step=2, length=4), (arg(F32, 1, 8, 2),), "2 and 1 differ"),
    Sample(
        STFT(onesided=False, step=2, length=4),
        (arg(F32, 1, 8, 3),),
        "size of the last axis: 3 is more than 2",
    ),
    Sample(
        STFT(onesided=True, step=2, length=9),
        (arg(F32, 1, 8, 1),),
        "samples of a frame and of the signal: 9 is more than 8",
    ),
    Sample(
        STFT(onesided=True, step=0, length=4),
        (arg(F32, 1, 8, 1),),
        "the step between frames: 0 is less than 1",
    ),
    Sample(
        STFT(onesided=True, step=2, length=4),
        (arg(F32, 1, 8, 1), arg(F32, 5)),
        "the window and of a frame: 5 and 4 differ",
    ),
    Sample(STFT(onesided=True, step=2, length=4), (arg(F32, 1, 8, 1), arg(F32, 4, 1)), "it must be a vector"),
    Sample(
        STFT(onesided=True, step=2, length=4), (arg(F32, 1, 8, 1), arg(F64, 4)), "operands of f32 and f64"
    ),
)
