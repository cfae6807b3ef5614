"""Small ONNX models whose packages the tests save, load and damage, and their values by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

import graphwright as gw
from tests.onnx_models import onnx_model

Array = np.ndarray[Any, Any]


def rank_by_size() -> bytes:
    """``y`` is the only row of ``x``, a vector, or, where ``x`` has more rows, all of it."""
    node, info = helper.make_node, helper.make_tensor_value_info
    y = [info("y", TensorProto.FLOAT, None)]
    row = helper.make_graph([node("Squeeze", ["x", "first"], ["y"])], "row", [], y)
    all_rows = helper.make_graph([node("Identity", ["x"], ["y"])], "all_rows", [], y)
    return onnx_model(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "first"], ["rows"]),
            node("Equal", ["rows", "one"], ["single"]),
            node("If", ["single"], ["y"], then_branch=row, else_branch=all_rows),
        ],
        {"x": (TensorProto.FLOAT, ["n", "m"])},
        {"y": (TensorProto.FLOAT, None)},
        {"first": np.array([0]), "one": np.array([1])},
    )


class Classifier:
    """A convolution, a pooling and a matmul with softmax over a batch of any size: kernels of all sorts."""

    def __init__(self) -> None:
        random = np.random.default_rng(7)
        self.weight = random.standard_normal((8, 3, 3, 3)).astype(np.float32)
        self.bias = random.standard_normal(8).astype(np.float32)
        self.dense = random.standard_normal((8, 5)).astype(np.float32)
        self.x = random.standard_normal((2, 3, 12, 12)).astype(np.float32)

    def onnx(self) -> bytes:
        node = helper.make_node
        return onnx_model(
            [
                node("Conv", ["x", "weight", "bias"], ["c"], pads=[1, 1, 1, 1]),
                node("Relu", ["c"], ["r"]),
                node("GlobalAveragePool", ["r"], ["p"]),
                node("Flatten", ["p"], ["f"]),
                node("MatMul", ["f", "dense"], ["m"]),
                node("Softmax", ["m"], ["y"], axis=-1),
            ],
            {"x": (TensorProto.FLOAT, ["N", 3, 12, 12])},
            {"y": (TensorProto.FLOAT, ["N", 5])},
            {"weight": self.weight, "bias": self.bias, "dense": self.dense},
        )

    def value(self, x: Array) -> Array:
        """The expected outputs, in f64."""
        padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        convolved = np.einsum("nchwij,ocij->nohw", windows, self.weight) + self.bias[:, None, None]
        logits = np.maximum(convolved, 0).mean((2, 3)) @ self.dense
        exponents = np.exp(logits - logits.max(-1, keepdims=True))
        return exponents / exponents.sum(-1, keepdims=True)

    def check(self, model: gw.Model) -> None:
        """Asserts that ``model`` computes the expected outputs of the example."""
        np.testing.assert_allclose(model(self.x)[0], self.value(self.x), rtol=1e-4, atol=1e-6)
