"""ONNX models that no one program runs, with feeds: sizes made of elements, texts, loops, open ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
Feed = dict[str, Array]
FLOAT, INT64, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
node = helper.make_node
RANDOM = np.random.default_rng(5)
START = RANDOM.bit_generator.state


@dataclass(frozen=True)
class Partitioned:
    """A model, its feeds, the ops that the host runs, and the number of programs between them."""

    model: bytes
    feeds: Sequence[Feed]
    hosts: Sequence[str]
    programs: int
    open_programs: int = 0


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def onnx_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[Any] | None]],
    outputs: Mapping[str, int],
    weights: Mapping[str, Any] | None = None,
) -> bytes:
    """A model whose outputs are of any shape."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "model",
        [info(name, type, shape) for name, (type, shape) in inputs.items()],
        [info(name, type, None) for name, type in outputs.items()],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def graph(name: str, nodes: Sequence[onnx.NodeProto], inputs: Any, outputs: Any) -> onnx.GraphProto:
    """A body: inputs and outputs as ``(name, type, shape)``."""
    info = helper.make_tensor_value_info
    return helper.make_graph(nodes, name, [info(*i) for i in inputs], [info(*o) for o in outputs])


def detector() -> Partitioned:
    """A convolution, heads for boxes and scores, NonMaxSuppression, and the boxes that it chose, scaled."""
    nodes = [
        node("Conv", ["image", "weight"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["c"], ["features"]),
        node("Conv", ["features", "w_boxes"], ["b"]),
        node("Conv", ["features", "w_scores"], ["s"]),
        node("Reshape", ["b", "flat_boxes"], ["b1"]),
        node("Transpose", ["b1"], ["b2"], perm=[0, 2, 1]),
        node("Sigmoid", ["b2"], ["boxes"]),
        node("Reshape", ["s", "flat_scores"], ["s1"]),
        node("Sigmoid", ["s1"], ["scores"]),
        node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["chosen"]),
        node("Gather", ["chosen", "two"], ["index"], axis=1),
        node("Squeeze", ["boxes", "zero"], ["all"]),
        node("Gather", ["all", "index"], ["found"], axis=0),
        node("Mul", ["found", "scale"], ["result"]),
    ]
    weights = {
        "weight": normal(8, 3, 3, 3),
        "w_boxes": normal(4, 8, 1, 1),
        "w_scores": normal(2, 8, 1, 1),
        "flat_boxes": np.array([1, 4, -1]),
        "flat_scores": np.array([1, 2, -1]),
        "most": np.array([5]),
        "overlap": np.array([0.4], np.float32),
        "least": np.array([0.6], np.float32),
        "two": np.array(2),
        "zero": np.array([0]),
        "scale": np.array([640, 480, 640, 480], np.float32),
    }
    inputs = {"image": (FLOAT, [1, 3, "H", "W"])}
    outputs = {"result": FLOAT, "chosen": INT64, "features": FLOAT}
    feeds = [{"image": normal(1, 3, *size)} for size in ((16, 16), (8, 12), (2, 2))]
    return Partitioned(onnx_model(nodes, inputs, outputs, weights), feeds, [], 2)


def positives() -> Partitioned:
    """Elements above 0 with their places, summed, and gathered again from a second matrix."""
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("Relu", ["m"], ["r"]),
        node("NonZero", ["r"], ["places"]),
        node("Transpose", ["places"], ["rows"]),
        node("GatherND", ["r", "rows"], ["kept"]),
        node("Exp", ["kept"], ["y"]),
        node("ReduceSum", ["kept"], ["sum"], keepdims=0),
    ]
    model = onnx_model(
        nodes, {"x": (FLOAT, ["N", 6])}, {"y": FLOAT, "sum": FLOAT, "rows": INT64}, {"w": normal(6, 5)}
    )
    feeds = [
        {"x": normal(4, 6)},
        {"x": np.zeros((3, 6), np.float32)},
        {"x": normal(1, 6)},
        {"x": normal(0, 6)},
    ]
    return Partitioned(model, feeds, [], 2)


