"""Known differences: for each one the rule of the standard, or the defect of the peer."""

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
    agreed: bool = False
    """Only where onnx's reference evaluator gives what graphwright gives."""
    attributes: str = ""
    """The node at fault has attributes that match."""

    def covers(self, mismatch: Mismatch) -> bool:
        return (
            (not self.kind or mismatch.kind in self.kind.split())
            and (not self.op or self._names(mismatch))
            and (not self.beside or not set(self.beside.split()).isdisjoint(mismatch.ops))
            and (mismatch.strange or not self.strange)
            and (not self.peer or mismatch.peer in self.peer.split())
            and (mismatch.agreed or not self.agreed)
            and re.search(self.attributes, mismatch.attributes) is not None
            and re.search(self.text, mismatch.text) is not None
        )

    def _names(self, mismatch: Mismatch) -> bool:
        ops = self.op.split()
        return mismatch.op in ops if mismatch.op else not set(ops).isdisjoint(mismatch.ops)


NANS = r"nan|inf|e\+38|e\+308|65504"
EXTREMA = "ReduceMax ReduceMin Max Min MaxPool GlobalMaxPool Clip Relu ArgMax ArgMin TopK Sign Hardmax"
SUMS = (
    "Add Sub Mul Neg Abs Pow Sum MatMul Gemm Einsum CumSum CumProd ReduceSum ReduceProd ReduceSumSquare "
    "ReduceL1 ReduceL2 ReduceMean Mean ScatterElements ScatterND Cast CastLike Range BitShift"
)
OVERFLOWING = "Pow ReduceSum ReduceProd ReduceSumSquare ReduceL1 CumSum CumProd"
WINDOWS = "MaxPool AveragePool LpPool"
CONVOLUTIONS = "FusedConv Conv ConvInteger QLinearConv ConvTranspose"


def refused_by_peer(reason: str, op: str = "", text: str = "") -> Known:
    """ONNX Runtime refuses what the standard allows."""
    return Known(reason, "acceptance", op, text)


def refused(reason: str, op: str = "", text: str = "") -> Known:
    """Graphwright refuses what ONNX Runtime takes."""
    return Known(reason, "refusal", op, text)


def values(reason: str, op: str = "", text: str = "", **rest: Any) -> Known:
    """A known mismatch: the result has other elements."""
    return Known(reason, "values", op, text, **rest)


def shapes(reason: str, op: str, text: str = "", **rest: Any) -> Known:
    """A known mismatch: the result has other sizes."""
    return Known(reason, "shape", op, text, **rest)


