"""Small models that faults are planted in, with names for all nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
FLOAT: Final = TensorProto.FLOAT


def _weights(seed: int, *shape: int) -> Array:
    return (0.3 * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int]],
    outputs: Sequence[str],
    weights: Mapping[str, Array],
    types: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    taken = [
        helper.make_tensor_value_info(name, (types or {}).get(name, FLOAT), shape)
        for name, shape in inputs.items()
    ]
    given = [onnx.ValueInfoProto(name=name) for name in outputs]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", taken, given, tensors)
    inferred = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    )
    return inferred


def _node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """A node named after its first output, with the suffix ``_node``."""
    results = outputs.split()
    return helper.make_node(op, inputs.split(), results, name=f"{results[0]}_node", **attributes)


def convolutions() -> onnx.ModelProto:
    """Two convolutions, the second with a residual, a pool, a product and a softmax."""
    nodes = [
        _node("Conv", "x w1", "c1", pads=[1, 1, 1, 1]),
        _node("BatchNormalization", "c1 scale bias mean variance", "bn"),
        _node("Relu", "bn", "r1"),
        _node("Conv", "r1 w2", "c2", pads=[1, 1, 1, 1]),
        _node("Add", "c2 r1", "sum"),
        _node("GlobalAveragePool", "sum", "pool"),
        _node("Flatten", "pool", "flat"),
        _node("Gemm", "flat w3 b3", "logits"),
        _node("Softmax", "logits", "y", axis=-1),
    ]
    weights = {
        "w1": _weights(1, 16, 3, 3, 3),
        "scale": _weights(2, 16) + 1,
        "bias": _weights(3, 16),
        "mean": _weights(4, 16),
        "variance": np.abs(_weights(5, 16)) + 0.5,
        "w2": _weights(6, 16, 16, 3, 3),
        "w3": _weights(7, 16, 10),
        "b3": _weights(8, 10),
    }
    return _model(nodes, {"x": (1, 3, 16, 16)}, ["y"], weights)


def perceptron() -> onnx.ModelProto:
    """Products with elementwise work between them, a layer normalization, and constants to fold."""
    nodes = [
        _node("Gemm", "x w1 b1", "p1"),
        _node("Relu", "p1", "r1"),
        _node("Add", "k1 k2", "k"),
        _node("Sub", "r1 k", "d"),
        _node("LayerNormalization", "d scale bias", "n", epsilon=1e-5),
        _node("Gemm", "n w2 b2", "p2"),
        _node("Sigmoid", "p2", "s"),
        _node("Mul", "p2 s", "g"),
        _node("Div", "g divisor", "y"),
    ]
    weights = {
        "w1": _weights(1, 24, 40),
        "b1": _weights(2, 40),
        "k1": _weights(3, 40),
        "k2": _weights(4, 40),
        "scale": _weights(5, 40) + 1,
        "bias": _weights(6, 40),
        "w2": _weights(7, 40, 20),
        "b2": _weights(8, 20),
        "divisor": np.abs(_weights(9, 20)) + 0.5,
    }
    return _model(nodes, {"x": (7, 24)}, ["y"], weights)


def attention() -> onnx.ModelProto:
    """One head of attention as exporters write it."""
    nodes = [
        _node("MatMul", "x wq", "q"),
        _node("MatMul", "x wk", "key"),
        _node("MatMul", "x wv", "v"),
        _node("Transpose", "key", "kt", perm=[0, 2, 1]),
        _node("MatMul", "q kt", "scores"),
        _node("Mul", "scores factor", "scaled"),
        _node("Softmax", "scaled", "share", axis=-1),
        _node("MatMul", "share v", "mixed"),
        _node("Tanh", "mixed", "y"),
    ]
    weights = {name: _weights(k, 32, 32) for k, name in enumerate(("wq", "wk", "wv"))}
    weights["factor"] = np.array(0.18, np.float32)
    return _model(nodes, {"x": (2, 12, 32)}, ["y"], weights)


def movement() -> onnx.ModelProto:
    """Concatenations, slices and transposes between products that keep them apart."""
    nodes = [
        _node("MatMul", "x w1", "a"),
        _node("MatMul", "x w2", "b"),
        _node("Concat", "a b x", "joined", axis=0),
        _node("Transpose", "joined", "turned", perm=[1, 0]),
        _node("MatMul", "turned w3", "c"),
        _node("Slice", "c starts ends axes", "part"),
        _node("MatMul", "part w4", "e"),
        _node("Reshape", "e shape", "folded"),
        _node("MatMul", "folded w5", "f"),
        _node("Exp", "a", "h"),
        _node("ReduceSum", "h", "total", keepdims=0),
        _node("Mul", "f total", "y"),
    ]
    weights = {
        "w1": _weights(1, 16, 16),
        "w2": _weights(2, 16, 16),
        "w3": _weights(3, 24, 24),
        "starts": np.array([4], np.int64),
        "ends": np.array([12], np.int64),
        "axes": np.array([0], np.int64),
        "w4": _weights(4, 24, 24),
        "shape": np.array([16, 12], np.int64),
        "w5": _weights(5, 12, 12),
    }
    return _model(nodes, {"x": (8, 16)}, ["y"], weights)


def residuals() -> onnx.ModelProto:
    """Values that are read again long after they were made: memory of others must not touch them."""
    nodes = [
        _node("MatMul", "x w1", "a"),
        _node("MatMul", "a w2", "b"),
        _node("MatMul", "b w3", "c"),
        _node("MatMul", "c w4", "d"),
        _node("Softmax", "d", "e", axis=-1),
        _node("MatMul", "e w1", "f"),
        _node("Add", "f a", "g"),
        _node("Softmax", "g", "h", axis=-1),
        _node("MatMul", "h w2", "i"),
        _node("Mul", "i b", "y"),
    ]
    weights = {f"w{k}": _weights(k, 48, 48) for k in range(1, 5)}
    return _model(nodes, {"x": (16, 48)}, ["y"], weights)


def square_transpose() -> onnx.ModelProto:
    """A Transpose between products."""
    nodes = [
        _node("MatMul", "x w", "a"),
        _node("Transpose", "a", "turned", perm=[1, 0]),
        _node("Softmax", "turned", "y", axis=-1),
    ]
    return _model(nodes, {"x": (16, 16)}, ["y"], {"w": _weights(1, 16, 16)})


def in_place() -> onnx.ModelProto:
    """A residual that is read again after the sum, whose result could otherwise take its memory."""
    nodes = [
        _node("MatMul", "x w", "a"),
        _node("Softmax", "a", "b", axis=-1),
        _node("MatMul", "b w", "c"),
        _node("Add", "c a", "d"),
        _node("Softmax", "d", "e", axis=-1),
        _node("MatMul", "e w", "f"),
        _node("Mul", "f a", "y"),
    ]
    return _model(nodes, {"x": (16, 16)}, ["y"], {"w": _weights(1, 16, 16)})


def copied_output() -> onnx.ModelProto:
    """An output that is an input, and one that is computed."""
    nodes = [_node("MatMul", "x w", "y"), _node("Identity", "x", "same")]
    return _model(nodes, {"x": (8, 16)}, ["y", "same"], {"w": _weights(1, 16, 16)})


def found_sizes() -> onnx.ModelProto:
    """Two programs: the second is for as many elements as the first found."""
    nodes = [
        _node("MatMul", "x w", "a"),
        _node("Greater", "a least", "large"),
        _node("Reshape", "a all", "flat"),
        _node("Reshape", "large all", "large_flat"),
        _node("Compress", "flat large_flat", "kept"),
        _node("Softmax", "kept", "share", axis=-1),
        _node("Mul", "share kept", "y"),
    ]
    weights = {
        "w": _weights(1, 16, 16),
        "least": np.array(0.1, np.float32),
        "all": np.array([-1], np.int64),
    }
    return _model(nodes, {"x": (8, 16)}, ["y"], weights)


def _body(name: str, nodes: Sequence[onnx.NodeProto], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    return helper.make_graph(nodes, name, inputs, outputs)


def branches() -> onnx.ModelProto:
    """An If on an element of the input."""
    info = [helper.make_tensor_value_info("t", FLOAT, (8, 16))]
    first = _body("yes", [helper.make_node("MatMul", ["a", "w1"], ["t"], name="yes_node")], [], info)
    second = _body("no", [helper.make_node("MatMul", ["a", "w2"], ["t"], name="no_node")], [], info)
    nodes = [
        _node("MatMul", "x w1", "a"),
        _node("ReduceMax", "a", "most", keepdims=0),
        _node("Greater", "most zero", "chosen"),
        helper.make_node("If", ["chosen"], ["c"], name="c_node", then_branch=first, else_branch=second),
        _node("Tanh", "c", "y"),
    ]
    weights = {"w1": _weights(1, 16, 16), "w2": _weights(2, 16, 16), "zero": np.array(0, np.float32)}
    return _model(nodes, {"x": (8, 16)}, ["y"], weights)


def loops() -> onnx.ModelProto:
    """A Loop of three runs that carries a product."""
    scalar = [
        helper.make_tensor_value_info("n", TensorProto.INT64, ()),
        helper.make_tensor_value_info("go", TensorProto.BOOL, ()),
    ]
    inputs = [*scalar, helper.make_tensor_value_info("state", FLOAT, (8, 16))]
    outputs = [
        helper.make_tensor_value_info("still", TensorProto.BOOL, ()),
        helper.make_tensor_value_info("next", FLOAT, (8, 16)),
    ]
    inner = [
        helper.make_node("Identity", ["go"], ["still"], name="still_node"),
        helper.make_node("MatMul", ["state", "w2"], ["product"], name="product_node"),
        helper.make_node("Tanh", ["product"], ["next"], name="next_node"),
    ]
    body = _body("body", inner, inputs, outputs)
    nodes = [
        _node("MatMul", "x w1", "a"),
        helper.make_node("Loop", ["count", "yes", "a"], ["last"], name="last_node", body=body),
        _node("MatMul", "last w1", "y"),
    ]
    weights = {
        "w1": _weights(1, 16, 16),
        "w2": _weights(2, 16, 16),
        "count": np.array(3, np.int64),
        "yes": np.asarray(np.True_),
    }
    return _model(nodes, {"x": (8, 16)}, ["y"], weights)


MODELS: Final[Mapping[str, Callable[[], onnx.ModelProto]]] = {
    made.__name__: made
    for made in (
        convolutions,
        perceptron,
        attention,
        movement,
        residuals,
        square_transpose,
        in_place,
        copied_output,
        found_sizes,
        branches,
        loops,
    )
}
