"""Compares two results: types, shapes and exact elements must be equal, floats up to rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .makers import listed

ACCUMULATING = frozenset(
    listed(
        "MatMul Gemm Einsum Conv ConvTranspose DeformConv ReduceSum ReduceMean ReduceL1 ReduceL2 "
        "ReduceLogSum ReduceLogSumExp ReduceProd ReduceSumSquare InstanceNormalization "
        "GroupNormalization LayerNormalization RMSNormalization BatchNormalization "
        "LpNormalization MeanVarianceNormalization LRN AveragePool LpPool GlobalAveragePool "
        "GlobalLpPool RNN GRU LSTM DFT STFT Attention Det Resize Upsample GridSample RoiAlign "
        "Softmax LogSoftmax CumSum CumProd Pow Mean Sum SoftmaxCrossEntropyLoss "
        "NegativeLogLikelihoodLoss AffineGrid RotaryEmbedding MelWeightMatrix Col2Im "
        "FusedMatMul TransposeMatMul FusedConv SkipLayerNormalization SkipSimplifiedLayerNormalization "
        "MatMulIntegerToFloat DynamicQuantizeMatMul MatMulNBits"
    )
)
"""Ops that add many rounded terms: their error is measured against the largest element of the result."""
QUANTISED = frozenset(
    listed(
        "QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu QLinearConcat QLinearGlobalAveragePool "
        "DynamicQuantizeMatMul"
    )
)
"""Ops of ONNX Runtime's that round what no standard rounds: by one step more or less."""
EPSILON = {"bfloat16": 2.0**-7, "float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10}
UNITS = 48.0


def difference(ops: Sequence[str], got: Any, want: Any, single: bool = False, epsilon: float = 0.0) -> str:
    """Describes how ``got`` is wrong, or returns an empty text. ``single``: f64 results are only as
    exact as f32; ``epsilon`` is that of the narrowest floats in the graph.
    """
    if isinstance(want, list):
        return _lists(ops, got, want)
    if not isinstance(got, np.ndarray) or not isinstance(want, np.ndarray):
        return "" if got is None and want is None else f"{type(got).__name__}, not {type(want).__name__}"
    if want.dtype.kind == "U":
        want = want.astype(object)
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, not {want.dtype}"
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    wrong = _wrong(ops, got, want, single, epsilon)
    if not wrong.any():
        return ""
    place = tuple(int(k) for k in np.argwhere(wrong)[0])
    return (
        f"values: {int(wrong.sum())} of {wrong.size} differ, at {place} {got[place]!r}, not {want[place]!r}"
    )


def _lists(ops: Sequence[str], got: Any, want: list[Any]) -> str:
    if not isinstance(got, list) or len(got) != len(want):
        return f"not a list of {len(want)}"
    return next((text for g, w in zip(got, want, strict=True) if (text := difference(ops, g, w))), "")


def _wrong(
    ops: Sequence[str], got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], single: bool, epsilon: float
) -> np.ndarray[Any, Any]:
    if want.dtype.name not in EPSILON:
        steps = 0 if QUANTISED.isdisjoint(ops) or want.dtype.itemsize > 1 else 1
        return np.abs(got.astype(np.int64) - want) > steps if steps else np.asarray(got != want)
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.abs(b[np.isfinite(b)])
    epsilon = max(epsilon, EPSILON["float32" if single and want.dtype == np.float64 else want.dtype.name])
    units = epsilon * UNITS * len(ops)
    scale = np.abs(np.nan_to_num(b, posinf=0, neginf=0))
    if ACCUMULATING.intersection(ops):
        scale, units = np.maximum(scale, finite.max(initial=0.0)), units * 4
    with np.errstate(invalid="ignore", over="ignore"):
        close = np.abs(a - b) <= units * np.maximum(scale, 1.0)
    return ~(close | (a == b) | (np.isnan(a) & np.isnan(b)))
