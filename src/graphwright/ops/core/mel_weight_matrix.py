"""MelWeightMatrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, floordiv
from graphwright.ir.types import BF16, F16, F32, F64, I32, I64, STRING, DType, TensorType
from graphwright.ops.core.checks import FLOATS, NUMBERS, need_dtype, need_scalar
from graphwright.ops.core.gather import INDICES
from graphwright.ops.core.imports import dtype_attribute
from graphwright.ops.core.size_inference import known_dims, known_floats

_INTEGERS = ("the number of bands", "the length of the transform", "the sample rate")
_EDGES = ("the lower edge", "the upper edge")


@op("MelWeightMatrix")
class MelWeightMatrix(Op):
    """Weights that map the ``length // 2 + 1`` bins of a spectrum to mel bands: y[bin, band].

    The operands are scalars: the number of bands, the length of the transform, the sample rate, and the lower
    and upper edge in hertz. Each band is a triangle. The corners of the triangles are evenly spaced on the
    mel scale ``2595 * log10(1 + f / 700)`` (O'Shaughnessy 1987). As in ONNX, the range from edge to edge has
    ``bands + 2`` steps, so that the last band ends one step below the upper edge.
    """

    dtype: DType = F32

    def verify(self) -> None:
        if self.dtype not in NUMBERS:
            raise InferError(f"the dtype is {self.dtype}; it must be a number type")

    def infer(self, at: Inference, *operands: Fact) -> TensorType:
        for fact, what in zip(operands, (*_INTEGERS, *_EDGES), strict=True):
            need_dtype(at, fact, INDICES if what in _INTEGERS else FLOATS, what)
            if fact.type.shape is not None:
                need_scalar(at, fact, what)
        bands, length, rate = (known_dims(fact) for fact in operands[:3])
        if rate is not None:
            at.at_least(rate[0], 1, "the sample rate")
        lower, upper = (known_floats(fact) for fact in operands[3:])
        if lower is not None and upper is not None:
            _check_edges(lower[0], upper[0])
        bins = at.symbols.fresh("bins") if length is None else self._bins(at, length[0])
        columns = at.symbols.fresh("bands") if bands is None else bands[0]
        at.at_least(columns, 0, "the number of bands")
        return TensorType(self.dtype, (bins, columns))

    def _bins(self, at: Inference, length: Dim) -> Dim:
        at.at_least(length, 1, "the length of the transform")
        return floordiv(length, 2) + 1

    def reference(self, *operands: Array) -> Array:
        bands, length, rate = (int(array.reshape(())) for array in operands[:3])
        lower, upper = (float(array.reshape(())) for array in operands[3:])
        _check_edges(lower, upper)
        if rate < 1:
            raise ValueError(f"a sample rate of {rate}: it must be positive")
        low, high = _mel(lower), _mel(upper)
        corners = low + np.arange(bands + 2) * ((high - low) / (bands + 2))
        corner_bins = ((length + 1) * (700 * np.expm1(corners * (np.log(10) / 2595)))) // rate
        begin, peak, end = corner_bins[:-2], corner_bins[1:-1], corner_bins[2:]
        bins = np.arange(length // 2 + 1)[:, np.newaxis]
        rising = (bins - begin) / np.maximum(peak - begin, 1)
        falling = (end - bins) / np.maximum(end - peak, 1)
        weights = np.maximum(np.where(bins < peak, rising, falling), 0)
        return np.where(bins == peak, 1, weights).astype(self.dtype.numpy)


def _mel(hertz: float) -> float:
    return float(2595 * np.log1p(hertz / 700) / np.log(10))


def _check_edges(lower: float, upper: float) -> None:
    if not 0 <= lower <= upper < np.inf:
        raise InferError(
            f"edges of {lower} and {upper} Hz: the lower edge must be at least 0 and at most the upper edge"
        )


def _import(i: Importer) -> Any:
    op = MelWeightMatrix(dtype_attribute(i, i.attr("output_datatype", 1)))
    return i.emit(op, *(i.input(index) for index in range(5)))


def _operands(bands: int, length: int, rate: int, lower: float, upper: float) -> tuple[Any, ...]:
    return (
        *(arg(I64, values=(number,)) for number in (bands, length, rate)),
        *(arg(F32, values=(edge,)) for edge in (lower, upper)),
    )


MelWeightMatrix.onnx = {("MelWeightMatrix", 17): _import}
MelWeightMatrix.to_onnx = as_onnx("MelWeightMatrix", output_datatype="dtype")
MelWeightMatrix.samples = (
    *(Sample(MelWeightMatrix(t), _operands(8, 16, 8192, 0, 4096)) for t in (F32, F64, F16, BF16, I32)),
    Sample(MelWeightMatrix(), _operands(10, 257, 16000, 125, 7600)),
    Sample(MelWeightMatrix(), _operands(0, 8, 100, 0, 0)),
    Sample(MelWeightMatrix(), _operands(3, 1, 100, 10, 500)),
    Sample(
        MelWeightMatrix(),
        (*(arg(I32, values=(n,)) for n in (4, 32)), arg(I32, fill="positive"), *[arg(F64, values=(0,))] * 2),
    ),
    Sample(MelWeightMatrix(), _operands(-1, 16, 8192, 0, 4096), "the number of bands: -1 is less than 0"),
    Sample(
        MelWeightMatrix(), _operands(8, 0, 8192, 0, 4096), "the length of the transform: 0 is less than 1"
    ),
    Sample(MelWeightMatrix(), _operands(8, 16, 0, 0, 4096), "the sample rate: 0 is less than 1"),
    Sample(MelWeightMatrix(), _operands(8, 16, 8192, 50, 40), "edges of 50.0 and 40.0 Hz"),
    Sample(MelWeightMatrix(STRING), _operands(8, 16, 8192, 0, 4096), "the dtype is string"),
    Sample(MelWeightMatrix(), (arg(F32), *_operands(8, 16, 8192, 0, 4096)[1:]), "the number of bands is f32"),
)
