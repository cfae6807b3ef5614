"""Reads one node of an ONNX model: as an op, as a call of a function, or unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import onnx

from graphwright.errors import Diagnostic, ModelError
from graphwright.frontends.onnx.attributes import check_attributes
from graphwright.frontends.onnx.calls import Call, attributes_of, body_of, frame_of, require_sizes
from graphwright.frontends.onnx.catalog import Catalog, Translation, Unsupported
from graphwright.frontends.onnx.faults import Fault, Poisoned, Report, text
from graphwright.frontends.onnx.foreign import ForeignNodes, discard, runs_natively
from graphwright.frontends.onnx.node import OnnxNode, SubgraphReader
from graphwright.frontends.onnx.scope import Attribute, Scope
from graphwright.frontends.onnx.types import Dims, check_operands
from graphwright.ir.graph import Value
from graphwright.ir.op import Import
from graphwright.ir.op.plugin_ops import blamed, defined_at, is_plugin_op


class ModelReader(SubgraphReader, Protocol):
    """What the nodes of a model share: :class:`.graph.GraphReader`."""

    report: Report
    catalog: Catalog
    dims: Dims
    foreign: ForeignNodes | None

    def read_nodes(self, nodes: Sequence[onnx.NodeProto], scope: Scope) -> None:
        """Adds the nodes of a function body to the graph of ``scope``."""

    def read_outputs(self, names: Sequence[str], scope: Scope, what: str) -> list[Value] | None:
        """The values of the outputs ``names`` of a function body; None if one failed."""


class NodeReader:
    """Reads ``node`` into the graph of ``scope``; ``location`` is its path for errors."""

    def __init__(self, reader: ModelReader, node: onnx.NodeProto, scope: Scope, location: str) -> None:
        self._reader, self._node, self._scope, self._location = reader, node, scope, location

    def read(self) -> None:
        """Adds the node and binds its outputs. Raises Fault, Poisoned and Unsupported."""
        self._bind_outputs(self._results())

    def _results(self) -> list[Value | None]:
        reader, node, scope = self._reader, self._node, self._scope
        try:
            translation = reader.catalog.translation(node, scope.frame.opsets)
        except Unsupported:
            types = None if reader.foreign is None else reader.foreign.declared(node, reader.dims)
            if reader.foreign is None or types is None:
                raise
            return reader.foreign.keep(node, types, self._operands(), scope)
        return self._translated(translation)

    def _translated(self, translation: Translation) -> list[Value | None]:
        reader, node, scope = self._reader, self._node, self._scope
        attributes = attributes_of(node, scope)
        if translation.schema is not None:
            check_attributes({name: a.proto for name, a in attributes.items()}, translation.schema)
        inputs = self._operands()
        if translation.function is not None:
            return self._call(Call(translation.function, translation.key, node, inputs, attributes))
        if translation.schema is not None and not scope.frame.source:  # ONNX violates some in bodies
            check_operands(inputs, len(node.output), translation.schema)
        if translation.mapping is None:
            return self._call_of_schema(translation, inputs, attributes)
        importer = OnnxNode(node, translation, scope, self._location, inputs, attributes, reader)
        last = next(reversed(scope.builder.graph), None)
        values = _as_list(_imported(translation.mapping, importer))
        if reader.foreign is None or not reader.foreign.keeps(node, translation, scope.builder.graph, last):
            return values
        found = [None if value is None else value.type for value in values]
        is_native = runs_natively(scope.builder.graph, last, inputs)
        discard(scope.builder.graph, last)
        return reader.foreign.keep(node, found, inputs, scope, is_native=is_native)

    def _call_of_schema(
        self, translation: Translation, inputs: Sequence[Value | None], attributes: Mapping[str, Attribute]
    ) -> list[Value | None]:
        """Inlines the function body of the specification. Raises Unsupported if there is none."""
        node, scope = self._node, self._scope
        if translation.schema is None:
            raise Unsupported
        body = body_of(translation.schema, node, inputs, attributes, translation.version)
        if body is None:
            require_sizes(node, inputs)
            raise Unsupported
        defaults = {
            name: Attribute(a.default_value, scope)
            for name, a in translation.schema.attributes.items()
            if a.default_value.name
        }
        source = scope.builder.sources[0]
        return self._call(Call(body, translation.key, node, inputs, {**defaults, **attributes}, source))

    def _operands(self) -> list[Value | None]:
        """The inputs without trailing absent ones. Reports all faults; then raises Poisoned if there was
        one.
        """
        inputs: list[Value | None] = []
        complete = True
        for name in self._node.input:
            try:
                inputs.append(self._scope.lookup(text(name)) if name else None)
            except Poisoned:
                complete = False
            except Fault as fault:
                self._reader.report.add(fault, self._location)
                complete = False
        if not complete:
            raise Poisoned
        while inputs and inputs[-1] is None:
            inputs.pop()
        return inputs

    def _call(self, call: Call) -> list[Value | None]:
        """Inlines a call of a function."""
        function, scope = call.function, self._scope
        if len(call.inputs) > len(function.input):
            given = f"{len(function.input)} inputs, but {len(call.inputs)} are given"
            raise Fault("inputs", f"function {call.key[1]} takes {given}")
        # a body of the specification contains the subgraphs of the node, which may read outer values
        outer = scope if call.source else None
        body = Scope(scope.builder, frame_of(call, scope), scope.files, outer, scope.depth + 1)
        for position, name in enumerate(function.input):
            body.bind(text(name), call.inputs[position] if position < len(call.inputs) else None)
        sources = scope.builder.sources
        self._reader.read_nodes(function.node, body)
        used = zip(function.output, self._node.output, strict=False)
        wanted = list(dict.fromkeys(inner for inner, outer in used if outer))
        outputs = self._reader.read_outputs(wanted, body, self._location)
        scope.builder.sources = sources
        if outputs is None:
            raise Poisoned
        found = dict(zip(wanted, outputs, strict=True))
        return [found.get(name) for name in function.output]

    def _bind_outputs(self, values: Sequence[Value | None]) -> None:
        scope = self._scope
        wanted = [text(name) for name in self._node.output]
        for position, name in enumerate(wanted):
            if not name:
                continue
            value = values[position] if position < len(values) else None
            if value is None:
                missing = Fault(
                    "outputs",
                    f"{text(self._node.op_type)} does not compute its output {position}",
                    "remove it",
                )
                if position >= len(values):
                    raise missing
                scope.bind(name, missing)
                continue
            scope.bind(name, value)
            if not value.name:
                value.name = scope.frame.trail + name


def _imported(mapping: Import, importer: OnnxNode) -> Any:
    """The result of an import function. An exception of a user's function gets a note with file and line."""
    if not is_plugin_op(mapping):
        return mapping(importer)
    try:
        results = mapping(importer)
    except Exception as error:
        error.add_note(f"raised at {blamed(error, mapping, '').where}")
        raise
    values = [results] if isinstance(results, Value) else results
    if not isinstance(values, list | tuple) or not all(isinstance(v, Value | None) for v in values):
        kind = type(results).__name__
        message = f"importing {importer.op_type} returned {kind}: return the result of i.emit(...)"
        raise ModelError(Diagnostic("plugin", message, defined_at(mapping)))
    return results


def _as_list(result: Value | Sequence[Value | None] | None) -> list[Value | None]:
    return [result] if result is None or isinstance(result, Value) else list(result)
