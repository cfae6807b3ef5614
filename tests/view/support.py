"""Models to draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.onnx_models import model_proto

HOSTILE = '</script><script>alert("\x1b[31m\u202e")</script>&amp;\\u003c'


def layers(count: int, prefix: str = "/encoder/layer.") -> onnx.ModelProto:
    """A model of ``count`` equal layers of three nodes, in scopes of the names that exporters give."""
    nodes, x = [], "x"
    for k in range(count):
        scope = f"{prefix}{k}"
        nodes += [
            helper.make_node("MatMul", [x, "w"], [f"m{k}"], f"{scope}/dense/MatMul"),
            helper.make_node("Add", [f"m{k}", "b"], [f"a{k}"], f"{scope}/dense/Add"),
            helper.make_node("Relu", [f"a{k}"], [f"y{k}"], f"{scope}/Relu"),
        ]
        x = f"y{k}"
    return model(nodes, x)


def hostile() -> onnx.ModelProto:
    """A product and an activation whose names are code, or controls of a terminal."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], f"/{HOSTILE}/{HOSTILE}"),
        helper.make_node("Relu", ["m"], ["y"], HOSTILE),
    ]
    return model(nodes, "y")


def model(nodes: list[onnx.NodeProto], output: str) -> onnx.ModelProto:
    """``nodes`` on x: f32[4, 8], with weights w: f32[8, 8] and b: f32[8]."""
    weights = {"w": np.full((8, 8), 0.25, np.float32), "b": np.arange(8, dtype=np.float32)}
    return model_proto(nodes, {"x": [4, 8]}, {output: [4, 8]}, weights)


def encoder(count: int) -> onnx.ModelProto:
    """``count`` layers of attention and a perceptron, as exporters write them, on x: f32[64, 64]."""
    nodes, x = [], "x"

    def add(op: str, inputs: list[str], output: str, name: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output], name, **attributes))
        return output

    for k in range(count):
        scope = f"/encoder/layer.{k}"
        q, key, v = (add("MatMul", [x, "w"], f"{p}{k}", f"{scope}/attention/{p}/MatMul") for p in "qkv")
        turned = add("Transpose", [key], f"t{k}", f"{scope}/attention/Transpose", perm=[1, 0])
        scores = add("MatMul", [q, turned], f"s{k}", f"{scope}/attention/MatMul")
        shares = add("Softmax", [scores], f"p{k}", f"{scope}/attention/Softmax", axis=-1)
        context = add("MatMul", [shares, v], f"c{k}", f"{scope}/attention/MatMul_1")
        first = add("Add", [context, x], f"a{k}", f"{scope}/Add")
        normed = add("LayerNormalization", [first, "g", "b"], f"n{k}", f"{scope}/norm/LayerNormalization")
        inner = add("MatMul", [normed, "w"], f"h{k}", f"{scope}/mlp/MatMul")
        active = add("Gelu", [inner], f"r{k}", f"{scope}/mlp/Gelu")
        outer = add("MatMul", [active, "w"], f"o{k}", f"{scope}/mlp/MatMul_1")
        x = add("Add", [outer, first], f"y{k}", f"{scope}/Add_1")
    add("Softmax", [x], "y", "/head/Softmax", axis=-1)
    chance = np.random.default_rng(0)
    weights = {
        "w": (chance.standard_normal((64, 64)) / 8).astype(np.float32),
        "g": np.ones(64, np.float32),
        "b": np.zeros(64, np.float32),
    }
    return model_proto(nodes, {"x": [64, 64]}, {"y": [64, 64]}, weights, opset=20)