def reshaped() -> Partitioned:
    """A shape among the inputs: its elements decide what follows."""
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Reshape", ["r", "shape"], ["s"]),
        node("Transpose", ["s"], ["t"], perm=[1, 0]),
        node("Softmax", ["t"], ["y"]),
    ]
    model = onnx_model(nodes, {"x": (FLOAT, ["N", 6]), "shape": (INT64, [2])}, {"y": FLOAT})
    feeds = [{"x": normal(2, 6), "shape": np.array(shape)} for shape in ((3, 4), (-1, 2), (12, 1), (0, -1))]
    return Partitioned(model, feeds, ["Reshape"], 2)


def resized() -> Partitioned:
    """An image brought to the size that another input says."""
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Resize", ["r", "", "", "sizes"], ["z"], mode="linear"),
        node("Sigmoid", ["z"], ["y"]),
    ]
    model = onnx_model(nodes, {"x": (FLOAT, [1, 3, "H", "W"]), "sizes": (INT64, [4])}, {"y": FLOAT})
    feeds = [
        {"x": normal(1, 3, 7, 8), "sizes": np.array([1, 3, *size])} for size in ((14, 9), (3, 4), (7, 8))
    ]
    return Partitioned(model, feeds, [], 2)


def expanded() -> Partitioned:
    """What is expanded meets sizes of 1, which no one can know of before."""
    nodes = [
        node("Expand", ["x", "shape"], ["e"]),
        node("Add", ["e", "b"], ["a"]),
        node("Relu", ["a"], ["y"]),
    ]
    inputs = {"x": (FLOAT, ["N", 1]), "shape": (INT64, [2]), "b": (FLOAT, [1, "M"])}
    model = onnx_model(nodes, inputs, {"y": FLOAT})
    shapes = ((2, 5), (1, 1), (2, 1))
    feeds = [{"x": normal(2, 1), "shape": np.array(shape), "b": normal(1, 5)} for shape in shapes]
    return Partitioned(model, feeds, ["Expand"], 1)


def open_rank() -> Partitioned:
    """As many sizes as an input has elements: the rank is known when it has run."""
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Reshape", ["r", "shape"], ["s"]),
        node("Exp", ["s"], ["y"]),
        node("ReduceSum", ["y"], ["sum"], keepdims=0),
    ]
    model = onnx_model(nodes, {"x": (FLOAT, ["N", 6]), "shape": (INT64, ["L"])}, {"y": FLOAT, "sum": FLOAT})
    shapes = ((3, 4), (2, 3, 2), (12,), (4, 3))
    feeds = [{"x": normal(2, 6), "shape": np.array(shape)} for shape in shapes]
    return Partitioned(model, feeds, ["Reshape"], 2, 1)


def open_input() -> Partitioned:
    """An input of any rank, the places where it is above 0, and how many they are."""
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("NonZero", ["r"], ["places"]),
        node("Shape", ["places"], ["counts"]),
        node("Exp", ["r"], ["y"]),
    ]
    model = onnx_model(nodes, {"x": (FLOAT, None)}, {"y": FLOAT, "places": INT64, "counts": INT64})
    feeds = [{"x": normal(*shape)} for shape in ((3, 4), (5,), (2, 1, 3), (2, 5))]
    return Partitioned(model, feeds, [], 1, 1)


def counted() -> Partitioned:
    """How many elements are above 0 decides a size; the places themselves are not read."""
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("Shape", ["places"], ["count"], start=1),
        node("ConstantOfShape", ["count"], ["zeros"]),
        node("Cos", ["zeros"], ["y"]),
    ]
    model = onnx_model(nodes, {"x": (FLOAT, ["N", 3])}, {"y": FLOAT})
    feeds = [{"x": np.maximum(normal(rows, 3), 0)} for rows in (2, 5, 0)]
    return Partitioned(model, feeds, [], 2)


