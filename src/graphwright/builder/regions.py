"""Branches and loops in GraphBuilder: bodies are functions that can use outer values directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphwright.builder.errors import fault
from graphwright.ir.build import Builder
from graphwright.ir.builtin.constant import constant_of
from graphwright.ir.graph import Graph, Module, Value
from graphwright.ir.types import TensorType


class Scope:
    """A graph that nodes are added to: the main graph, or the body of a branch or loop."""

    def __init__(self, builder: Builder, outer: Scope | None = None) -> None:
        self.builder, self.outer = builder, outer
        self.captured: dict[Value, Value] = {}
        """Values of ``outer`` that this graph reads, and the inputs that stand for them."""

    @classmethod
    def inside(cls, outer: Scope, name: str) -> Scope:
        """The scope of a new region."""
        return cls(Builder(outer.builder.module, Graph(name)), outer)

    def local(self, value: Value) -> Value:
        """``value``, from this or an enclosing graph, as a value of this graph. Raises ModelError."""
        if value.graph is self.builder.graph:
            return value
        if self.outer is None:
            hint = "return values from branches and loops as their results"
            raise fault("operand", f"{value} belongs to another builder, or to a body that has ended", hint)
        return self._received(self.outer.local(value))

    def _received(self, outer: Value) -> Value:
        """A value of the enclosing graph: a constant is copied, any other value becomes an input."""
        if (constant := constant_of(outer)) is not None:
            inner: Value = self.builder(constant)
            return inner
        if outer not in self.captured:
            assert self.outer is not None
            inner = self.captured[outer] = self.builder.graph.add_input(outer.type, outer.name)
            if (known := self.outer.builder.fact(outer)) is not None:
                self.builder.facts[inner] = known
        return self.captured[outer]


Trace = Callable[..., Sequence[Value]]
"""Calls a body on values of its region, and returns its results there."""


def read_region(
    outer: Scope,
    name: str,
    types: Sequence[tuple[str, TensorType]],
    trace: Callable[[Scope, Sequence[Value]], Sequence[Value]],
) -> Scope:
    """The region that ``trace`` adds nodes to, with inputs of ``types``."""
    scope, module = Scope.inside(outer, name), outer.builder.module
    assumed = dict(module.symbols.constraints)
    inputs = [scope.builder.graph.add_input(type, name) for name, type in types]
    scope.builder.graph.set_outputs(trace(scope, inputs))
    module.symbols.constraints = assumed  # constraints inside a body hold only if it runs
    return scope


def results_of(returned: Any, what: str) -> tuple[Any, ...]:
    """The results of a body as a tuple. Raises ModelError if one is None."""
    results = tuple(returned) if isinstance(returned, tuple | list) else (returned,)
    if any(result is None for result in results):
        raise fault("region", f"{what} returns None", "return a value, or a tuple of values")
    return results


def share_operands(scopes: Sequence[Scope]) -> list[Value]:
    """Gives the regions of a branch the same inputs in the same order. Returns the outer values for these."""
    operands = list(dict.fromkeys(value for scope in scopes for value in scope.captured))
    for scope in scopes:
        graph = scope.builder.graph
        for value in operands:
            if value not in scope.captured:
                scope.captured[value] = graph.add_input(value.type, value.name)
        graph.inputs[:] = [scope.captured[value] for value in operands]
        for index, value in enumerate(graph.inputs):
            value.index = index
    return operands


def new_scope(module: Module, graph: Graph) -> Scope:
    """The scope of a whole graph."""
    return Scope(Builder(module, graph))
