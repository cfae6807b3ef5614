"""The view of an ONNX node that import functions get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Protocol

import onnx
from onnx import defs

from graphwright.errors import ModelError, UnknownRankError
from graphwright.frontends.onnx.attributes import value_of
from graphwright.frontends.onnx.catalog import Translation
from graphwright.frontends.onnx.faults import Fault
from graphwright.frontends.onnx.scope import Attribute, Scope
from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Value
from graphwright.ir.inference.infer import infer_outputs
from graphwright.ir.op import Array, Fact, Op
from graphwright.ir.symbols import SymbolTable
from graphwright.ir.types import TensorType

GUESSED_RANKS = range(7)
_VARIADIC = defs.OpSchema.FormalParameterOption.Variadic


class SubgraphReader(Protocol):
    """Reads subgraphs of the model, such as the branches of an If: :class:`.graph.GraphReader`."""

    def read_region(
        self, proto: onnx.GraphProto, outer: Scope, name: str, receives: Sequence[TensorType] = ()
    ) -> tuple[Graph, list[Value]]:
        """A subgraph as a closed region, and the outer values that are its last inputs (captures)."""

    def read_branches(self, branches: Mapping[str, Attribute]) -> list[tuple[Graph, list[Value]]]:
        """Subgraphs of which one runs, as :meth:`read_region` gives them; those that cannot run with these
        sizes are regions that fail.
        """

    def inline_graph(self, proto: onnx.GraphProto, outer: Scope, name: str) -> list[Value]:
        """The outputs of a subgraph, which is read into the outer graph."""


class OnnxNode:
    """An :class:`~graphwright.ir.op.Importer` for a node whose operands and attributes have been checked."""

    def __init__(
        self,
        proto: onnx.NodeProto,
        translation: Translation,
        scope: Scope,
        location: str,
        inputs: Sequence[Value | None],
        attributes: dict[str, Attribute],
        reader: SubgraphReader,
    ) -> None:
        self.domain, self.op_type, _ = translation.key
        self.version = translation.version
        self._scope, self._location, self._inputs = scope, location, list(inputs)
        self._attributes, self._outputs = attributes, _count_outputs(proto, translation.schema)
        self._reader = reader

    def input(self, index: int) -> Value:
        """Input ``index``. Raises Fault if it is absent."""
        value = self.optional(index)
        if value is None:
            raise self.fail(f"input {index} is missing", "export the model again")
        return value

    def optional(self, index: int) -> Value | None:
        """Input ``index``, or None if it is absent or empty."""
        return self._inputs[index] if index < len(self._inputs) else None

    def inputs(self) -> list[Value | None]:
        """All inputs."""
        return list(self._inputs)

    @property
    def output_count(self) -> int:
        """Number of outputs that the node declares; empty ones at the end count only for an op with any
        number of outputs.
        """
        return self._outputs

    @property
    def attributes(self) -> dict[str, Any]:
        """All attributes except graphs, by name, as :meth:`attr` returns them."""
        graphs = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
        return {name: self.attr(name) for name, a in self._attributes.items() if a.proto.type not in graphs}

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as int, float, str, tuple or array; ``default`` if absent. Graphs: :meth:`region`."""
        given = self._attributes.get(name)
        return default if given is None else value_of(given.proto, given.scope.files)

    def required_attr(self, name: str) -> Any:
        """An attribute. Raises Fault if it is absent."""
        if name not in self._attributes:
            raise self.fail(f"attribute {name!r} is missing", "export the model again")
        return self.attr(name)

    def constant(self, index: int) -> Array | None:
        """Input ``index`` as an array if its elements are known; None if it is absent or computed."""
        value = self.optional(index)
        return None if value is None else self._scope.known(value)

    def const(self, array: Array) -> Value:
        """A constant."""
        return self._scope.builder.const(array)

    def emit(self, op: Op, *inputs: Value | None, regions: Sequence[Graph] = ()) -> Any:
        """Appends a node. Returns its Value, or a tuple of Values if the op has several outputs."""
        builder = self._scope.builder
        try:
            return builder(op, *inputs, regions=regions)
        except UnknownRankError:
            if regions:
                raise
            facts = [builder.fact(value) for value in inputs]
            return builder(op, *inputs, known=_types_of_unknown_rank(op, facts, self._location))

    @property
    def builder(self) -> Builder:
        """A builder at the end of the graph that is being read."""
        return self._scope.builder

    def declared_ranks(self, name: str) -> list[int | None]:
        """The ranks that a graph attribute declares for its inputs, None where it declares none."""
        types = [info.type.tensor_type for info in self._graph(name).proto.g.input]
        return [len(type.shape.dim) if type.HasField("shape") else None for type in types]

    def region(self, name: str, receives: Sequence[TensorType] = ()) -> tuple[Graph, list[Value]]:
        """A graph attribute as a closed region, and the outer values that are its last inputs (captures)."""
        attribute = self._graph(name)
        return self._reader.read_region(attribute.proto.g, attribute.scope, name, receives)

    def branches(self, *names: str) -> list[tuple[Graph, list[Value]]]:
        """Graph attributes of which one runs, as :meth:`region` gives them. One that cannot run with these
        sizes becomes a region that fails, unless none can run. Raises Poisoned.
        """
        return self._reader.read_branches({name: self._graph(name) for name in names})

    def inline(self, name: str) -> list[Value]:
        """Inlines a graph attribute, for a branch that is known to run. Returns its outputs."""
        attribute = self._graph(name)
        return self._reader.inline_graph(attribute.proto.g, attribute.scope, name)

    def fail(self, message: str, hint: str = "") -> Exception:
        """The exception for ``raise i.fail("...")``: a fault of this node. Reading continues with the next
        one.
        """
        return Fault("import", f"{self.op_type}: {message}", hint)

    def _graph(self, name: str) -> Attribute:
        attribute = self._attributes.get(name)
        if attribute is None or not attribute.proto.HasField("g"):
            raise self.fail(f"attribute {name!r} is not a graph", "export the model again")
        if attribute.scope.builder is not self._scope.builder:
            raise self.fail(f"graph {name!r} is defined outside this branch", "inline the model's functions")
        return attribute