def growing() -> Partitioned:
    """A loop whose carried value grows with each run, until its sum is large."""
    body = graph(
        "body",
        [
            node("Add", ["v", "one"], ["v2"]),
            node("ReduceSum", ["v2"], ["sum"], keepdims=0),
            node("Less", ["sum", "limit"], ["go_on"]),
            node("Concat", ["rows", "v2"], ["rows2"], axis=0),
        ],
        [("i", INT64, []), ("c", BOOL, []), ("v", FLOAT, [None]), ("rows", FLOAT, [None])],
        [("go_on", BOOL, []), ("v2", FLOAT, [None]), ("rows2", FLOAT, [None])],
    )
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Loop", ["", "true", "r", "r"], ["last", "all"], body=body),
        node("Exp", ["all"], ["y"]),
    ]
    weights = {"true": np.array(True), "one": np.float32(0.5), "limit": np.float32(9)}
    model = onnx_model(nodes, {"x": (FLOAT, ["N"])}, {"y": FLOAT, "last": FLOAT}, weights)
    return Partitioned(model, [{"x": normal(size)} for size in (4, 1, 7)], ["Loop"], 3)


def branching() -> Partitioned:
    """An If whose branches give other ranks, one of them by NonZero."""
    then = graph(
        "then",
        [node("NonZero", ["r"], ["z"]), node("Cast", ["z"], ["f"], to=FLOAT), node("Relu", ["f"], ["o"])],
        [],
        [("o", FLOAT, None)],
    )
    other = graph("other", [node("ReduceSum", ["r"], ["o2"], keepdims=0)], [], [("o2", FLOAT, None)])
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("If", ["which"], ["o"], then_branch=then, else_branch=other),
        node("Exp", ["o"], ["y"]),
    ]
    model = onnx_model(nodes, {"x": (FLOAT, ["N", 3]), "which": (BOOL, [])}, {"y": FLOAT})
    feeds = [{"x": normal(2, 3), "which": np.array(which)} for which in (True, False, True)]
    return Partitioned(model, feeds, ["If"], 4)


def texts() -> Partitioned:
    """Words of lines, looked up, and looked up again in a table of vectors."""
    nodes = [
        node("StringSplit", ["lines"], ["words", "counts"], delimiter=" "),
        node(
            "LabelEncoder",
            ["words"],
            ["ids"],
            domain="ai.onnx.ml",
            keys_strings=["a", "b", "c"],
            values_int64s=[1, 2, 3],
            default_int64=0,
        ),
        node("Gather", ["table", "ids"], ["vectors"]),
        node("Tanh", ["vectors"], ["y"]),
    ]
    model = onnx_model(
        nodes,
        {"lines": (STRING, ["N"])},
        {"y": FLOAT, "words": STRING, "counts": INT64},
        {"table": normal(4, 5)},
    )
    feeds = [{"lines": np.array(lines, object)} for lines in (["a b", "c d e"], ["b"], ["a a", "c"])]
    return Partitioned(model, feeds, ["StringSplit", "LabelEncoder"], 1)


def two_in_a_row() -> Partitioned:
    """Two sizes that elements decide, one behind the other with a program between, and what needs neither."""
    nodes = [
        node("Abs", ["x"], ["a"]),
        node("Unique", ["a"], ["u", "", "inverse", ""], sorted=1),
        node("Mul", ["u", "u"], ["squares"]),
        node("Greater", ["squares", "one"], ["large"]),
        node("Compress", ["squares", "large"], ["kept"]),
        node("Sqrt", ["kept"], ["roots"]),
        node("ReduceMax", ["x"], ["most"], keepdims=0),
        node("Sub", ["roots", "most"], ["y"]),
    ]
    model = onnx_model(
        nodes, {"x": (FLOAT, ["N"])}, {"y": FLOAT, "inverse": INT64}, {"one": np.float32(0.25)}
    )
    feeds = [{"x": np.round(normal(size), 1)} for size in (9, 3, 30)]
    return Partitioned(model, feeds, [], 3)


def seeded(build: Callable[[], Partitioned]) -> Callable[[], Partitioned]:
    """``build``, which draws the same numbers whatever was built before."""

    def made() -> Partitioned:
        RANDOM.bit_generator.state = START
        return build()

    return made


MODELS: dict[str, Callable[[], Partitioned]] = {
    made.__name__: seeded(made)
    for made in (
        detector, positives, reshaped, resized, expanded, open_rank, open_input, growing, branching, texts,
        two_in_a_row, counted,
    )
}  # fmt: skip
