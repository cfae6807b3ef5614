"""Reads graphs and subgraphs of an ONNX model into a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from graphwright import log
from graphwright.errors import Diagnostic, ModelError
from graphwright.frontends.onnx.calls import location_of
from graphwright.frontends.onnx.catalog import Catalog, Unsupported
from graphwright.frontends.onnx.declared_outputs import check_outputs
from graphwright.frontends.onnx.faults import Fault, Poisoned, Report, text
from graphwright.frontends.onnx.foreign import ForeignNodes
from graphwright.frontends.onnx.metadata import note_modules, read_hint
from graphwright.frontends.onnx.node_reader import NodeReader
from graphwright.frontends.onnx.order import in_order
from graphwright.frontends.onnx.scope import POISON, Attribute, Scope
from graphwright.frontends.onnx.types import Dims, tensor_type
from graphwright.ir.build import Builder
from graphwright.ir.builtin.fail import failing_region
from graphwright.ir.graph import Graph, Module, Value
from graphwright.ir.op import InferError
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
        self.module, self.report, self.foreign = module, report, foreign
        self.dims = Dims(module.symbols)
        self.catalog = Catalog(functions, report)
        self._unsupported: list[tuple[onnx.NodeProto, Mapping[str, int], str]] = []
        """Unsupported nodes that were found, with their opsets and the path of function calls."""
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
        if not self.catalog.report_all_unsupported(graph.node, opsets):
            for node, versions, trail in self._unsupported:
                self.catalog.report_unsupported(node, versions, trail)

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
        try:
            outputs = self._read_body(proto, scope, names, name)
        finally:  # drop constraints of the region: they must only hold if the region runs
            module.symbols.constraints = constraints
        builder.graph.set_outputs(outputs, [text(n) for n in names])
        return builder.graph, list(scope.captured)

    def read_branches(self, branches: Mapping[str, Attribute]) -> list[tuple[Graph, list[Value]]]:
        """Reads subgraphs of which one runs, as :meth:`read_region` does.

        A branch that cannot run with these sizes becomes a region that fails, with a warning; if none can
        run, the faults of all are reported.
        """
        found: dict[str, tuple[Graph, list[Value]]] = {}
        failed: dict[str, list[Diagnostic]] = {}
        for name, branch in branches.items():
            known, incomplete = len(self.report.diagnostics), self.incomplete
            try:
                found[name] = self.read_region(branch.proto.g, branch.scope, name)
            except Poisoned:
                failed[name] = self.report.diagnostics[known:]
                if self.incomplete != incomplete or {f.code for f in failed[name]} != {InferError.code}:
                    raise
        if not found:
            raise Poisoned
        for name, faults in failed.items():
            (sound, _), *_ = found.values()
            types = [value.type for value in sound.outputs]
            found[name] = failing_region(Graph(name), types, faults[0]), []
            log.warn("%s: the branch %s fails if it is taken: %s", faults[0].where, name, faults[0].message)
            self.report.drop(faults)
        return [found[name] for name in branches]

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
        check_outputs(proto, scope, self.report)
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
            self._count(scope, location)
            NodeReader(self, node, scope, location).read()
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

    def _count(self, scope: Scope, location: str) -> None:
        """Raises LimitExceeded if functions have too many nodes."""
        self._inlined += bool(scope.frame.calls)
        if self._inlined > MAX_INLINED:
            message = f"inlining the functions of the model results in more than {MAX_INLINED} nodes"
            raise LimitExceeded(Fault("budget", message).at(location))


def _malformed(error: Exception) -> Fault:
    hint = next(
        iter(getattr(error, "__notes__", ())), "its inputs or attributes violate the ONNX specification"
    )
    return Fault("import", f"cannot be read ({type(error).__name__}: {error})", hint)
