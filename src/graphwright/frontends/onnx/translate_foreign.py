"""Translates the foreign nodes of a program: only exported models keep them as they are."""

from __future__ import annotations

import onnx

from graphwright.errors import Diagnostic, ModelError
from graphwright.frontends.onnx.catalog import Unsupported
from graphwright.frontends.onnx.faults import Fault, Poisoned, Report
from graphwright.frontends.onnx.graph import GraphReader
from graphwright.frontends.onnx.model_files import ModelFiles
from graphwright.frontends.onnx.node_reader import NodeReader
from graphwright.frontends.onnx.scope import Frame, Scope
from graphwright.ir.build import Builder
from graphwright.ir.builtin.foreign import Foreign
from graphwright.ir.graph import Graph, Module, Node, Value


def translate_foreign(module: Module, graph: Graph) -> None:
    """Replaces the Foreign nodes of ``graph`` that are native by the ops of their import functions. Raises
    ModelError.
    """
    reader = GraphReader(module, (), Report(), None)
    for node in list(graph):
        if not isinstance(node.op, Foreign) or not node.op.is_native:
            continue
        builder = Builder(module, graph, node, node.sources, node.origin)
        scope = Scope(builder, Frame({node.op.domain: node.op.version}), ModelFiles(None))
        try:
            results = _translated(reader, node, onnx.NodeProto.FromString(bytes.fromhex(node.op.node)), scope)
        except (Fault, Poisoned, Unsupported) as error:
            message = f"{node.op.source_name} cannot be translated: {error}"
            raise ModelError(Diagnostic("import", message, node.location)) from error
        graph.replace_node(node, results)


def _translated(reader: GraphReader, node: Node, proto: onnx.NodeProto, scope: Scope) -> list[Value]:
    for position, value in enumerate(node.inputs):
        proto.input.append("" if value is None else f"input_{position}")
        if value is not None:
            scope.bind(proto.input[position], value)
    for position, name in enumerate(proto.output):
        proto.output[position] = name and f"output_{position}"
    NodeReader(reader, proto, scope, node.location).read()
    results = (scope.lookup(name) for name in proto.output if name)
    return [value for value in results if value is not None]
