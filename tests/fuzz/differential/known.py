"""Differences that stay, each with what the standard says, or with the defect of the peer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .attempt import Mismatch


@dataclass(frozen=True)
class Known:
    """Mismatches whose kind, op and text match; ``reason`` says who is right, and why."""

    reason: str
    kind: str = ""
    op: str = ""
    text: str = ""
    peer: str = ""
    beside: str = ""
    """One of these ops must be in the graph."""
    strange: bool = False
    """Only where NaN, infinities or extremes are fed."""

    def covers(self, mismatch: Mismatch) -> bool:
        return (
            (not self.kind or mismatch.kind in self.kind.split())
            and (not self.op or self._names(mismatch))
            and (not self.beside or not set(self.beside.split()).isdisjoint(mismatch.ops))
            and (mismatch.strange or not self.strange)
            and (not self.peer or mismatch.peer == self.peer)
            and re.search(self.text, mismatch.text) is not None
        )

    def _names(self, mismatch: Mismatch) -> bool:
        ops = self.op.split()
        return mismatch.op in ops if mismatch.op else not set(ops).isdisjoint(mismatch.ops)


NANS = r"nan|inf|e\+38|e\+308|65504"
POOLS = "MaxPool AveragePool LpPool Conv ConvInteger QLinearConv ConvTranspose"
PARTIAL = (
    "LSTM GRU RNN LRN LpNormalization StringNormalizer Unique MaxPool GlobalMaxPool GridSample Resize LpPool"
)
"""Ops of which onnx's evaluator lacks attributes, or computes something else."""


UNDEFINED = "ReduceMean GlobalAveragePool LogSoftmax"
EXTREMA = "ReduceMax ReduceMin Max Min MaxPool GlobalMaxPool Clip Relu ArgMax ArgMin TopK Sign Hardmax"


def refused_by_peer(reason: str, op: str = "", text: str = "") -> Known:
    """ONNX Runtime refuses what the standard allows."""
    return Known(reason, "acceptance", op, text)


def refused(reason: str, op: str = "", text: str = "") -> Known:
    """Graphwright refuses what ONNX Runtime takes."""
    return Known(reason, "refusal", op, text)


def values(reason: str, op: str = "", text: str = "", **rest: Any) -> Known:
    """Other elements."""
    return Known(reason, "values", op, text, **rest)


def shapes(reason: str, op: str, text: str = "", **rest: Any) -> Known:
    """Other sizes."""
    return Known(reason, "shape", op, text, **rest)


KNOWN: tuple[Known, ...] = (
    Known("ONNX Runtime itself dies", "crash", text="^peer"),
    refused_by_peer("no axes of no elements", text="pool_attributes.h:124|at least 1, got 0"),
    refused_by_peer("no results of no elements", text="Computed output dimension is <= 0"),
    refused_by_peer("no windows that do not fit", POOLS, "Invalid input shape"),
    refused_by_peer("no dilation with auto_pad", text="Dilation not supported for AutoPad"),
    refused_by_peer("no kernel for a type, found out late", text="type is not supported|Numpy type"),
    refused_by_peer(
        "nodes that ONNX Runtime adds do not fit",
        text="ReorderOutput|Type parameter|_inlfunc_|ParseData type mismatch|Exception during initialization",
    ),
    refused_by_peer("rows of no tokens", "StringNormalizer TfIdfVectorizer", "nput|imension"),
    refused_by_peer(
        "-1 beside a size of 0 is not unique; 0 is as good", text="reshape_helper|Product cannot be 0"
    ),
    refused_by_peer("reflect may go to and fro, as numpy.pad does", "Pad", "reflect|zero effective"),
    refused_by_peer("axes shorter than their pieces", "Split", "num_outputs"),
    refused_by_peer("regions outside of the image", "RoiAlign"),
    refused_by_peer("pieces of no elements", "SplitToSequence"),
    refused_by_peer(
        '"reduction over an empty set of values yields" infinity', "ReduceMax ReduceMin", "empty set"
    ),
    refused_by_peer("SAME pads below 0 are none", text="padding values must be non-neg|out_size >= 0"),
    refused_by_peer("indices of slices of no elements are not read", "Gather", "out of data bounds"),
    refused('"Its length can be less": a condition is not longer than the axis', "Compress"),
    refused(
        "an index is out of range, though its slice has no elements", "Gather GatherND ScatterND", "out of"
    ),
    refused("alpha divides", "Celu"),
    refused("before opset 13, one axis has no axis 1", "Softmax LogSoftmax Hardmax", "outside a rank of 1"),
    refused(
        "to do: nodes that need ranks, on inputs without",
        text="unknown-rank|is not known|Q, K and V|unsupported-op",
    ),
    shapes('"for scalar input, NonZero produces output shape (0, N)"', "NonZero", r"\(0,"),
    shapes("the sizes of what no iteration made are unknown; ONNX Runtime takes 0", "Loop", r"shape \(0,"),
    shapes('"If input split is specified", keepdims is ignored', "SequenceAt SplitToSequence"),
    shapes('"for negative stepping it is clamped to [-1, dims-1]": the largest end is the last', "Slice"),
    shapes("SAME pads: the size is ceil(input / stride), dilated as well", "AveragePool"),
    Known(
        "an empty string is one piece, as in Python and in onnx's evaluator", "values shape", "StringSplit"
    ),
    values(
        "the standard adds 1e-9 to a deviation of 0; ONNX Runtime divides 0 by 0", "MeanVarianceNormalization"
    ),
    values("floats become strings as in NumPy, 1.0; in ONNX Runtime 1", "Cast CastLike", "'"),
    values("the mask of Dropout before opset 12 is unspecified", "Dropout"),
    values("NaN and infinity as in NumPy; ONNX Runtime drops or clips some", text=NANS, strange=True),
    values("the extremum beside NaN is the NaN, as in NumPy", "ArgMax ArgMin TopK Min Max Neg", strange=True),
    values("integers wrap around as in NumPy; overflow is undefined", text="np.u?int|float", strange=True),
    values("sums of no terms are memory that ONNX Runtime did not write", "MatMulInteger QLinearMatMul"),
    values("integers are cut off, after roundings in f32", "Resize", "np.u?int"),
    values("ONNX Runtime copies what keeps its size, whatever the scale; the formula moves it", "Resize"),
    values(
        "logarithms and roots are cut off, after roundings", "ReduceLogSum ReduceLogSumExp ReduceL2", "int"
    ),
    values('"Reduction over an empty set of values yields undefined"', text="nan", beside=UNDEFINED),
    values("NaN that Log, Sqrt or Acos made, dropped by an extremum of ONNX Runtime", EXTREMA, "nan"),
    values("means of no losses are undefined", "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", "nan"),
    Known("onnx's evaluator lacks attributes here", "values shape dtype", PARTIAL, peer="onnx"),
    values("onnx's evaluator computes in NumPy's f16, or in f32", text="float16|float64", peer="onnx"),
    Known("onnx's evaluator gives sums NumPy's types", "dtype", peer="onnx"),
    shapes("onnx's evaluator steps backwards as NumPy does", "Slice", peer="onnx"),
)
"""The first that covers a mismatch explains it."""


def known(mismatch: Mismatch) -> Known | None:
    return next((k for k in KNOWN if k.covers(mismatch)), None)
