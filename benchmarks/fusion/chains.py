"""Chains of convolutions as in mobile models, with seeded weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper


class Layer(NamedTuple):
    """A convolution and what follows it; depthwise if ``cout`` is 0."""

    cout: int
    k: int = 1
    stride: int = 1
    dilation: int = 1
    act: str = "Relu"
    pads: tuple[int, int] = (-1, -1)
    """At the top and at the bottom; -1: half of the window."""


def chain(
    layers: Sequence[Layer], cin: int, sizes: Sequence[int | str], skip: bool = False
) -> onnx.ModelProto:
    """The layers one after the other; ``skip`` adds the input to the last one's result."""
    rng = np.random.default_rng(len(layers) * 31 + cin)
    nodes, weights, value, channels = [], [], "x", cin
    for number, layer in enumerate(layers):
        group = channels if layer.cout == 0 else 1
        cout = layer.cout or channels
        shape = (cout, channels // group, layer.k, layer.k)
        half = (layer.k - 1) * layer.dilation // 2
        top, bottom = (half if pad < 0 else pad for pad in layer.pads)
        w = rng.standard_normal(shape).astype(np.float32) / np.sqrt(np.prod(shape[1:]))
        weights += [numpy_helper.from_array(w.astype(np.float32), f"w{number}")]
        weights += [numpy_helper.from_array(rng.standard_normal(cout).astype(np.float32), f"b{number}")]
        nodes += [
            helper.make_node(
                "Conv", [value, f"w{number}", f"b{number}"], [f"c{number}"], group=group,
                strides=[layer.stride] * 2, dilations=[layer.dilation] * 2, pads=[top, half, bottom, half],
            )
        ]  # fmt: skip
        value, channels = f"c{number}", cout
        if skip and number == len(layers) - 1:
            nodes += [helper.make_node("Add", [value, "x"], ["sum"])]
            value = "sum"
        if layer.act == "Silu":
            nodes += [helper.make_node("Sigmoid", [value], [f"s{number}"])]
            nodes += [helper.make_node("Mul", [value, f"s{number}"], [f"a{number}"])]
            value = f"a{number}"
        elif layer.act:
            nodes += [helper.make_node(layer.act, [value], [f"a{number}"])]
            value = f"a{number}"
    n, h, w_ = sizes
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [n, cin, h, w_])
    y = helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "chain", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
