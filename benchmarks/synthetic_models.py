"""Makes models of any size: chains and blocks of nodes, nested scopes, and weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from graphwright.support.protobuf import field_header

OPSET = 17
FLOAT = TensorProto.FLOAT


class Draft:
    """A chain of nodes, with random weights."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(0)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; the name of its output."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def weight(self, *shape: int) -> str:
        """Add a weight of small numbers."""
        array = self._random.standard_normal(shape, dtype=np.float32) / np.float32(math.prod(shape[:1]))
        return self.constant(array)

    def constant(self, value: Any) -> str:
        """Add a tensor; the name of the constant."""
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def model(self, shape: Sequence[int | str], output: str) -> onnx.ModelProto:
        """The model from ``x`` of ``shape`` to ``output``."""
        return _model(self.nodes, {"x": (FLOAT, shape)}, output, self.weights)


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[int | str]]],
    output: str,
    weights: Sequence[onnx.TensorProto] = (),
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    given = [helper.make_tensor_value_info(name, *type) for name, type in inputs.items()]
    graph = helper.make_graph(
        nodes, "main", given, [helper.make_tensor_value_info(output, FLOAT, None)], weights
    )
    opsets = [helper.make_opsetid("", OPSET), *([helper.make_opsetid("local", 1)] if functions else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions)


def elementwise(count: int) -> onnx.ModelProto:
    """A chain of elementwise ops, which fuses."""
    draft, x = Draft(), "x"
    for k in range(count):
        x = draft.op(("Relu", "Tanh", "Abs", "Neg")[k % 4], x)
    return draft.model((4, 16), x)


def separate(count: int) -> onnx.ModelProto:
    """A chain of ops of which each is a kernel of its own."""
    draft, x = Draft(), "x"
    axis = draft.constant(0)
    for _ in range(-(-count // 4)):
        x = draft.op("Transpose", draft.op("Softmax", x), perm=[1, 0])
        x = draft.op("Transpose", draft.op("CumSum", x, axis), perm=[1, 0])
    return draft.model((4, 16), x)


def dense(count: int) -> onnx.ModelProto:
    """Matrix products with a bias and an activation."""
    draft, x = Draft(), "x"
    for _ in range(-(-count // 3)):
        x = draft.op("Add", draft.op("MatMul", x, draft.weight(16, 16)), draft.weight(16))
        x = draft.op("Relu", x)
    return draft.model((4, 16), x)


def residual(count: int) -> onnx.ModelProto:
    """Blocks of a ResNet: 3x3, 3x3, 1x1, and a sum."""
    draft, x = Draft(), "x"
    for _ in range(-(-count // 6)):
        y = x
        for _ in range(2):
            y = draft.op("Conv", y, draft.weight(16, 16, 3, 3), draft.weight(16), pads=[1, 1, 1, 1])
            y = draft.op("Relu", y)
        y = draft.op("Conv", y, draft.weight(16, 16, 1, 1), draft.weight(16))
        x = draft.op("Add", x, y)
    return draft.model((1, 16, 8, 8), x)


def attention(count: int) -> onnx.ModelProto:
    """Blocks of a transformer: normalization, heads, and a sum."""
    draft, x = Draft(), "x"
    heads, flat = draft.constant([1, 8, 4, 8]), draft.constant([1, 8, 32])
    for _ in range(-(-count // 19)):
        y = draft.op("LayerNormalization", x, draft.weight(32), draft.weight(32))
        parts: list[str] = []
        for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            part = draft.op("Add", draft.op("MatMul", y, draft.weight(32, 32)), draft.weight(32))
            parts.append(draft.op("Transpose", draft.op("Reshape", part, heads), perm=order))
        scores = draft.op("Softmax", draft.op("MatMul", parts[0], parts[1]))
        y = draft.op("Transpose", draft.op("MatMul", scores, parts[2]), perm=[0, 2, 1, 3])
        x = draft.op("Add", x, draft.op("Reshape", y, flat))
    return draft.model((1, 8, 32), x)


def joined(count: int) -> onnx.ModelProto:
    """Blocks of a DenseNet: each convolution reads all before it in its block."""
    draft = Draft()
    features = ["x"]
    for k in range(-(-count // 3)):
        if k % 24 == 0:
            features = features[-1:]
        x = draft.op("Concat", *features, axis=1)
        x = draft.op("Conv", x, draft.weight(16, 16 * len(features), 1, 1))
        features.append(draft.op("Relu", x))
    return draft.model((1, 16, 8, 8), features[-1])


def dynamic_sizes(count: int) -> onnx.ModelProto:
    """Shapes that are computed from an open one: a reshape to and fro with arithmetic for each."""
    draft, x = Draft(), "x"
    zero, four, rest, width = (draft.constant([n]) for n in (0, 4, -1, 16))
    for _ in range(-(-count // 8)):
        size = draft.op("Gather", draft.op("Shape", x), zero)
        y = draft.op("Reshape", x, draft.op("Concat", size, four, rest, axis=0))
        y = draft.op("Reshape", draft.op("Softmax", y), draft.op("Concat", size, width, axis=0))
        x = draft.op("Add", x, y)
    return draft.model(("N", 16), x)


def choices(count: int) -> onnx.ModelProto:
    """Ifs in a row, each decided by elements: a reduction, a comparison, and two branches."""
    draft, x = Draft(), "x"
    limit = draft.constant(np.float32(0.5))
    for k in range(-(-count // 6)):
        largest = draft.op("Greater", draft.op("ReduceMax", x, keepdims=0), limit)
        sides = {}
        for side, kind in (("then_branch", "Neg"), ("else_branch", "Tanh")):
            name = f"{side}_{k}"
            nodes = [
                helper.make_node("Softmax", [x], [f"s{name}"]),
                helper.make_node(kind, [f"s{name}"], [name]),
            ]
            sides[side] = helper.make_graph(nodes, name, [], [_info(name)])
        x = draft.op("If", largest, **sides)
    return draft.model((4, 16), x)


def branches(depth: int) -> onnx.ModelProto:
    """Nested Ifs; protobuf allows about 30."""
    inner: onnx.GraphProto | None = None
    for k in reversed(range(depth)):
        nodes = [helper.make_node("Relu", [f"a{k - 1}" if k else "x"], [f"a{k}"], name=f"relu_{k}")]
        if inner is None:
            nodes.append(helper.make_node("Abs", [f"a{k}"], [f"o{k}"], name=f"abs_{k}"))
        else:
            other = [helper.make_node("Neg", [f"a{k}"], [f"e{k}"], name=f"neg_{k}")]
            otherwise = helper.make_graph(other, f"else_{k}", [], [_info(f"e{k}")])
            branches = {"then_branch": inner, "else_branch": otherwise}
            nodes.append(helper.make_node("If", ["condition"], [f"o{k}"], name=f"if_{k}", **branches))
        inner = helper.make_graph(nodes, f"scope_{k}", [], [_info(f"o{k}")])
    assert inner is not None
    inputs = {"x": (FLOAT, (4, 16)), "condition": (TensorProto.BOOL, ())}
    return _model(inner.node, inputs, "o0")


def loops(depth: int) -> onnx.ModelProto:
    """Nested loops, each carrying the same value."""
    inner: onnx.GraphProto | None = None
    for k in reversed(range(depth)):
        nodes = [helper.make_node("Tanh" if k % 2 else "Relu", [f"x{k}"], [f"a{k}"], name=f"op_{k}")]
        if inner is None:
            nodes.append(helper.make_node("Sin", [f"a{k}"], [f"o{k}"]))
        else:
            given = ["trips", "condition", f"a{k}"]
            nodes.append(helper.make_node("Loop", given, [f"o{k}"], name=f"loop_{k}", body=inner))
        nodes.append(helper.make_node("Identity", [f"c{k}"], [f"d{k}"]))
        number = helper.make_tensor_value_info(f"n{k}", TensorProto.INT64, ())
        going, goes_on = (helper.make_tensor_value_info(f"{n}{k}", TensorProto.BOOL, ()) for n in "cd")
        inner = helper.make_graph(
            nodes, f"body_{k}", [number, going, _matrix_info(f"x{k}")], [goes_on, _matrix_info(f"o{k}")]
        )
    outer = helper.make_node("Loop", ["trips", "condition", "x"], ["y"], name="outer", body=inner)
    inputs = {"x": (FLOAT, (4, 16)), "trips": (TensorProto.INT64, ()), "condition": (TensorProto.BOOL, ())}
    return _model([outer], inputs, "y")


def _matrix_info(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, (4, 16))


def functions(depth: int) -> onnx.ModelProto:
    """Functions that call each other, each the next."""
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("local", 1)]
    made = []
    for k in range(depth):
        last = k == depth - 1
        call = helper.make_node("Abs" if last else f"f{k + 1}", ["b"], ["c"], domain="" if last else "local")
        nodes = [helper.make_node("Relu" if k % 2 else "Tanh", ["a"], ["b"]), call]
        made.append(helper.make_function("local", f"f{k}", ["a"], ["c"], nodes, opsets))
    call = helper.make_node("f0", ["x"], ["y"], name="call", domain="local")
    return _model([call], {"x": (FLOAT, (4, 16))}, "y", functions=made)


def _info(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, None)


NODES: dict[str, Callable[[int], onnx.ModelProto]] = {
    "elementwise chain": elementwise,
    "chain of kernels": separate,
    "dense layers": dense,
    "residual blocks": residual,
    "joined blocks": joined,
    "attention blocks": attention,
    "dynamic sizes": dynamic_sizes,
    "branches in a row": choices,
}
"""By what repeats; each takes the number of nodes."""
SCOPES: dict[str, tuple[Callable[[int], onnx.ModelProto], Sequence[int]]] = {
    "nested branches": (branches, (5, 10, 20, 30)),
    "nested loops": (loops, (5, 10, 20, 30)),
    "nested functions": (functions, (25, 50, 90)),
}
"""Each takes the depth; the depths that a protobuf and ONNX Runtime (100 functions) allow."""

SIDES = (2048, 4096)


def write_weights(path: Path, size: int, external: bool) -> int:
    """Write a model of about ``size`` bytes of weights: f32 matrices of 32 MiB, activations between them.

    ``external``: the weights lie in a file beside the model. Returns the bytes of all files.
    """
    count = max(2, size // (4 * math.prod(SIDES)) // 2 * 2)
    draft, x = Draft(), "x"
    tensors = [TensorProto(name=f"w{k}", data_type=FLOAT, dims=SIDES[:: (-1) ** k]) for k in range(count)]
    for k, tensor in enumerate(tensors):
        x = draft.op("MatMul", x, tensor.name)
        x = draft.op("Relu", x) if k % 2 == 0 else x
    model = draft.model((8, SIDES[0]), x)
    data = path.with_name(f"{path.name}.data")
    if external:
        with data.open("wb") as file:
            for k, tensor in enumerate(tensors):
                tensor.data_location = TensorProto.EXTERNAL
                entries = {"location": data.name, "offset": file.tell(), "length": file.write(_matrix(k))}
                for key, value in entries.items():
                    tensor.external_data.add(key=key, value=str(value))
        model.graph.initializer.extend(tensors)
        path.write_bytes(model.SerializeToString())
        return path.stat().st_size + data.stat().st_size
    with path.open("wb") as file:
        _write_inline(file, model, tensors)
    return path.stat().st_size


def _matrix(number: int) -> bytes:
    values = np.random.default_rng(number).standard_normal(math.prod(SIDES), dtype=np.float32)
    return (values * np.float32(0.02)).tobytes()


def _write_inline(file: BinaryIO, model: onnx.ModelProto, tensors: Sequence[onnx.TensorProto]) -> None:
    """The protobuf with raw data, one tensor in memory at a time: a graph's fields may stand in any order."""
    size = 4 * math.prod(SIDES)
    heads = [tensor.SerializeToString() + field_header(9, size) for tensor in tensors]  # 9: raw_data
    fields = [field_header(5, len(head) + size) + head for head in heads]  # 5: initializer
    graph = model.graph.SerializeToString()
    model.ClearField("graph")
    file.write(model.SerializeToString())
    file.write(field_header(7, len(graph) + sum(len(field) + size for field in fields)) + graph)  # 7: graph
    for number, field in enumerate(fields):
        file.write(field + _matrix(number))
