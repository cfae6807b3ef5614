"""The graphs of :mod:`benchmarks.fusion.fused_graphs` as PyTorch modules, for Inductor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper

Tensor = torch.Tensor
Attributes = Mapping[str, Any]


def _conv(attributes: Attributes, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    pads = attributes.get("pads", [0, 0])
    return F.conv2d(
        x, w, b, attributes.get("strides", 1), pads[: len(pads) // 2], 1, attributes.get("group", 1)
    )


def _resize(attributes: Attributes, x: Tensor, roi: None, scales: Tensor) -> Tensor:
    mode = {"nearest": "nearest", "linear": "bilinear"}[attributes["mode"]]
    flags = {} if mode == "nearest" else {"align_corners": False}
    return F.interpolate(x, scale_factor=2.0, mode=mode, **flags)


def _attention(attributes: Attributes, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    causal = bool(attributes["is_causal"])
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


OPERATORS: Final[Mapping[str, Callable[..., Tensor]]] = {
    "Add": lambda attributes, a, b: a + b,
    "Attention": _attention,
    "Concat": lambda attributes, *parts: torch.cat(parts, attributes["axis"]),
    "Conv": _conv,
    "Gelu": lambda attributes, x: F.gelu(x),
    "GlobalAveragePool": lambda attributes, x: x.mean((2, 3), keepdim=True),
    "HardSigmoid": lambda attributes, x: (0.2 * x + 0.5).clamp(0, 1),
    "HardSwish": lambda attributes, x: F.hardswish(x),
    "LayerNormalization": lambda attributes, x, s, b: F.layer_norm(x, x.shape[-1:], s, b),
    "MatMul": lambda attributes, a, b: a @ b,
    "Mul": lambda attributes, a, b: a * b,
    "Relu": lambda attributes, x: F.relu(x),
    "Resize": _resize,
    "RMSNormalization": lambda attributes, x, s: F.rms_norm(x, x.shape[-1:], s, 1e-5),
    "Sigmoid": lambda attributes, x: torch.sigmoid(x),
    "Softmax": lambda attributes, x: torch.softmax(x, -1),
}


class TorchGraph(torch.nn.Module):
    """The graph of ``model``, whose nodes are of :data:`OPERATORS`; initializers are parameters."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__()
        graph = model.graph
        self.inputs = [i.name for i in graph.input]
        self.outputs = [o.name for o in graph.output]
        self.nodes: Sequence[tuple[str, Attributes, Sequence[str], str]] = [
            (n.op_type, {a.name: _attribute(a) for a in n.attribute}, tuple(n.input), n.output[0])
            for n in graph.node
        ]
        for weight in graph.initializer:
            array = np.array(numpy_helper.to_array(weight))
            setattr(
                self,
                f"weight_{weight.name}",
                torch.nn.Parameter(torch.from_numpy(array), requires_grad=False),
            )
        self.weights = [weight.name for weight in graph.initializer]

    def forward(self, *feeds: Tensor) -> tuple[Tensor, ...]:
        """The outputs, of feeds in the order of the graph's inputs."""
        values: dict[str, Tensor | None] = {"": None, **dict(zip(self.inputs, feeds, strict=True))}
        values |= {name: getattr(self, f"weight_{name}") for name in self.weights}
        for op, attributes, operands, result in self.nodes:
            values[result] = OPERATORS[op](attributes, *(values[name] for name in operands))
        return tuple(value for name in self.outputs if (value := values[name]) is not None)


def _attribute(attribute: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    return value.decode() if isinstance(value, bytes) else value


def export(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray[Any, Any]], file: Path) -> None:
    """Write ``model`` to ``file`` as a program that ``torch.export`` saves."""
    module = TorchGraph(model).eval()
    with torch.no_grad():
        torch.export.save(torch.export.export(module, tuple(map(torch.from_numpy, feeds.values()))), file)
