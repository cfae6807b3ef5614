"""ONNX models that tests build by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Info = list[Any] | None | tuple[int, list[Any] | None]
"""An input or output: the shape of an f32 (None for an unknown rank), or a type of ONNX and a shape."""


def model_proto(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Info],
    outputs: Mapping[str, Info],
    weights: Mapping[str, Any] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """A model of ``nodes``."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [_info(name, each) for name, each in inputs.items()],
        [_info(name, each) for name, each in outputs.items()],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def onnx_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Info],
    outputs: Mapping[str, Info],
    weights: Mapping[str, Any] | None = None,
    opset: int = 17,
) -> bytes:
    """:func:`model_proto` as the bytes of a file."""
    return bytes(model_proto(nodes, inputs, outputs, weights, opset).SerializeToString())


def _info(name: str, given: Info) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        name, *(given if isinstance(given, tuple) else (TensorProto.FLOAT, given))
    )
