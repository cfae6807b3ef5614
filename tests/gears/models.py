"""Small models whose inputs have dynamic sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.onnx_models import onnx_model

Array = np.ndarray[Any, Any]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def weight(seed: int, *shape: int) -> Array:
    """A weight that is scaled so that sums stay small."""
    numbers = np.random.default_rng(seed).standard_normal(shape)
    return (numbers / np.sqrt(np.prod(shape[1:]) or 1)).astype(np.float32)


def cnn() -> bytes:
    """``x: f32[N, 3, H, W]`` through convolutions, a gate and pooling to ``y: f32[N, 5]``."""
    return onnx_model(
        [
            node("Conv", ["x", "w0", "b0"], ["c0"], name="stem", pads=[1, 1, 1, 1], strides=[2, 2]),
            node("Relu", ["c0"], ["r0"]),
            node("Conv", ["r0", "w1"], ["c1"], name="middle", pads=[1, 1, 1, 1]),
            node("Sigmoid", ["c1"], ["s"]),
            node("Mul", ["c1", "s"], ["g"]),
            node("GlobalAveragePool", ["g"], ["p"], name="pool"),
            node("Flatten", ["p"], ["f"]),
            node("Gemm", ["f", "w2", "b2"], ["z"]),
            node("Softmax", ["z"], ["y"], axis=-1),
        ],
        {"x": (FLOAT, ["N", 3, "H", "W"])},
        {"y": (FLOAT, ["N", 5])},
        {
            "w0": weight(0, 8, 3, 3, 3),
            "b0": weight(1, 8),
            "w1": weight(2, 16, 8, 3, 3),
            "w2": weight(3, 16, 5),
            "b2": weight(4, 5),
        },
    )


def encoder() -> bytes:
    """A layer of attention over ``ids`` where ``mask`` is not 0, both i64[N, S], to ``y: f32[N, S, 8]``."""
    constants = {
        "table": weight(0, 20, 8),
        "q": weight(1, 8, 8),
        "k": weight(2, 8, 8),
        "v": weight(3, 8, 8),
        "axes": np.array([1]),
        "least": np.array(-1e4, np.float32),
        "one": np.array(1, np.float32),
        "scale": np.array(8**-0.5, np.float32),
    }
    return onnx_model(
        [
            node("Gather", ["table", "ids"], ["e"]),
            node("MatMul", ["e", "q"], ["eq"]),
            node("MatMul", ["e", "k"], ["ek"]),
            node("MatMul", ["e", "v"], ["ev"]),
            node("Transpose", ["ek"], ["kt"], perm=[0, 2, 1]),
            node("MatMul", ["eq", "kt"], ["scores"], name="scores"),
            node("Mul", ["scores", "scale"], ["scaled"]),
            node("Cast", ["mask"], ["mf"], to=FLOAT),
            node("Sub", ["one", "mf"], ["hidden"]),
            node("Mul", ["hidden", "least"], ["low"]),
            node("Unsqueeze", ["low", "axes"], ["bias"]),
            node("Add", ["scaled", "bias"], ["masked"]),
            node("Softmax", ["masked"], ["weights"], name="weights", axis=-1),
            node("MatMul", ["weights", "ev"], ["mixed"], name="mixed"),
            node("Add", ["mixed", "e"], ["y"]),
        ],
        {"ids": (INT64, ["N", "S"]), "mask": (INT64, ["N", "S"])},
        {"y": (FLOAT, ["N", "S", 8])},
        constants,
    )


def plain(op: str, shape: list[Any], result: list[Any] | None = None, **attributes: Any) -> bytes:
    """A model with one node, called ``it``."""
    return onnx_model(
        [node(op, ["x"], ["y"], name="it", **attributes)], {"x": (FLOAT, shape)}, {"y": (FLOAT, result)}
    )


def images(*shape: int, seed: int = 0) -> Array:
    """Random numbers as inputs."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
