"""Modules as models of ONNX: ``write_model(module) -> OnnxModel``.

The method ``Op.to_onnx`` of an op defines its ONNX nodes. One error lists all nodes that cannot be written.
Fused nodes become calls of model-local functions, so that every ONNX engine can run the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper

from graphwright.errors import Collector, ModelError
from graphwright.export.onnx.functions import FUNCTION_DOMAIN, Functions, all_nodes
from graphwright.export.onnx.model import OnnxModel
from graphwright.export.onnx.schemas import OPSET, first_opset
from graphwright.export.onnx.scope import FunctionScope, Scope
from graphwright.export.onnx.sizes import size_of, size_vector
from graphwright.frontends.onnx.types import type_proto
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op import Array, ConstRef
from graphwright.ir.op.exporter import CannotExport, Operand
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import DType, TensorType
from graphwright.support.escaping import terminal
from graphwright.support.unique_names import UniqueNames

MOST_NAMES: Final = 8
"""The most source nodes that the name of a node contains."""
SOURCES: Final = "graphwright.sources"
"""The metadata key of a call: a JSON list of the nodes of the source model that the function replaces."""


def write_model(
    module: Module,
    *,
    metadata: Mapping[str, str] | None = None,
    version: str = "",
    inline: bool = False,
    source_opset: int = OPSET,
) -> OnnxModel:
    """Writes the entry ``main`` of ``module`` as an ONNX model; ``metadata`` is added to that of the module.

    A state becomes an input, and its next value an output. ``version`` is the version of the producer. With
    ``inline``, the graph contains the nodes of fused regions instead of calls. RMSNormalization is one
    node if ``source_opset``, the opset of the source model, has it. Raises ModelError with all nodes that
    cannot be written.
    """
    state = _State(module, inline, max(source_opset, OPSET))
    scope = Scope(UniqueNames())
    graph = _write_graph(state, scope, module.main)
    state.faults.raise_if_any()
    graph.initializer.extend(onnx.TensorProto(name=name) for name in state.weights)
    model = onnx.ModelProto(
        ir_version=_ir_version(state.opset),
        producer_name="graphwright",
        producer_version=version,
        graph=graph,
        functions=state.functions.protos.values(),
    )
    model.opset_import.append(helper.make_opsetid("", state.opset))
    for domain, opset in sorted(state.domains.items()):
        model.opset_import.append(helper.make_opsetid(domain, opset))
    for function in model.functions:
        used = {"", *(node.domain for node in all_nodes(function.node))}
        function.opset_import.extend(each for each in model.opset_import if each.domain in used)
    helper.set_model_props(model, {**module.metadata, **(metadata or {})})
    return OnnxModel(model, state.weights, state.functions.calls)


def _ir_version(opset: int) -> int:
    """The oldest IR version of ONNX that allows ``opset``, or the latest of the installed onnx."""
    newest = int(helper.VERSION_TABLE[-1][1])
    return next((int(row[1]) for row in helper.VERSION_TABLE if int(row[2]) >= opset), newest)


class _State:
    """The state that all graphs and functions of one model share."""

    def __init__(self, module: Module, inline: bool, source_opset: int) -> None:
        self.module, self.inline, self.source_opset = module, inline, source_opset
        self.opset, self.domains = OPSET, dict[str, int]()
        self.weights: dict[str, Array] = {}
        self.held: dict[str, str] = {}
        """Initializers by the digest of their content."""
        self.functions = Functions()
        self.faults = Collector(ModelError)


def _write_graph(state: _State, scope: Scope, graph: Graph) -> onnx.GraphProto:
    proto = onnx.GraphProto(name=graph.name)
    for value in graph.inputs:
        scope.bind(value, scope.names.take(value.name or f"input_{value.index}"))
        proto.input.append(_info(scope.name_of(value), value))
    names = [name or f"output_{k}" for k, name in enumerate(graph.output_names)]
    given = {value: scope.names.take(name) for value, name in _first_names(graph, names).items()}
    _write_nodes(state, scope, graph, given)
    seen: set[str] = set()
    for value, name in zip(graph.outputs, names, strict=True):
        proto.output.append(_info(_output(scope, value, name, given, seen), value))
    proto.node.extend(scope.nodes)
    proto.value_info.extend(_calls_types(graph, scope))
    return proto


def _first_names(graph: Graph, callers: Sequence[str]) -> dict[Value, str]:
    """The names that ``callers`` have for outputs, by the values that compute them; inputs and constants keep
    their names.
    """
    names: dict[Value, str] = {}
    for value, name in zip(graph.outputs, callers, strict=True):
        if value.producer is not None and value.producer.inputs:
            names.setdefault(value, name)
    return names


def _output(scope: Scope, value: Value, name: str, given: Mapping[Value, str], seen: set[str]) -> str:
    """The name of the value for the output ``name``: its own name if no other output has it."""
    own = given.get(value, "")
    if name in (own, scope.values.get(value)) and name not in seen:
        seen.add(name)
        return name
    copy = scope.names.take(name)
    seen.add(copy)
    scope.append("Identity", [scope.name_of(value)], [copy])
    return copy


def _calls_types(graph: Graph, scope: Scope) -> list[onnx.ValueInfoProto]:
    """The types of the results of fused nodes: an engine cannot infer them if a kernel replaces the call."""
    values = [value for node in graph if node.regions for value in node.outputs]
    outputs = set(graph.outputs)
    return [_info(scope.name_of(v), v) for v in values if v in scope.values and v not in outputs]


def _info(name: str, value: Value) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name, type=type_proto(value.type))


def _write_nodes(state: _State, scope: Scope, graph: Graph, given: Mapping[Value, str]) -> None:
    for node in graph:
        if not node.outputs:  # a check of sizes, which the ops after it repeat
            continue
        if node.is_constant and not node.output.uses and node.output not in graph.outputs:
            continue  # it moved into a region
        try:
            _NodeExporter(state, scope, node, given).write()
        except CannotExport as reason:
            _refuse(state, scope, node, str(reason))


def _refuse(state: _State, scope: Scope, node: Node, reason: str) -> None:
    """Records a node that cannot be written. Its readers are still written, to find their faults."""
    hint = "end the model before this node, or report that the op has no mapping"
    state.faults.add(
        "export", terminal(f"{node.op.name} cannot be written: {reason}"), terminal(node.location), hint
    )
    for value in node.outputs:
        scope.bind(value, scope.names.take(f"missing_{value.index}"))


class _NodeExporter:
    """An :class:`~graphwright.ir.op.exporter.Exporter` for one node."""

    def __init__(self, state: _State, scope: Scope, node: Node, given: Mapping[Value, str]) -> None:
        self._state, self._scope, self._node, self._given = state, scope, node, given
        self.source_opset = state.source_opset
        self._first = len(scope.nodes)
        self._emitted: set[str] = set()

    def write(self) -> None:
        """Appends the nodes, and binds their outputs."""
        export = type(self._node.op).to_onnx
        if export is None:
            raise CannotExport("it has no mapping to ONNX")
        results = export(self, self._node.op, *self._node.inputs)
        names = results if isinstance(results, tuple) else (results,)
        for value, name in zip(self._node.outputs, names, strict=True):
            self._scope.bind(value, self._settled(value, name))

    def _settled(self, value: Value, name: str) -> str:
        """The name of an output: that of the source model, or that of the callers."""
        wanted = self._given.get(value)
        if name not in self._emitted:
            if wanted is None or wanted == name:
                return name
            self._scope.append("Identity", [name], [wanted])
            return wanted
        self._emitted.discard(name)
        own = "" if isinstance(self._scope, FunctionScope) else value.name  # so that equal functions are one
        final = wanted or self._scope.names.take(own or name)
        for node in self._scope.nodes[self._first :]:
            _rename(node, name, final)
        return final

    # -- the protocol ---------------------------------------------------------------------------------------

    def emit(
        self,
        op_type: str,
        *inputs: Operand,
        outputs: int = 1,
        since: int = 1,
        domain: str = "",
        **attributes: Any,
    ) -> Any:
        if domain:
            self._state.domains[domain] = max(self._state.domains.get(domain, 1), since)
        else:
            dtypes = tuple(x.type.dtype if isinstance(x, Value) else None for x in inputs)
            result = next((value for value in attributes.values() if isinstance(value, DType)), None)
            self._state.opset = max(self._state.opset, since, first_opset(op_type, dtypes, result))
        names = [self._scope.names.take(f"{op_type.lower()}_{self._next()}") for _ in range(outputs)]
        operands = list(map(self._name, inputs))
        self._scope.append(op_type, operands, names, domain, self._node_name(), attributes)
        self._emitted.update(names)
        return names[0] if outputs == 1 else tuple(names)

    def verbatim(self, node: bytes, version: int, *inputs: Operand) -> Any:
        source = onnx.NodeProto.FromString(node)
        if source.domain:
            self._state.domains[source.domain] = max(self._state.domains.get(source.domain, 1), version)
        else:
            self._state.opset = max(self._state.opset, version)
        stem = source.op_type.lower()
        names = [self._scope.names.take(f"{stem}_{self._next()}") if name else "" for name in source.output]
        operands = list(map(self._name, inputs))
        copy = self._scope.append(source.op_type, operands, names, source.domain, self._node_name())
        copy.attribute.extend(source.attribute)
        given = [name for name in names if name]
        self._emitted.update(given)
        return given[0] if len(given) == 1 else tuple(given)

    def const(self, array: Array) -> str:
        if self._scope.is_in_function:
            return self._inner_constant(array)
        return self.weight(self._state.module.constants.add(np.asarray(array)))

    def weight(self, tensor: ConstRef) -> str:
        if self._scope.is_in_function:
            return self._inner_constant(self._state.module.constants[tensor])
        if tensor.digest not in self._state.held:
            own = self._node.outputs[0].name if not self._node.inputs else ""
            name = self._scope.names.take(own or f"constant_{len(self._state.held)}")
            self._state.held[tensor.digest] = name
            self._state.weights[name] = self._state.module.constants[tensor]
        return self._state.held[tensor.digest]

    def sizes(self, dims: Sequence[Dim]) -> str:
        return size_vector(self._scope, self.const, dims)

    def size(self, dim: Dim) -> str:
        if isinstance(dim, int):
            return self.const(np.array(dim, np.int64))
        vector = size_of(self._scope, self.const, dim)
        return str(self.emit("Reshape", vector, self.const(np.zeros(0, np.int64))))

    def cast(self, value: Operand, dtype: DType) -> str:
        return str(self.emit("Cast", value, to=dtype))

    def failure(self, types: Sequence[TensorType]) -> Any:
        """A value that makes a run fail: a Reshape of an empty tensor to a shape with elements."""
        none = self.const(np.zeros(0, np.int64))
        shapes = [self.sizes([_positive_size(dim) for dim in type.shape or ()]) for type in types]
        results = [
            self.cast(self.emit("Reshape", none, s), t.dtype) for s, t in zip(shapes, types, strict=True)
        ]
        return results[0] if len(results) == 1 else tuple(results)

    def branch(self, region: int, operands: Sequence[Operand]) -> onnx.GraphProto:
        graph = self._node.regions[region]
        return self._subgraph(graph, Scope(self._scope.names, self._scope), operands, [])

    def body(self, captured: Sequence[Operand], conditional: bool) -> onnx.GraphProto:
        (graph,) = self._node.regions
        scope, names = Scope(self._scope.names, self._scope), self._scope.names
        own = graph.inputs[: len(graph.inputs) - len(captured)]
        formals = []
        for value in own:
            scope.bind(value, names.take(value.name or "carried"))
            formals.append(_info(scope.name_of(value), value))
        condition = onnx.ValueInfoProto(name=names.take("condition"))
        condition.type.tensor_type.elem_type = onnx.TensorProto.BOOL
        condition.type.tensor_type.shape.SetInParent()
        formals.insert(1, condition)
        proto = self._subgraph(graph, scope, captured, formals)
        if not conditional:
            goes_on = onnx.ValueInfoProto(name=names.take("goes_on"), type=condition.type)
            proto.node.append(
                onnx.NodeProto(op_type="Identity", input=[condition.name], output=[goes_on.name])
            )
            outputs = [goes_on, *proto.output]
            del proto.output[:]
            proto.output.extend(outputs)
        return proto

    def inline(self, *operands: Operand) -> tuple[str, ...]:
        (graph,) = self._node.regions
        for value, operand in zip(graph.inputs, operands, strict=True):
            self._scope.bind(value, self._name(operand))
        wanted = [self._given.get(value, "") for value in self._node.outputs]
        given = {value: name for value, name in _first_names(graph, wanted).items() if name}
        _write_nodes(self._state, self._scope, graph, given)
        return tuple(map(self._scope.name_of, graph.outputs))

    def call(self, *operands: Operand) -> Any:
        if self._state.inline:
            return self.inline(*operands)
        (graph,) = self._node.regions
        scope = FunctionScope()
        body = self._function(graph, scope)
        name = self._state.functions.add(body, self._node)
        sizes = [size_of(self._scope, self.const, symbol(each)) for each in scope.demanded]
        results = self.emit(name, *operands, *sizes, outputs=len(graph.outputs), domain=FUNCTION_DOMAIN)
        entry = self._scope.nodes[-1].metadata_props.add()
        entry.key, entry.value = SOURCES, json.dumps(list(self._node.sources))
        return results

    # -- parts ----------------------------------------------------------------------------------------------

    def _function(self, graph: Graph, scope: FunctionScope) -> onnx.FunctionProto:
        """``graph`` as a function without a name."""
        for value in graph.inputs:
            scope.bind(value, scope.names.take(f"input_{value.index}"))
        inputs = list(scope.values.values())
        names = [scope.names.take(f"output_{k}") for k, _ in enumerate(graph.outputs)]
        given, seen = _first_names(graph, names), set[str]()
        _write_nodes(self._state, scope, graph, given)
        body = onnx.FunctionProto(domain=FUNCTION_DOMAIN, input=[*inputs, *scope.demanded.values()])
        for value, name in zip(graph.outputs, names, strict=True):
            body.output.append(_output(scope, value, name, given, seen))
        body.node.extend(scope.nodes)
        return body

    def _subgraph(
        self,
        graph: Graph,
        scope: Scope,
        captured: Sequence[Operand],
        formals: Sequence[onnx.ValueInfoProto],
    ) -> onnx.GraphProto:
        outer = graph.inputs[len(graph.inputs) - len(captured) :]
        for value, operand in zip(outer, captured, strict=True):
            scope.bind(value, self._name(operand))
        proto = onnx.GraphProto(name=graph.name, input=formals)
        _write_nodes(self._state, scope, graph, {})
        own = {name for node in scope.nodes for name in node.output}
        for value in graph.outputs:
            name = scope.name_of(value)
            if name not in own:  # an outer value, or one that is an output twice
                name, inner = scope.names.take(f"{name}_out"), name
                scope.append("Identity", [inner], [name])
            own.discard(name)
            proto.output.append(_info(name, value))
        proto.node.extend(scope.nodes)
        return proto

    def _inner_constant(self, array: Array) -> str:
        name = self._scope.names.take("constant")
        self._scope.append("Constant", [], [name], attributes={"value": np.asarray(array)})
        return name

    def _name(self, operand: Operand) -> str:
        if isinstance(operand, Value):
            return self._scope.name_of(operand)
        return operand or ""

    def _next(self) -> int:
        return len(self._scope.nodes)

    def _node_name(self) -> str:
        """The names of the source nodes; of many, the first and their number. In functions a number, so that
        equal functions are written once.
        """
        if isinstance(self._scope, FunctionScope):
            return self._scope.names.take("node")
        name, sources = self._node.location, self._node.sources
        if len(sources) > MOST_NAMES:
            name = f"{sources[0]} and {len(sources) - 1} others"
        return self._scope.names.take(f"node {name}")[5:]


def _positive_size(dim: Dim) -> int:
    """A size of at least one element that fits ``dim``."""
    return max(dim, 1) if isinstance(dim, int) else 1


def _rename(node: onnx.NodeProto, old: str, new: str) -> None:
    for names in (node.input, node.output):
        for index, name in enumerate(names):
            if name == old:
                names[index] = new
