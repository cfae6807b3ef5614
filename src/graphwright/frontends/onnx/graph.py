"""Reads graphs, subgraphs and functions of an ONNX model into a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from graphwright.errors import Diagnostic, ModelError
from graphwright.frontends.onnx.attributes import check_attributes
from graphwright.frontends.onnx.calls import (
    Call,
    attributes_of,
    body_of,
    frame_of,
    location_of,
    require_sizes,
)
from graphwright.frontends.onnx.catalog import Catalog, Translation, Unsupported
from graphwright.frontends.onnx.faults import Fault, Poisoned, Report, text
from graphwright.frontends.onnx.foreign import ForeignNodes, discard
from graphwright.frontends.onnx.metadata import note_modules, read_hint
from graphwright.frontends.onnx.node import OnnxNode
from graphwright.frontends.onnx.order import in_order
from graphwright.frontends.onnx.scope import POISON, Attribute, Scope
from graphwright.frontends.onnx.types import Dims, check_operands, tensor_type
from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Module, Value
from graphwright.ir.op import Import
from graphwright.ir.op.plugin_ops import blamed, defined_at, is_plugin_op
from graphwright.ir.symbols import SymbolError
from graphwright.ir.types import TensorType

MAX_INLINED = 50_000
"""Limit on nodes from inlined functions, whose number can grow exponentially with nested calls."""


class LimitExceeded(ModelError):
    """The model exceeds a limit. Unlike other faults, this ends reading."""


class GraphReader:
    """Reads the graphs of a model into a module. Adds faults to ``report``, and continues."""

    def __init__(
        self,
        module: Module,
        functions: Sequence[onnx.FunctionProto],
        report: Report,
        foreign: ForeignNodes | None,
    ) -> None:
        self.module, self.report, self._foreign = module, report, foreign
        self.dims = Dims(module.symbols)
        self._unsupported: list[tuple[onnx.NodeProto, Mapping[str, int], str]] = []
        """Unsupported nodes that were found, with their opsets and the path of function calls."""
        self._catalog = Catalog(functions, report)
        self._inlined = 0

    @property
    def incomplete(self) -> bool:
        """Whether a node with an unsupported op was found."""
        return bool(self._unsupported)

    def report_all_unsupported(self, graph: onnx.GraphProto, opsets: Mapping[str, int]) -> None:
        """Reports every unsupported op of the model, also in parts that were not read.

        An unsupported op in a function body of the specification is only reported if the model itself has
        none.
        """
        if not self._catalog.report_all_unsupported(graph.node, opsets):
            for node, versions, trail in self._unsupported:
                self._catalog.report_unsupported(node, versions, trail)

    def read_nodes(self, nodes: Sequence[onnx.NodeProto], scope: Scope) -> None:
        """Adds ``nodes`` to the graph of ``scope``, in topological order."""
        ordered, cycle, dependents = in_order(nodes, scope.values.keys() | scope.initializers.keys())
        for node in cycle:
            fault = Fault("cycle", "the node depends on its own output", "export the model again")
            self.report.add(fault, location_of(node, scope))
        for node in (*cycle, *dependents):
            self._poison(node, scope)
        for node in ordered:
            self._read_node(node, scope)

    def read_initializers(self, graph: onnx.GraphProto, scope: Scope) -> None:
        """Adds initializers to the scope. An initializer becomes a constant when a node reads it."""
        replaced = scope.values.keys() | scope.initializers.keys()
        for proto in (*graph.initializer, *graph.sparse_initializer):
            named = proto.values if isinstance(proto, onnx.SparseTensorProto) else proto
            name = ""
            try:
                name = text(named.name)
                if name not in replaced:  # by a constant of the caller, or a faulty input
                    scope.declare(name, proto)
            except Fault as fault:
                self.report.add(fault, name or "an initializer")

    def read_outputs(self, names: Sequence[str], scope: Scope, what: str) -> list[Value] | None:
        """The values of the outputs ``names``; None if one failed."""
        values: list[Value] = []
        for raw in names:
            try:
                name = text(raw)
                value = scope.lookup(name)
                if value is None:
                    raise Fault("dangling-name", f"{name!r} has no value")
                values.append(value)
            except Poisoned:
                continue
            except Fault as fault:
                self.report.add(fault, what)
        return values if len(values) == len(names) else None

    def read_region(
        self, proto: onnx.GraphProto, outer: Scope, name: str, receives: Sequence[TensorType] = ()
    ) -> tuple[Graph, list[Value]]:
        """Reads a subgraph as a closed region. Returns the region, and the outer values that are its last
        inputs (captures).

        ``receives``: types for the inputs of the subgraph that replace the declared ones.
        """
        if receives and len(receives) != len(proto.input):
            given = f"{len(receives)} inputs, but declares {len(proto.input)}"
            raise Fault("import", f"{name!r} receives {given}", "export the model again")
        module, constraints = self.module, dict(self.module.symbols.constraints)
        builder = Builder(module, Graph(name), sources=outer.builder.sources)
        scope = Scope(builder, outer.frame, outer.files, outer, outer.depth + 1)
        for position, info in enumerate(proto.input):
            type = receives[position] if receives else tensor_type(info, self.dims)
            value = builder.graph.add_input(type, text(info.name))
            scope.bind(value.name, value)
        names = [info.name for info in proto.output]
        outputs = self._read_body(proto, scope, names, name)
        builder.graph.set_outputs(outputs, [text(n) for n in names])
        # drop constraints of the region: they must only hold if the region runs
        module.symbols.constraints = constraints
        return builder.graph, list(scope.captured)

    def inline_graph(self, proto: onnx.GraphProto, outer: Scope, name: str) -> list[Value]:
        """Reads a subgraph without inputs into the outer graph. Returns its outputs."""
        if proto.input:
            raise Fault("import", f"{name!r} has inputs and cannot be inlined")
        scope = Scope(outer.builder, outer.frame, outer.files, outer, outer.depth + 1)
        return self._read_body(proto, scope, [info.name for info in proto.output], name)

    def _read_body(
        self, proto: onnx.GraphProto, scope: Scope, names: Sequence[str], what: str
    ) -> list[Value]:
        sources = scope.builder.sources
        self.read_initializers(proto, scope)
        self.read_nodes(proto.node, scope)
        outputs = self.read_outputs(names, scope, what)
        scope.builder.sources = sources
        if outputs is None:
            raise Poisoned
        return outputs

    def _poison(self, node: onnx.NodeProto, scope: Scope) -> None:
        for name in node.output:
            if name and isinstance(name, str):
                scope.values.setdefault(name, POISON)

    def _read_node(self, node: onnx.NodeProto, scope: Scope) -> None:
        location = location_of(node, scope)
        scope.builder.sources = (scope.frame.source or location,)
        try:
            read_hint(node, scope)
            note_modules(node, scope)
            values = self._import(node, scope, location)
            self._bind_outputs(node, values, scope)
        except Poisoned:
            pass
        except Fault as fault:
            self.report.add(fault, location)
        except (LimitExceeded, MemoryError):
            raise
        except ModelError as error:
            self.report.extend(error.diagnostics)
        except Unsupported:
            self._unsupported.append((node, scope.frame.opsets, scope.frame.trail))
        except SymbolError as error:
            self.report.add(Fault("size", str(error)), location)
        except Exception as error:  # invalid in a way that the import function did not check
            self.report.cause = self.report.cause or error
            self.report.add(_malformed(error), location)
        finally:
            self._poison(node, scope)

    def _import(self, node: onnx.NodeProto, scope: Scope, location: str) -> list[Value | None]:
        self._inlined += bool(scope.frame.calls)
        if self._inlined > MAX_INLINED:
            message = f"inlining the functions of the model results in more than {MAX_INLINED} nodes"
            raise LimitExceeded(Fault("budget", message).at(location))
        try:
            translation = self._catalog.translation(node, scope.frame.opsets)
        except Unsupported:
            types = None if self._foreign is None else self._foreign.declared(node, self.dims)
            if self._foreign is None or types is None:
                raise
            inputs = self._operands(node, scope, location)
            return self._foreign.keep(node, types, inputs, scope, attributes_of)
        return self._translate(node, translation, scope, location)

    def _translate(
        self, node: onnx.NodeProto, translation: Translation, scope: Scope, location: str
    ) -> list[Value | None]:
        attributes = attributes_of(node, scope)
        for name, value in (translation.implied or {}).items():
            if name in attributes and attributes[name].proto.i == value:
                del attributes[name]
        if translation.schema is not None:
            check_attributes({name: a.proto for name, a in attributes.items()}, translation.schema)
        inputs = self._operands(node, scope, location)
        if translation.function is not None:
            return self._call(Call(translation.function, translation.key, node, inputs, attributes), scope)
        if translation.schema is not None and not scope.frame.source:  # ONNX violates some in bodies
            check_operands(inputs, len(node.output), translation.schema)
        if translation.mapping is None:
            return self._call_of_schema(node, translation, inputs, attributes, scope)
        importer = OnnxNode(node, translation, scope, location, inputs, attributes, self)
        last = next(reversed(scope.builder.graph), None)
        values = _as_list(_imported(translation.mapping, importer))
        if self._foreign is None or not self._foreign.keeps(translation, scope.builder.graph, last):
            return values
        found = [None if value is None else value.type for value in values]
        discard(scope.builder.graph, last)
        return self._foreign.keep(node, found, inputs, scope, attributes_of)

    def _call_of_schema(
        self,
        node: onnx.NodeProto,
        translation: Translation,
        inputs: Sequence[Value | None],
        attributes: dict[str, Attribute],
        scope: Scope,
    ) -> list[Value | None]:
        """Inlines the function body of the specification. Raises Unsupported if there is none."""
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
        return self._call(Call(body, translation.key, node, inputs, defaults | attributes, source), scope)

    def _operands(self, node: onnx.NodeProto, scope: Scope, location: str) -> list[Value | None]:
        """The inputs without trailing absent ones. Reports all faults; then raises Poisoned if there was
        one.
        """
        inputs: list[Value | None] = []
        complete = True
        for name in node.input:
            try:
                inputs.append(scope.lookup(text(name)) if name else None)
            except Poisoned:
                complete = False
            except Fault as fault:
                self.report.add(fault, location)
                complete = False
        if not complete:
            raise Poisoned
        while inputs and inputs[-1] is None:
            inputs.pop()
        return inputs

    def _call(self, call: Call, scope: Scope) -> list[Value | None]:
        """Inlines a call of a function."""
        function, location = call.function, location_of(call.node, scope)
        if len(call.inputs) > len(function.input):
            given = f"{len(function.input)} inputs, but {len(call.inputs)} are given"
            raise Fault("inputs", f"function {call.key[1]} takes {given}")
        # a body of the specification contains the subgraphs of the node, which may read outer values
        outer = scope if call.source else None
        body = Scope(scope.builder, frame_of(call, scope), scope.files, outer, scope.depth + 1)
        for position, name in enumerate(function.input):
            body.bind(text(name), call.inputs[position] if position < len(call.inputs) else None)
        sources = scope.builder.sources
        self.read_nodes(function.node, body)
        used = zip(function.output, call.node.output, strict=False)
        wanted = list(dict.fromkeys(inner for inner, outer in used if outer))
        outputs = self.read_outputs(wanted, body, location)
        scope.builder.sources = sources
        if outputs is None:
            raise Poisoned
        found = dict(zip(wanted, outputs, strict=True))
        return [found.get(name) for name in function.output]

    def _bind_outputs(self, node: onnx.NodeProto, values: Sequence[Value | None], scope: Scope) -> None:
        wanted = [text(name) for name in node.output]
        for position, name in enumerate(wanted):
            if not name:
                continue
            value = values[position] if position < len(values) else None
            if value is None:
                missing = Fault(
                    "outputs", f"{text(node.op_type)} does not compute its output {position}", "remove it"
                )
                if position >= len(values):
                    raise missing
                scope.bind(name, missing)
                continue
            scope.bind(name, value)
            if not value.name:
                value.name = scope.frame.trail + name


def _malformed(error: Exception) -> Fault:
    hint = next(
        iter(getattr(error, "__notes__", ())), "its inputs or attributes violate the ONNX specification"
    )
    return Fault("import", f"cannot be read ({type(error).__name__}: {error})", hint)


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
