"""Sound models, small and of many kinds, that mutants damage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.robustness.cases import BOOL, INT64, info, model, node, tensor


def _weights(seed: int, **shapes: tuple[int, ...]) -> list[onnx.TensorProto]:
    generator = np.random.default_rng(seed)
    return [tensor(n, generator.standard_normal(s).astype(np.float32)) for n, s in shapes.items()]


def _body(nodes: Sequence[onnx.NodeProto], inputs: Sequence[Any], *outputs: str) -> onnx.GraphProto:
    return helper.make_graph(nodes, "body", inputs, [onnx.ValueInfoProto(name=name) for name in outputs])


def indexing() -> bytes:
    """Ops that read where numbers say."""
    weights = [
        tensor("i", [[0, 2], [1, -1]]),
        tensor("starts", [1, -3]),
        tensor("ends", [4, 9]),
        tensor("axes", [0, 1]),
        tensor("steps", [2, -1]),
        tensor("pads", [1, 0, 2, 1]),
        tensor("k", [2]),
        tensor("places", [[0], [1]]),
        tensor("updates", np.ones((2, 4), np.float32)),
    ]
    nodes = [
        node("Slice", "x starts ends axes steps", "s"),
        node("Pad", "s pads", "p"),
        node("TopK", "p k", "t ti", axis=0),
        node("Gather", "x i", "g", axis=0),
        node("ScatterND", "x places updates", "sn"),
        node("GatherElements", "sn ti2", "ge", axis=1),
        node("Cast", "ti", "ti2", to=INT64),
        node("ReduceMax", "g", "m", axes=[0, 1]),
        node("Add", "ge m2", "e"),
        node("Gather", "m zero", "m2"),
        node("ReduceSum", "e axes", "r", keepdims=0),
        node("Add", "r t", "y"),
    ]
    return model(nodes, [*weights, tensor("zero", 0)], [info("x", [5, 4])])


def network() -> bytes:
    """A small image network with windows of several kinds."""
    generator = np.random.default_rng(1)
    shapes = {"w": (8, 3, 3, 3), "d": (8, 1, 3, 3), "u": (8, 4, 2, 2), "b": (4,), "fc": (4, 6)}
    weights = [tensor(n, generator.standard_normal(s).astype(np.float32)) for n, s in shapes.items()]
    sizes = [tensor("scales", np.array([1, 1, 2, 2], np.float32)), tensor("flat", [0, -1])]
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Clip", "c", "r"),
        node("Conv", "r d", "e", group=8, dilations=[2, 2], pads=[2, 2, 2, 2]),
        node("Add", "r e", "a"),
        node("ConvTranspose", "a u b", "t", strides=[2, 2], output_padding=[0, 0]),
        node("MaxPool", "t", "m", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1),
        node("AveragePool", "m", "v", kernel_shape=[2, 2], strides=[1, 1]),
        helper.make_node("Resize", ["v", "", "scales"], ["z"], "z", mode="nearest"),
        node("GlobalAveragePool", "z", "g"),
        node("Reshape", "g flat", "f"),
        node("Gemm", "f fc", "h", alpha=0.5, transB=0),
        node("Softmax", "h", "y", axis=-1),
    ]
    return model(nodes, weights + sizes, [info("x", ["n", 3, "h", "w"])])


def attention() -> bytes:
    """Matrix products, norms and sizes computed from the input's."""
    generator = np.random.default_rng(2)
    weights = [
        tensor("q", generator.standard_normal((8, 24)).astype(np.float32)),
        tensor("scale", np.ones(8, np.float32)),
        tensor("split", [8, 8, 8]),
        tensor("heads", [0, 0, 2, 4]),
        tensor("back", [0, 0, 8]),
        tensor("two", np.float32(2)),
    ]
    nodes = [
        node("LayerNormalization", "x scale", "l", axis=-1),
        node("MatMul", "l q", "p"),
        node("Split", "p split", "a b c", axis=2),
        *(node("Reshape", f"{n} heads", f"{n}r") for n in "abc"),
        *(
            node("Transpose", f"{n}r", f"{n}t", perm=p)
            for n, p in zip("abc", ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
        ),
        node("MatMul", "at bt", "s"),
        node("Div", "s two", "d"),
        node("Softmax", "d", "w"),
        node("MatMul", "w ct", "o"),
        node("Transpose", "o", "ot", perm=[0, 2, 1, 3]),
        node("Reshape", "ot back", "or"),
        node("Add", "x or", "y"),
    ]
    return model(nodes, weights, [info("x", ["n", "t", 8])])


def recurrence() -> bytes:
    """A recurrent layer and branches."""
    generator = np.random.default_rng(3)
    weights = [
        tensor("w", generator.standard_normal((1, 16, 3)).astype(np.float32)),
        tensor("r", generator.standard_normal((1, 16, 4)).astype(np.float32)),
        tensor("axis", [1]),
        tensor("by", [1, 2, 1]),
        tensor("to", [2, 1, 1]),
    ]
    then = helper.make_graph([node("Tile", "q by", "t")], "then", [], [info("t", None)])
    other = helper.make_graph([node("Concat", "q q", "e", axis=1)], "else", [], [info("e", None)])
    nodes = [
        node("LSTM", "x w r", "h", hidden_size=4),
        node("Squeeze", "h axis", "q"),
        node("If", "c", "i", then_branch=then, else_branch=other),
        node("Expand", "i to", "z"),
        node("CumSum", "z axis0", "y"),
    ]
    return model(nodes, [*weights, tensor("axis0", 0)], [info("x", ["t", "n", 3]), info("c", [], BOOL)])


def loops() -> bytes:
    """A counted loop with a scan output, a loop that ends early, one whose loop-carried value grows, and a
    Scan in reverse.
    """
    product = [node("MatMul", "h w", "m"), node("Tanh", "m", "hn"), node("Gather", "x i", "r", axis=1)]
    counted = _body([*product, *_goes_on()], _received("h"), "on2", "hn", "r")
    largest = [node("ReduceMax", "vn", "top", keepdims=0), node("Less", "low top", "on2")]
    early = _body([node("Mul", "v half", "vn"), *largest], _received("v"), "on2", "vn")
    growing = _body([node("Concat", "g x", "gn", axis=0), *_goes_on()], _received("g"), "on2", "gn")
    sums = [node("Add", "s e", "sn"), node("Mul", "sn half", "row")]
    scanned = _body(sums, [info("s", None), info("e", None)], "sn", "row")
    nodes = [
        node("Loop", "trips yes x", "h2 rows", body=counted),
        node("Loop", "trips yes h2", "v2", body=early),
        node("Loop", "few yes v2", "g2", body=growing),
        node(
            "Scan", "zeros g2", "s2 all", body=scanned, num_scan_inputs=1,
            scan_input_directions=[1], scan_output_directions=[1], scan_input_axes=[0], scan_output_axes=[1],
        ),
        node("Transpose", "all", "turned", perm=[1, 0]),
        node("ReduceSum", "rows axes", "flat", keepdims=0),
        node("Concat", "turned h2", "y", axis=0),
    ]  # fmt: skip
    weights = [
        *_weights(4, w=(4, 4)),
        tensor("half", np.float32(0.5)),
        tensor("low", np.float32(0.1)),
        tensor("zeros", np.zeros(4, np.float32)),
        tensor("trips", 3),
        tensor("few", 2),
        tensor("yes", value=True),
        tensor("axes", [1]),
    ]
    return model(nodes, weights, [info("x", ["n", 4])])


def _received(carried: str) -> list[onnx.ValueInfoProto]:
    return [info("i", [], INT64), info("on", [], BOOL), info(carried, None)]


def _goes_on() -> list[onnx.NodeProto]:
    return [node("Identity", "on", "on2")]


def containers() -> bytes:
    """Sequences that are made, changed, read and joined, some in a loop; optionals."""
    added = [node("SequenceAt", "parts i", "p"), node("Add", "acc p", "an")]
    body = _body([*added, *_goes_on()], _received("acc"), "on2", "an")
    nodes = [
        node("SplitToSequence", "x lengths", "parts", axis=1),
        node("SequenceLength", "parts", "count"),
        node("SequenceAt", "parts last", "tail"),
        node("Loop", "count yes tail", "sum", body=body),
        node("SequenceInsert", "parts sum first", "more"),
        node("SequenceErase", "more one", "fewer"),
        node("ConcatFromSequence", "fewer", "joined", axis=1),
        node("SequenceConstruct", "joined joined", "pair"),
        node("ConcatFromSequence", "pair", "stacked", axis=0, new_axis=1),
        node("Optional", "stacked", "maybe"),
        node("OptionalHasElement", "maybe", "there"),
        node("OptionalGetElement", "maybe", "got"),
        node("Where", "there got zero", "y"),
    ]
    weights = [
        tensor("lengths", [2, 2, 2]),
        tensor("last", -1),
        tensor("first", 0),
        tensor("one", 1),
        tensor("yes", value=True),
        tensor("zero", np.float32(0)),
    ]
    return model(nodes, weights, [info("x", ["n", 6])])


def quantized() -> bytes:
    """Products and convolutions of bytes, with zero points per tensor and per channel."""
    generator = np.random.default_rng(5)
    weights = [
        tensor("w", generator.integers(-128, 128, (4, 3, 3, 3), np.int8)),
        tensor("ws", np.linspace(0.01, 0.02, 4, dtype=np.float32)),
        tensor("wz", np.zeros(4, np.int8)),
        tensor("b", generator.integers(-99, 99, 4).astype(np.int32)),
        tensor("s", np.float32(0.05)),
        tensor("z", np.uint8(120)),
        tensor("m", generator.integers(-128, 128, (4, 6), np.int8)),
        tensor("ms", np.float32(0.01)),
        tensor("mz", np.int8(0)),
        tensor("flat", [0, 4, -1]),
        tensor("w2", generator.integers(-128, 128, (2, 4, 1, 1), np.int8)),
    ]
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("QLinearConv", "q s z w ws wz s z b", "c", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("ConvInteger", "c w2 z", "ci"),
        node("Cast", "ci", "cf", to=TensorProto.FLOAT),
        node("DequantizeLinear", "c s z", "d"),
        node("Reshape", "d flat", "r"),
        node("Transpose", "r", "t", perm=[0, 2, 1]),
        node("DynamicQuantizeLinear", "t", "tq ts tz"),
        node("MatMulInteger", "tq m tz mz", "p"),
        node("QLinearMatMul", "tq ts tz m ms mz s z", "l"),
        node("DequantizeLinear", "l s z", "ld"),
        node("Cast", "p", "pf", to=TensorProto.FLOAT),
        node("Add", "ld pf", "a"),
        node("ReduceMean", "cf", "mean", keepdims=0),
        node("Add", "a mean", "y"),
    ]
    return model(nodes, weights, [info("x", ["n", 3, "h", 8])])


def selection() -> bytes:
    """Ops whose elements say how many rows they give."""
    nodes = [
        node("Greater", "x zero", "mask"),
        node("NonZero", "mask", "at"),
        node("Transpose", "at", "places", perm=[1, 0]),
        node("GatherND", "x places", "found"),
        node("Unique", "found", "u first back counts", sorted=1),
        node("TopK", "u k", "t ti", axis=0),
        node("Compress", "x keep", "rows", axis=0),
        node("Reshape", "rows boxes_shape", "boxes"),
        node("Sigmoid", "boxes", "unit"),
        node("ReduceMax", "unit", "score", axes=[2], keepdims=0),
        node("Unsqueeze", "score one", "scores"),
        node("NonMaxSuppression", "unit scores most iou low", "picked"),
        node("Cast", "picked", "pf", to=TensorProto.FLOAT),
        node("ReduceSum", "pf", "total", keepdims=0),
        node("ReduceSum", "counts", "sum", keepdims=0),
        node("Range", "from sum step", "range"),
        node("Cast", "range", "rf", to=TensorProto.FLOAT),
        node("ReduceSum", "rf", "rs", keepdims=0),
        node("Add", "t total", "a"),
        node("Add", "a rs", "y"),
    ]
    weights = [
        tensor("zero", np.float32(0)),
        tensor("k", [1]),
        tensor("keep", [True, False, True]),
        tensor("boxes_shape", [1, -1, 4]),
        tensor("one", [1]),
        tensor("most", [3]),
        tensor("iou", np.float32(0.5)),
        tensor("low", np.float32(0.1)),
        tensor("from", 0),
        tensor("step", 1),
    ]
    return model(nodes, weights, [info("x", [3, 4])])


def vision() -> bytes:
    """Windows and samples at places that operands say."""
    generator = np.random.default_rng(6)
    weights = [
        tensor("rois", np.array([[0, 0, 3, 3], [1, 1, 6, 5]], np.float32)),
        tensor("batch", [0, 0]),
        tensor("grid", generator.uniform(-1.2, 1.2, (1, 3, 5, 2)).astype(np.float32)),
        *_weights(7, w=(2, 2, 3, 3), offset=(1, 18, 6, 6), cols=(1, 4, 16)),
        tensor("image", [5, 5]),
        tensor("block", [2, 2]),
        tensor("sizes", [1, 2, 11, 7]),
    ]
    nodes = [
        node("RoiAlign", "x rois batch", "a", output_height=2, output_width=3, sampling_ratio=2),
        node("GridSample", "x grid", "g", align_corners=1),
        node("DeformConv", "x w offset", "d"),
        node("MaxPool", "x", "m mi", kernel_shape=[2, 2], strides=[2, 2]),
        node("MaxUnpool", "m mi", "u", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Resize", ["u", "", "", "sizes"], ["r"], "r", mode="cubic"),
        node("ReduceMean", "g", "gm", keepdims=0),
        node("ReduceMean", "a", "am", keepdims=0),
        node("ReduceMean", "d", "dm", keepdims=0),
        node("Col2Im", "cols image block", "c"),
        node("ReduceMean", "r", "rm", keepdims=0),
        node("Sum", "gm am dm c rm", "y"),
    ]
    return model(nodes, weights, [info("x", [1, 2, 8, 8])], opset=20)


def signal() -> bytes:
    """Fourier transforms of frames."""
    nodes = [
        node("HannWindow", "length", "window"),
        node("Unsqueeze", "x minus", "parts"),
        node("STFT", "parts step window length", "s", onesided=1),
        node("DFT", "s", "d", axis=1, inverse=1),
        node("ReduceSumSquare", "d axes", "p", keepdims=0),
        node("MelWeightMatrix", "mels length rate low high", "mel"),
        node("MatMul", "p mel", "e"),
        node("Log", "e", "l"),
        node("CumSum", "l one", "y"),
    ]
    weights = [
        tensor("step", 4),
        tensor("length", 8),
        tensor("mels", 3),
        tensor("rate", 16000),
        tensor("low", np.float32(20)),
        tensor("high", np.float32(7000)),
        tensor("axes", [3]),
        tensor("one", 1),
        tensor("minus", [-1]),
    ]
    return model(nodes, weights, [info("x", ["n", 32])], opset=18)


def trees() -> bytes:
    """Classic models: a tree ensemble, thresholds, and labels for the results of both."""
    domain = {"domain": "ai.onnx.ml"}
    nodes = [
        node("Binarizer", "x", "b", threshold=0.25, **domain),
        node("ArrayFeatureExtractor", "b column", "f", **domain),
        node(
            "TreeEnsemble", "x", "t", n_targets=1, tree_roots=[0], **domain,
            nodes_featureids=[0, 1], nodes_splits=tensor("", np.array([0.3, -0.2], np.float32)),
            nodes_modes=tensor("", np.array([0, 1], np.uint8)),
            nodes_truenodeids=[1, 0], nodes_trueleafs=[0, 1],
            nodes_falsenodeids=[2, 1], nodes_falseleafs=[1, 1],
            leaf_targetids=[0, 0, 0], leaf_weights=tensor("", np.array([1, 2, -1], np.float32)),
        ),
        node("Cast", "t", "ti", to=INT64),
        node(
            "LabelEncoder", "ti", "l", keys_int64s=[1, 2, -1], values_floats=[0.5, 1.5, 2.5],
            default_float=-1.0, **domain,
        ),
        node("Add", "l f", "y"),
    ]  # fmt: skip
    return model(nodes, [tensor("column", [1])], [info("x", ["n", 2])])


SEEDS: tuple[Callable[[], bytes], ...] = (
    indexing,
    network,
    attention,
    recurrence,
    loops,
    containers,
    quantized,
    selection,
    vision,
    signal,
    trees,
)
