"""Foreign nodes: nodes that stay unchanged in a model that is exported to ONNX again.

These are ops of other domains, ops that ONNX defines by functions (Attention, RotaryEmbedding) and that are
translated to several, and ops without an export function. The target engine may have kernels for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx

from graphwright.frontends.onnx.calls import attributes_of
from graphwright.frontends.onnx.catalog import Translation, Unsupported
from graphwright.frontends.onnx.faults import Fault, text
from graphwright.frontends.onnx.opsets import domain_of, has_body, schema_of
from graphwright.frontends.onnx.scope import Scope
from graphwright.frontends.onnx.types import Dims, tensor_type
from graphwright.ir.builtin.foreign import Foreign
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.op import Op
from graphwright.ir.op.plugin_ops import is_plugin_op
from graphwright.ir.types import TensorType
from graphwright.ops.contrib.nchwc import DOMAIN as BLOCKED

WRITTEN_OPSET = 21
"""The opset of exported models. A node is only kept if its op is the same in this opset."""


class ForeignNodes:
    """Decides which nodes of a model are kept, and knows the declared types of their results."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        infos = [*graph.value_info, *graph.output]
        self._infos = {info.name: info for info in infos if info.type.WhichOneof("value")}

    def keeps(self, node: onnx.NodeProto, translation: Translation, graph: Graph, last: Node | None) -> bool:
        """Whether to keep ``node`` instead of ``translation``, which added the nodes after ``last``."""
        domain, op_type, _ = translation.key
        if translation.mapping is not None and is_plugin_op(translation.mapping):
            return False
        if domain == BLOCKED:  # the weights have the order of one kind of processor
            return False
        if domain:
            return True
        ops = [each.op for each in _after(graph, last) if not each.is_constant]
        if all(type(op).to_onnx is not None for op in ops) and not _is_composite(translation, ops):
            return False
        if _has_graphs(node.attribute):
            return False
        own, written = (
            schema_of("", op_type, v) for v in (translation.version, max(translation.version, WRITTEN_OPSET))
        )
        return own is not None and written is not None and own.since_version == written.since_version

    def declared(self, node: onnx.NodeProto, dims: Dims) -> list[TensorType | None] | None:
        """The declared types of the results of an unsupported node; None if the model lacks a declaration."""
        if not domain_of(text(node.domain)) or not all(n in self._infos for n in node.output if n):
            return None
        return [tensor_type(self._infos[name], dims) if name else None for name in node.output]

    def keep(
        self,
        node: onnx.NodeProto,
        types: Sequence[TensorType | None],
        inputs: Sequence[Value | None],
        scope: Scope,
        *,
        is_native: bool = False,
    ) -> list[Value | None]:
        """Adds a Foreign node for ``node``, with results of ``types``. Returns its results."""
        domain, op_type = domain_of(text(node.domain)), text(node.op_type)
        given = [each.proto for each in attributes_of(node, scope).values()]
        if _has_graphs(given):
            raise Unsupported
        kept = onnx.NodeProto(op_type=op_type, domain=domain, attribute=given)
        present = [
            bool(name) and k < len(types) and types[k] is not None for k, name in enumerate(node.output)
        ]
        kept.output.extend("result" if there else "" for there in present)
        found = tuple(t for t, there in zip(types, present, strict=False) if there and t is not None)
        if not found:
            raise Fault("outputs", f"no result of {op_type} is used")
        version = scope.frame.opsets.get(domain, 1)
        content = kept.SerializeToString(deterministic=True).hex()
        op = Foreign(op_type, domain, version, content, found, is_native)
        results = scope.builder(op, *inputs, known=found)
        values = iter(results if isinstance(results, tuple) else (results,))
        return [next(values) if there else None for there in present]


def _has_graphs(attributes: Iterable[onnx.AttributeProto]) -> bool:
    """Whether a node with ``attributes`` has subgraphs, which cannot be kept as they are."""
    return any(each.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for each in attributes)


def _is_composite(translation: Translation, ops: Sequence[Op]) -> bool:
    """Whether ONNX defines the op by a function body, and ``ops``, its translation, are not one ONNX op."""
    schema = translation.schema
    if schema is None or not has_body(schema, translation.version):
        return False
    return len(ops) > 1 or any(schema_of("", op.name, translation.version) is None for op in ops)


def runs_natively(graph: Graph, last: Node | None, inputs: Sequence[Value | None]) -> bool:
    """Whether a program can contain the nodes after ``last``, the translation of a node with ``inputs``: all
    types must be known, and all sizes must follow from those of the inputs.
    """
    known = symbols_in(value.type for value in inputs if value is not None)
    types = [value.type for node in _after(graph, last) for value in node.outputs]
    return all(t.dtype.bits and t.shape is not None for t in types) and symbols_in(types) <= known


def discard(graph: Graph, last: Node | None) -> None:
    """Erases the nodes after ``last``, which have no readers."""
    for node in reversed(list(_after(graph, last))):
        graph.erase(node)


def _after(graph: Graph, last: Node | None) -> list[Node]:
    found: list[Node] = []
    for node in reversed(graph):
        if node is last:
            break
        found.append(node)
    return found[::-1]