KNOWN: tuple[Known, ...] = (
    Known("ONNX Runtime itself dies", "crash", text="^peer"),
    Known("neither ONNX Runtime nor onnx's evaluator has a kernel for the types", "unjudged"),
    refused_by_peer("no axes of no elements", text="pool_attributes.h:124|at least 1, got 0"),
    refused_by_peer("no results of no elements", text="Computed output dimension is <= 0"),
    refused_by_peer("no windows that do not fit", f"{WINDOWS} {CONVOLUTIONS}", "Invalid input shape"),
    refused_by_peer("no dilation with auto_pad", text="Dilation not supported for AutoPad"),
    refused_by_peer("rows of no tokens", "StringNormalizer TfIdfVectorizer", "nput|imension"),
    refused_by_peer(
        "-1 beside a size of 0 is not unique; 0 is as good",
        text="reshape_helper|Invalid Target shape product of 0",
    ),
    refused_by_peer("reflect may go to and fro, as numpy.pad does", "Pad", "reflect|zero effective"),
    refused_by_peer("axes shorter than their pieces", "Split", "num_outputs"),
    refused_by_peer("regions outside of the image", "RoiAlign"),
    refused_by_peer("pieces of no elements", "SplitToSequence"),
    refused_by_peer("SAME pads below 0 are none", text="padding values must be non-neg|out_size >= 0"),
    refused_by_peer("indices of slices of no elements are not read", "Gather", "out of data bounds"),
    refused_by_peer("a depth of 0 is an axis of 0 elements", "OneHot", "Depth is negative"),
    refused_by_peer(
        "indices outside [0, depth) give off values, in opset 9 too", "OneHot", "must be non-negative"
    ),
    refused_by_peer(
        "no place is taken of an axis of 0 elements where there are no rows",
        "ArgMin ArgMax",
        r"Status Message:\s*$",
    ),
    refused_by_peer(
        "antialiasing is a filter of linear and cubic modes alone", "Resize", "only supports mode"
    ),
    refused_by_peer("cubic interpolation of other types than f32", "Resize", "Tensor type mismatch"),
    refused_by_peer("axes of i32, which are allowed", "Pad", "ParseData type mismatch"),
    refused_by_peer("its function of this op is typed for f32", "MeanVarianceNormalization", "Type param"),
    refused_by_peer("its function takes the logarithm of integers", "ReduceLogSum", "_inlfunc_"),
    refused_by_peer(
        "its function reshapes to a 0, which copies a size", "GroupNormalization", "Invalid position"
    ),
    refused_by_peer("linear interpolation of more than two axes", "Resize Upsample", "ScalesValidation"),
    refused_by_peer(
        "what has no elements is not computed: no index is read", "ScatterND", "indices must be empty"
    ),
    refused_by_peer("the node that it adds takes no 0 channels", text="ReorderOutput"),
    refused_by_peer("strings are ordered, as in Python", "ScatterND", "string data type is not supported"),
    refused('"Its length can be less": a condition is not longer than the axis', "Compress"),
    refused(
        "an index is out of range, though its slice has no elements", "Gather GatherND ScatterND", "out of"
    ),
    refused("alpha divides", "Celu"),
    refused(
        '"If an axis is selected with shape entry not equal to one, an error is raised"',
        "Squeeze",
        "must be 1, but is|cannot be",
    ),
    refused(
        '"it is invalid for the specified shape to contain both a zero value and -1"',
        "Reshape",
        "-1 (has|cannot)",
    ),
    refused(
        "a limit of graphwright: regions and functions are imported with ranks; the error asks for them",
        "Scan Loop Attention RotaryEmbedding SwiGLU FusedMatMul TransposeMatMul QLinearGlobalAveragePool",
        "number of (axes|features)",
    ),
    refused(
        "before opset 13, one axis has no axis 1", "Softmax LogSoftmax Hardmax", "out of range for rank 1"
    ),
    shapes('"for scalar input, NonZero produces output shape (0, N)"', "NonZero", r"\(0,"),
    Known(
        '"for scalar input, NonZero produces output shape (0, N)": no place in 0 rows',
        "refusal",
        "ArgMax ArgMin",
        "0 is less than 1",
        beside="NonZero",
    ),
    values(
        "SAME pads below 0 are none: a window starts at the first element; ONNX Runtime's starts behind it",
        WINDOWS,
        attributes=r"auto_pad=b'SAME.*kernel_shape=\[(1|\d, 1|1, \d|\d, \d, 1)\b.*strides=\[.*[2-4]",
    ),
    values("alpha is cast to the type of x, as the function's body does", "ThresholdedRelu", "np.float16"),
    values("products of integers wrap around as in NumPy; overflow is undefined", "ReduceProd", "2147483647"),
    shapes("the sizes of what no iteration made are unknown; ONNX Runtime takes 0", "Loop", r"shape \(0,"),
    values("the sizes of what no iteration made are unknown", beside="Loop", text=r"one by one, shape \(0,"),
    shapes('"If input split is specified", keepdims is ignored', "SequenceAt SplitToSequence"),
    shapes('"for negative stepping it is clamped to [-1, dims-1]": the largest end is the last', "Slice"),
    shapes(
        '"it is invalid for the specified shape to contain both a zero value and -1" with allowzero',
        "Reshape",
        attributes="allowzero=1",
    ),
    shapes(
        "SAME pads: the size is ceil(input / stride), dilated as well",
        WINDOWS,
        attributes="auto_pad=b'SAME.*dilations",
    ),
    shapes(
        '"output_shape[i] = input_shape[i] * strides[i]" with SAME; ONNX Runtime pads no less than 0',
        "ConvTranspose",
        attributes="auto_pad=b'SAME",
    ),
    Known(
        "an empty string is one piece, as in Python and in onnx's evaluator", "values shape", "StringSplit"
    ),
    values(
        "the standard adds 1e-9 to a deviation of 0; ONNX Runtime divides 0 by 0", "MeanVarianceNormalization"
    ),
    values("floats become strings as in NumPy, 1.0; in ONNX Runtime 1", "Cast CastLike", "'"),
    values("the mask of Dropout before opset 12 is unspecified", "Dropout"),
    values("ONNX Runtime copies the first string of a slice alone", "Gather", "'", agreed=True),
    values(
        "by the formula a window that overhangs is none; ONNX Runtime counts it, by the whole kernel",
        "AveragePool",
        attributes=r"opset=(7|8|9|1[0-8]) .*count_include_pad=1",
    ),
    values(
        "deviations are squared; peers subtract the mean's square from that of squares, and lose digits",
        "InstanceNormalization GroupNormalization",
        r"np.float\d+\(-?\d",
    ),
    values("in f64; wider types are f32 in ONNX Runtime", text="float64", peer="wide", agreed=True),
    values("NaN and infinity as in NumPy; ONNX Runtime drops or clips some", text=NANS, agreed=True),
    values("the extremum beside NaN is the NaN, as in NumPy", EXTREMA, strange=True, agreed=True),
    values("integers wrap around as in NumPy; overflow is undefined", SUMS, "np.u?int|float", agreed=True),
    values(
        "saturated, as the standard says; onnx's evaluator wraps i32",
        "QuantizeLinear",
        peer="onnx",
        strange=True,
    ),
    values("a mean of integers whose sum overflows is undefined", "ReduceMean", "int", strange=True),
    values('"LambdCast = CastLike (Lambd, input)": the bound has the type of x', "Shrink", "float16"),
    values("integers as they are; ONNX Runtime computes them in f32", "Shrink", "int", strange=True),
    values(
        "slope times x below 0 alone; onnx's evaluator adds 0 times infinity", "PRelu", "nan", peer="onnx"
    ),
    values("NaN is a value; ONNX Runtime orders it with all others", "Unique", strange=True),
    shapes("NaN is a value; ONNX Runtime orders it with all others", "Unique", strange=True),
    values("integers wrap around as in NumPy; overflow is undefined", OVERFLOWING, "np.u?int", strange=True),
    values(
        "a maximum starts below all; ONNX Runtime starts at the least finite one", "MaxPool", r"-inf.*e\+38"
    ),
    values(
        "strings are filled with empty ones; onnx's evaluator fills in the number 0",
        "Trilu Pad CenterCropPad",
        "''",
        peer="onnx",
    ),
    values("a row with NaN is NaN throughout", "Softmax LogSoftmax", r"\(nan\), not", strange=True),
    values(
        "integers wrap around as in NumPy; overflow is undefined", SUMS, "np.u?int", strange=True, peer="onnx"
    ),
    values("sums of no terms are memory that ONNX Runtime did not write", "MatMulInteger QLinearMatMul"),
    values(
        "sums of no terms are memory that ONNX Runtime did not write",
        "OptionalGetElement",
        beside="MatMulInteger",
    ),
    values("integers are cut off, after roundings in f32", "Resize", "np.u?int"),
    values("ONNX Runtime copies what keeps its size, whatever the scale; the formula moves it", "Resize"),
    values(
        "logarithms and roots are cut off, after roundings", "ReduceLogSum ReduceLogSumExp ReduceL2", "int"
    ),
    values('"Reduction over an empty set of values yields undefined"', "ReduceMean GlobalAveragePool", "nan"),
    values("means of no losses are undefined", "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", "nan"),
    values(
        "means of no losses are undefined",
        "OptionalGetElement Cast Identity",
        "nan",
        beside="NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss ReduceMean GlobalAveragePool",
    ),
    values("a window of pads alone has no largest element: its index is -1", "MaxPool", r"int64\(-1\), not"),
    values(
        "the largest element is subtracted before exp; ONNX Runtime overflows without axes",
        "ReduceLogSumExp",
        r"not np.float\d+\(inf\)",
    ),
    values("a row with NaN has no largest element", "Hardmax", peer="wide", strange=True),
    values("the function's body computes in f16, where exp overflows", "Celu", r"float16\(-inf\), not"),
)
"""The first that covers a mismatch explains it."""


def known(mismatch: Mismatch) -> Known | None:
    return next((k for k in KNOWN if k.covers(mismatch)), None)
