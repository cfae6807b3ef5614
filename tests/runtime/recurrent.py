"""An ONNX model whose output is the next value of an input."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.onnx_models import model_proto

FEATURES, HIDDEN = 8, 5


def recurrent(batch: int | str = 1) -> bytes:
    """A GRU with its hidden state as an input and its next state as an output, followed by a projection."""
    random = np.random.default_rng(0)
    shapes = {"w": (1, 3 * HIDDEN, FEATURES), "r": (1, 3 * HIDDEN, HIDDEN), "p": (HIDDEN, 2)}
    weights = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("GRU", ["x", "w", "r", "", "", "h"], ["all", "h_next"], hidden_size=HIDDEN),
        helper.make_node("MatMul", ["all", "p"], ["y"]),
    ]
    state = [1, batch, HIDDEN]
    inputs = {"x": ["T", batch, FEATURES], "h": state}
    return bytes(model_proto(nodes, inputs, {"y": None, "h_next": state}, weights).SerializeToString())