def _count_outputs(node: onnx.NodeProto, schema: defs.OpSchema | None) -> int:
    """Outputs without empty ones at the end, which are absent optional outputs. Split and other ops with any
    number of outputs compute these too.
    """
    count = len(node.output)
    if schema is not None and schema.outputs and schema.outputs[-1].option == _VARIADIC:
        return count
    while count and not node.output[count - 1]:
        count -= 1
    return count


def _types_of_unknown_rank(op: Op, facts: Sequence[Fact | None], location: str) -> tuple[TensorType, ...]:
    """Infers the dtypes of outputs of unknown rank from guessed ranks and elements of the inputs. A guess is
    that all inputs have one rank, or that inputs after the first two are scalars (zero points, thresholds).

    If no guess is valid, the result is the dtype of the first input: ops for which all guesses fail, such as
    resizing and padding, only move elements.
    """
    for guess, equal in product((_with_rank, _with_elements), (len(facts), 2)):
        for rank in GUESSED_RANKS:
            symbols = SymbolTable()
            ranks = [rank] * equal + [0] * (len(facts) - equal)
            pairs = zip(facts, ranks, strict=False)
            guessed = [None if fact is None else guess(fact, r, symbols) for fact, r in pairs]
            try:
                return tuple(
                    TensorType(fact.dtype, None) for fact in infer_outputs(op, guessed, symbols, location)
                )
            except (ModelError, AttributeError, LookupError, TypeError, ValueError):  # the rank is not valid
                continue
    first = next((fact for fact in facts if fact is not None), None)
    if first is None:
        raise Fault("unknown-rank", f"{op.name}: the output type cannot be inferred")
    return tuple(TensorType(first.dtype, None) for _ in range(op.output_count()))


def _with_rank(fact: Fact, rank: int, symbols: SymbolTable) -> Fact:
    """``fact`` with a guessed shape."""
    if fact.type.shape is not None:
        return fact
    return Fact(TensorType(fact.dtype, tuple(symbols.fresh("d") for _ in range(rank))))


def _with_elements(fact: Fact, rank: int, symbols: SymbolTable) -> Fact:
    """``fact`` with a guessed shape and, if it can be a vector of sizes, guessed elements."""
    if not (fact.dtype.is_integer or fact.dtype.is_float) or fact.elements or (fact.type.rank or 0) > 1:
        return _with_rank(fact, rank, symbols)
    scalar = fact.type.rank == 0
    sizes = tuple(symbols.fresh("e") for _ in range(1 if scalar else rank))
    return Fact(TensorType(fact.dtype, () if scalar else (rank,)), sizes)
