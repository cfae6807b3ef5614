"""Nodes that stay as they are, for models that are written as ONNX again: ops of other domains, which engines
have kernels for that know no other form of them, and ops that have no way back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx

from graphwright.frontends.onnx.catalogue import Meaning, Unsupported
from graphwright.frontends.onnx.faults import Fault, text
from graphwright.frontends.onnx.opsets import domain_of, schema_of
from graphwright.frontends.onnx.scope import Attribute, Scope
from graphwright.frontends.onnx.types import Dims, tensor_type
from graphwright.ir.foreign import Foreign
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.plugin_ops import is_plugin_op
from graphwright.ir.types import TensorType

WRITTEN_OPSET = 21
"""The opset that models are written in; ops that are other ones there are not kept."""
Attributes = Callable[[onnx.NodeProto, Scope], Mapping[str, Attribute]]


class ForeignNodes:
    """Which nodes of a model are kept, and what is declared of their results."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        infos = [*graph.value_info, *graph.output]
        self._infos = {info.name: info for info in infos if info.type.WhichOneof("value")}

    def wants(self, meaning: Meaning, graph: Graph, last: Node | None) -> bool:
        """Whether a node of this meaning is kept; the nodes behind ``last`` are what it was translated to."""
        domain, op_type, _ = meaning.key
        if meaning.mapping is not None and is_plugin_op(meaning.mapping):
            return False
        if domain:
            return True
        if all(type(node.op).to_onnx is not None for node in _behind(graph, last)):
            return False
        own, written = (
            schema_of("", op_type, v) for v in (meaning.version, max(meaning.version, WRITTEN_OPSET))
        )
        return own is not None and written is not None and own.since_version == written.since_version

    def declared(self, node: onnx.NodeProto, dims: Dims) -> list[TensorType | None] | None:
        """What the model declares of the results of a node of an op that is not known; None where it does
        not.
        """
        if not domain_of(text(node.domain)) or not all(n in self._infos for n in node.output if n):
            return None
        return [tensor_type(self._infos[name], dims) if name else None for name in node.output]

    def keep(
        self,
        node: onnx.NodeProto,
        types: Sequence[TensorType | None],
        inputs: Sequence[Value | None],
        scope: Scope,
        attributes: Attributes,
    ) -> list[Value | None]:
        """The node as it is; ``types`` of its results by position."""
        domain, op_type = domain_of(text(node.domain)), text(node.op_type)
        given = [each.proto for each in attributes(node, scope).values()]
        if any(proto.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for proto in given):
            raise Unsupported
        kept = onnx.NodeProto(op_type=op_type, domain=domain, attribute=given)
        present = [
            bool(name) and k < len(types) and types[k] is not None for k, name in enumerate(node.output)
        ]
        kept.output.extend("result" if there else "" for there in present)
        found = tuple(t for t, there in zip(types, present, strict=False) if there and t is not None)
        if not found:
            raise Fault("outputs", f"{op_type} gives nothing that is read")
        version = scope.frame.opsets.get(domain, 1)
        content = kept.SerializeToString(deterministic=True).hex()
        made = scope.builder(Foreign(op_type, domain, version, content, found), *inputs, known=found)
        values = iter(made if isinstance(made, tuple) else (made,))
        return [next(values) if there else None for there in present]


def discard(graph: Graph, last: Node | None) -> None:
    """Erase the nodes behind ``last``, which nothing reads."""
    for node in reversed(list(_behind(graph, last))):
        graph.erase(node)


def _behind(graph: Graph, last: Node | None) -> list[Node]:
    found: list[Node] = []
    for node in reversed(graph):
        if node is last:
            break
        found.append(node)
    return found[::-1]
