"""The result of the writer: a model without its weights, and the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from graphwright.export.onnx.attributes import tensor_proto
from graphwright.ir.graph import Node
from graphwright.ir.op import Array
from graphwright.records import dataclass


@dataclass(frozen=True)
class OnnxModel:
    """A model without its weights, and the weights by the names of their initializers. ``calls`` are the
    Fused nodes that became calls of each function.
    """

    proto: onnx.ModelProto
    weights: Mapping[str, Array]
    calls: Mapping[str, Sequence[Node]]

    @property
    def weight_bytes(self) -> int:
        return sum(array.nbytes for array in self.weights.values())

    def with_weights(self) -> onnx.ModelProto:
        """The model with its weights, which must be smaller than 2 GiB."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        for tensor in proto.graph.initializer:
            tensor.CopyFrom(tensor_proto(self.weights[tensor.name], tensor.name))
        return proto
