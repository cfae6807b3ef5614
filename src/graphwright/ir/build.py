"""Builds graphs node by node, and infers types as nodes are added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.builtin.constant import Constant, constant_of
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.inference.cache import cache_facts, state_of
from graphwright.ir.inference.infer import infer_outputs, region_input_facts
from graphwright.ir.op import Array, Fact, Op, facts_elements
from graphwright.ir.op.plugin_ops import defined_at, is_plugin_op
from graphwright.ir.origin import Origin
from graphwright.ir.text.printer import print_op
from graphwright.ir.types import DType, TensorType, type_of


class Builder:
    """Inserts nodes into ``graph`` before ``before`` (at the end if None).

    >>> b = Builder(module, graph)
    >>> y = b(Relu(), b(MatMul(), x, w))
    """

    def __init__(
        self,
        module: Module,
        graph: Graph,
        before: Node | None = None,
        sources: Sequence[str] = (),
        origin: Origin | None = None,
    ) -> None:
        self.module = module
        self.graph = graph
        self.before = before
        self.sources = tuple(sources)
        self.origin = origin
        self.facts: dict[Value, Fact] = {}
        """Known elements of values, for shape arithmetic."""

    def __call__(
        self,
        op: Op,
        *inputs: Value | None,
        regions: Sequence[Graph] = (),
        name: str = "",
        known: Sequence[TensorType] = (),
    ) -> Any:
        """Adds a node. Returns its Value, or a tuple of Values if ``op`` has several outputs."""
        node = self.node(op, *inputs, regions=regions, name=name, known=known)
        return node.outputs[0] if len(node.outputs) == 1 else node.outputs

    def node(
        self,
        op: Op,
        *inputs: Value | None,
        regions: Sequence[Graph] = (),
        name: str = "",
        known: Sequence[TensorType] = (),
    ) -> Node:
        """Adds a node and returns it. Raises ModelError if types conflict. ``known``: types to use if a rank
        is unknown.
        """
        location = name or " + ".join(self.sources) or op.name
        if is_plugin_op(type(op)):
            _check_attributes(op, location)
        before = state_of(self.module.symbols)
        given = [self.fact(value) for value in inputs]
        facts = self._infer(op, inputs, given, regions, location, known)
        node = Node(op, inputs, [f.type for f in facts], regions, name, self.sources, self.origin)
        self.graph.insert(node, self.before)
        if type(op).fold_operands is Op.fold_operands and before == state_of(self.module.symbols):
            cache_facts(node, given, facts)
        for value, fact in zip(node.outputs, facts, strict=True):
            if fact.knows_elements:
                self.facts[value] = fact
        return node

    def const(self, array: Array | float | Sequence[Any], dtype: DType | None = None) -> Value:
        """A constant tensor; Python scalars and lists need ``dtype``."""
        elements = np.asarray(array, dtype=None if dtype is None else dtype.numpy)
        type = type_of(elements)
        op = Constant(self.module.constants.add(elements), type)
        return self.graph.insert(Node(op, (), [type], sources=self.sources), self.before).output

    def fact(self, value: Value | None) -> Fact | None:
        """The known facts about ``value``."""
        if value is None:
            return None
        known = self.facts.get(value)
        if known is not None:
            return known
        constant = constant_of(value)
        if constant is not None:
            data = self.module.constants[constant.value]
            return Fact(value.type, facts_elements(data), data)
        return Fact(value.type)

    def _infer(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        given: Sequence[Fact | None],
        regions: Sequence[Graph],
        location: str,
        known: Sequence[TensorType],
    ) -> tuple[Fact, ...]:
        for position, value in enumerate(inputs):
            if value is None and position not in op.optional_inputs:
                raise ModelError(Diagnostic("missing-input", f"{op.name} needs input {position}", location))
        if regions:
            outputs = [[Fact(value.type) for value in region.outputs] for region in regions]
            received = region_input_facts(regions)
            return infer_outputs(op, given, self.module.symbols, location, known, outputs, received)
        return infer_outputs(op, given, self.module.symbols, location, known)


def _check_attributes(op: Op, location: str) -> None:
    """Raises ModelError if a user's op has attributes that cannot be serialized."""
    try:
        print_op(op)
    except (TypeError, ValueError) as error:
        hint = "attributes must be numbers, strings, bools, dtypes, enums, or tuples of them"
        where = f"{op.name}: {error} (node {location})"
        raise ModelError(Diagnostic("plugin", where, defined_at(type(op)), hint)) from error


def new_main_graph(
    module: Module, inputs: Sequence[tuple[str, TensorType]] = ()
) -> tuple[Builder, tuple[Value, ...]]:
    """Adds the graph ``main`` to ``module``, with named ``inputs``. Returns a builder at its end, and the
    inputs.
    """
    graph = module.add_graph(Graph("main"))
    values = tuple(graph.add_input(type, name) for name, type in inputs)
    return Builder(module, graph), values
