"""Damaged models for the whole path: those of the frontend's tests, and others whose numbers alone are wrong.

A mutant is a pure function of its number. Damage to structure is mostly found by the frontend; a wrong size,
axis or index in a model that is well-formed goes through inference, fusion, kernels and the planner.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper

from tests.fuzz import test_onnx_bytes as frontend
from tests.robustness.cases import BOOL, INT64, info, model, node, tensor

NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 63, 1000, -1, -2, -3, -8, 2**31 - 1, 2**31, 2**40, 2**62, -(2**63))


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


SEEDS: tuple[Callable[[], bytes], ...] = (indexing, network, attention, recurrence)


@cache
def _seed(index: int) -> bytes:
    return SEEDS[index]()


def mutant(number: int) -> bytes:
    """Every other one is of the frontend's kind."""
    if number % 2:
        return frontend.mutant(number // 2)
    generator = np.random.default_rng(number)
    damaged = onnx.ModelProto.FromString(_seed(number // 2 % len(SEEDS)))
    for _ in range(int(generator.integers(1, 4))):
        frontend.pick((_change_attribute, _change_weight, _change_input, _change_type), generator)(
            damaged.graph, generator
        )
    data: bytes = damaged.SerializeToString()
    return data


def _change_attribute(graph: onnx.GraphProto, generator: np.random.Generator) -> None:
    attributes = [a for n in graph.node for a in n.attribute if a.ints or a.type == onnx.AttributeProto.INT]
    chosen = frontend.pick(attributes, generator)
    if chosen.ints:
        chosen.ints[int(generator.integers(len(chosen.ints)))] = frontend.pick(NUMBERS, generator)
    else:
        chosen.i = frontend.pick(NUMBERS, generator)


def _change_weight(graph: onnx.GraphProto, generator: np.random.Generator) -> None:
    """Another number, another length, or another axis."""
    chosen = frontend.pick(graph.initializer, generator)
    array = numpy_helper.to_array(chosen).copy()
    match int(generator.integers(4)):
        case 0 if array.ndim:
            array = np.take(array, range(int(generator.integers(array.shape[0] + 1))), axis=0)
        case 1:
            array = array[None] if generator.random() < 0.5 else array.T
        case _ if array.size:
            array.flat[int(generator.integers(array.size))] = frontend.pick(NUMBERS, generator)
    chosen.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), chosen.name))


def _change_input(graph: onnx.GraphProto, generator: np.random.Generator) -> None:
    dims = [d for value in graph.input for d in value.type.tensor_type.shape.dim]
    if dims:
        frontend.pick(dims, generator).dim_value = frontend.pick(NUMBERS, generator)


def _change_type(graph: onnx.GraphProto, generator: np.random.Generator) -> None:
    """Of an input, or of a cast; an input may lose its shape."""
    value = frontend.pick(graph.input, generator)
    if generator.random() < 0.5:
        value.type.tensor_type.ClearField("shape")
    else:
        value.type.tensor_type.elem_type = int(frontend.pick((1, 7, 9, 10, 11, 16, 2, 3), generator))


def parses(data: bytes) -> bool:
    """Whether it is still a model by its encoding."""
    try:
        return bool(onnx.ModelProto.FromString(data).HasField("graph"))
    except DecodeError:
        return False
