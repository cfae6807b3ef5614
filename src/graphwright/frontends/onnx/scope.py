"""The names that are visible in a graph while it is read, and the capture of outer values by regions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from graphwright.frontends.onnx.faults import Fault, Poisoned
from graphwright.frontends.onnx.model_files import ModelFiles
from graphwright.frontends.onnx.tensors import sparse_to_array, to_array
from graphwright.ir.build import Builder
from graphwright.ir.builtin.constant import constant_of
from graphwright.ir.graph import Value
from graphwright.ir.nesting import MAX_DEPTH
from graphwright.ir.op import Array, is_known
from graphwright.records import dataclass, field

Initializer = onnx.TensorProto | onnx.SparseTensorProto | np.ndarray


@dataclass(frozen=True)
class Attribute:
    """An attribute and its scope: if the attribute is a graph, it can use the names of the scope."""

    proto: onnx.AttributeProto
    scope: Scope


@dataclass(frozen=True)
class Frame:
    """The context of all nodes of a model, or of one function call."""

    opsets: Mapping[str, int]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    """Attributes of the call, to which attributes in the body can refer."""
    calls: tuple[tuple[str, str, str], ...] = ()
    """The functions that are being inlined, outermost first."""
    trail: str = ""
    """Prefix of names inside the call."""
    source: str = ""
    """The source node of all nodes in this frame, if the body is that of the specification."""


class Poison:
    """Marks a value that could not be imported."""


POISON = Poison()


class Scope:
    """The names of a graph, a subgraph, or a function body.

    ``values`` maps a name to its value, to None (a function input that the call omits), to poison, or to the
    fault that reading it raises.
    """

    def __init__(
        self, builder: Builder, frame: Frame, files: ModelFiles, outer: Scope | None = None, depth: int = 0
    ) -> None:
        if depth > MAX_DEPTH:
            raise Fault(
                "depth",
                f"subgraphs or function calls nest deeper than {MAX_DEPTH} levels",
                "flatten the model",
            )
        self.builder, self.frame, self.files, self.outer, self.depth = builder, frame, files, outer, depth
        self.values: dict[str, Value | Poison | Fault | None] = {}
        self.initializers: dict[str, Initializer] = {}
        self.captured: dict[Value, Value] = {}
        """The outer values that this region captures, and their region inputs."""

    def lookup(self, name: str) -> Value | None:
        """The value called ``name``. Raises Fault if there is none, Poisoned if it failed before."""
        found = self._find(name)
        if isinstance(found, Poison):
            raise Poisoned
        if isinstance(found, Fault):
            raise found
        return found

    def bind(self, name: str, value: Value | Poison | Fault | None) -> None:
        """Defines ``name`` as ``value``. Raises Fault if the name is already defined."""
        if name in self.values or name in self.initializers:
            raise Fault("duplicate-name", f"{name!r} is produced twice", "give every value a unique name")
        self.values[name] = value

    def declare(self, name: str, source: Initializer) -> None:
        """Defines ``name`` as an initializer. Raises Fault if it is defined already, with other elements."""
        earlier = self.initializers.setdefault(name, source)
        if earlier is not source and not _are_equal(self._elements(earlier), self._elements(source)):
            message = "the initializer occurs twice, with different elements"
            raise Fault("duplicate-name", message, "keep one")

    def known(self, value: Value) -> Array | None:
        """The elements of ``value`` if they are known: it is a constant, or was computed from static
        sizes.
        """
        fact = self.builder.fact(value)
        if fact is None or fact.data is not None or fact.elements is None or fact.type.shape is None:
            return None if fact is None else fact.data
        if not is_known(fact.elements) or not fact.type.is_static:
            return None
        return np.array(fact.elements, fact.dtype.numpy).reshape(fact.type.shape)

    def _find(self, name: str) -> Value | Poison | Fault | None:
        if name in self.values:
            return self.values[name]
        if name in self.initializers:
            return self._materialize(name)
        if self.outer is None:
            self.values[name] = POISON
            raise Fault(
                "dangling-name",
                f"{name!r} is not produced by any node",
                "the model is incomplete: export it again",
            )
        found = self.outer._find(name)
        if isinstance(found, Value) and found.graph is not self.builder.graph:
            found = self._capture(found)
        self.values[name] = found
        return found

    def _materialize(self, name: str) -> Value | Poison:
        self.values[name] = POISON
        value = self.builder.const(self._elements(self.initializers[name]))
        value.name = self.frame.trail + name
        self.values[name] = value
        return value

    def _elements(self, source: Initializer) -> Array:
        if isinstance(source, np.ndarray):
            return source
        if isinstance(source, onnx.TensorProto):
            return to_array(source, self.files)
        return sparse_to_array(source, self.files)

    def _capture(self, outer: Value) -> Value:
        """``outer`` inside this region: a constant is copied, any other value becomes an input."""
        if (constant := constant_of(outer)) is not None:
            inner: Value = self.builder(constant)
            inner.name = outer.name
            return inner
        if outer not in self.captured:
            parameter = self.builder.graph.add_input(outer.type, outer.name)
            self.captured[outer] = parameter
            fact = self.outer.builder.fact(outer) if self.outer is not None else None
            if fact is not None:
                self.builder.facts[parameter] = fact
        return self.captured[outer]


def _are_equal(a: Array, b: Array) -> bool:
    """Whether two arrays have the same type, shape and bits."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a.tolist() == b.tolist() if a.dtype.hasobject else a.tobytes() == b.tobytes()
