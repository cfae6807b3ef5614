"""Reports what stays dynamic, and why: each size, rank and shape operand that is unknown before a run, with
the input or element that determines it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.interfaces.copied_elements import CopiesElements
from graphwright.ir.op import Fact, Op, Trait
from graphwright.ir.symbols import Dim, atoms
from graphwright.ops.core.known_elements import MAX_PARTIAL, known_size
from graphwright.passes.infer_shapes import known_facts
from graphwright.records import dataclass

MOST_LINES = 100
"""The most lines of a report; further lines are only counted."""


def what_stays_dynamic(module: Module) -> list[str]:
    """One line per dynamic dimension, rank or shape operand, inputs first. Empty for a static module."""
    lines = list(open_inputs(module.main))
    if _has_data_dependence(module):
        facts = known_facts(module)
        known = symbols_in(value.type for value in module.main.inputs)
        lines += _Search(facts, known, module.main).graph(module.main)
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"and {more} more"]


def open_inputs(graph: Graph) -> Iterator[str]:
    """Sizes and ranks that the shapes of a feed determine."""
    axes: dict[str, list[str]] = {}
    for value in graph.inputs:
        if value.type.shape is None:
            yield f"the rank of input {value.name}: the model leaves it open"
        for axis, dim in enumerate(value.type.shape or ()):
            for name in dict.fromkeys(atom.name for atom in atoms(dim)):
                axes.setdefault(name, []).append(f"axis {axis} of input {value.name}")
    for name, found in axes.items():
        yield f"{name}: {', '.join(found)}"


def _has_data_dependence(module: Module) -> bool:
    """Whether a shape depends on more than the shapes of the inputs."""
    known = symbols_in(value.type for value in module.main.inputs)
    for node in module.main.walk():
        for value in node.outputs:
            if value.type.shape is None or (not value.type.is_static and symbols_in((value.type,)) - known):
                return True
        if _has_shape_operands(node.op) and any(map(_is_computed_integer, node.inputs[1:])):
            return True
    return False


def _is_computed_integer(value: Value | None) -> bool:
    return value is not None and value.type.dtype.is_integer and not is_constant(value)


def _has_shape_operands(op: Op) -> bool:
    """Whether operands of ``op`` can determine sizes."""
    return type(op).fold_operands is not Op.fold_operands


@dataclass
class _Search:
    """Finds the node that defines each size. ``known`` holds the symbols seen so far."""

    facts: Mapping[Value, Fact]
    known: set[str]
    main: Graph

    def graph(self, graph: Graph) -> Iterator[str]:
        for node in graph:
            for region in node.regions:
                yield from self.graph(region)
            if not node.is_constant:
                yield from self.node(node)

    def node(self, node: Node) -> Iterator[str]:
        title = f"{node.location} ({node.op.name})"
        given = dict(self.sizes_from_operands(node)) if _has_shape_operands(node.op) else {}
        why = " and ".join(given.values())
        found = False
        for number, value in enumerate(node.outputs):
            which = f"output {number} of " if len(node.outputs) > 1 else ""
            if value.type.shape is None and all(v is None or v.type.shape is not None for v in node.inputs):
                found = True
                yield f"the rank of {which}{title}: {why or self.elements(node)}"
            for axis, dim in enumerate(value.type.shape or ()):
                own = given.get(axis) if len(given) > 1 else None
                for name in self.new(dim):
                    found = True
                    yield f"{name}: axis {axis} of {which}{title}: {own or why or self.elements(node)}"
        if why and not found:
            yield f"{title} reads its sizes at run time: {why}"

    def new(self, dim: Dim) -> list[str]:
        """Symbols in ``dim`` that are seen for the first time."""
        names = [name for name in dict.fromkeys(atom.name for atom in atoms(dim)) if name not in self.known]
        self.known.update(names)
        return names

    def sizes_from_operands(self, node: Node) -> Iterator[tuple[int, str]]:
        """The sizes that operands determine: for each one its axis, and a text that names the element. If it
        is not known which axis an operand determines, the negative number of the operand is in its place.
        """
        first = node.op.first_shape_operand
        for index, value in enumerate(node.inputs[first:], first):
            if value is None or not (value.type.dtype.is_integer or first == 0):
                continue
            fact = self.facts.get(value) or Fact(value.type)
            if fact.elements is not None or fact.data is not None or (fact.type.rank or 0) > 1:
                continue
            count = None if fact.type.shape is None else known_size(fact.type.shape)
            if count is None or count > MAX_PARTIAL:
                yield -index, f"determined by the values of operand {index}, {self.origin(value, None)}"
                continue
            parts = fact.partial_elements or (None,) * count
            for element in (e for e, part in enumerate(parts) if part is None):
                if value.type.rank:
                    text = (
                        f"determined by element {element} of operand {index}, {self.origin(value, element)}"
                    )
                    yield element, text
                else:
                    yield -index, f"determined by operand {index}, {self.origin(value, element)}"

    def elements(self, node: Node) -> str:
        """Describes what determines sizes that no operand gives."""
        if node.regions:
            decider = node.inputs[0] if node.inputs else None
            where = "" if decider is None else f", {self.origin(decider, 0)}"
            return f"determined by the branch or the number of iterations{where}"
        first = next((value for value in node.inputs if value is not None), None)
        return (
            "determined by the values of the node itself"
            if first is None
            else f"determined by the values of a tensor, {self.origin(first, None)}"
        )

    def origin(self, value: Value, element: int | None) -> str:
        """Where ``element`` of ``value`` (None: all elements) comes from, looking through ops that only move
        elements.
        """
        node = value.producer
        while node is not None:
            step = self.moved_from(node, element)
            if step is None:
                return f"from {node.location} ({node.op.name})"
            value, element = step
            node = value.producer
        which = "" if element is None or not value.type.rank else f"element {element} of "
        whose = "input" if value.owner is self.main else "region input"
        return f"from {which}{whose} {value.name}"

    def moved_from(self, node: Node, element: int | None) -> tuple[Value, int | None] | None:
        """The operand, and its element, that ``element`` is a copy of."""
        if not node.inputs or node.inputs[0] is None:
            return None
        if Trait.VIEW in node.op.traits:
            return node.inputs[0], element
        found = (
            node.op.copied_from(node, element, self.facts) if isinstance(node.op, CopiesElements) else None
        )
        return None if found is None else (node.operand(found[0]), found[1])
