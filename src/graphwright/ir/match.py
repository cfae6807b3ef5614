"""Patterns over graphs, and rewrite rules that say why they do not apply.

    x, weight = Var("x"), Const("weight")
    conv = P(Conv, x, weight, Opt("bias"), once=True)
    rule = Rule("Conv then Relu", P(Relu, conv), check, rewrite)

    def check(m): return None if m.op(conv).group == 1 else "grouped"
    def rewrite(b, m): return b(ConvRelu(...), m[x], m[weight])

A rewrite that needs what its check finds does both, with ``always`` as its check: it returns the reason.

Matching goes from the root to the operands. Operands of a commutative op match in either order. A wildcard
that occurs twice must match the same value. Operands that a pattern does not mention must be absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast

from graphwright.ir.build import Builder
from graphwright.ir.builtin.constant import constant_of
from graphwright.ir.graph import Module, Node, Value, sources_of
from graphwright.ir.op import Array, Op, Trait
from graphwright.ir.refusal import Code, Refusal
from graphwright.records import dataclass, field

OpT = TypeVar("OpT", bound=Op, covariant=True)


@dataclass(frozen=True, eq=False)
class Var:
    """Any present value."""

    name: str = ""


@dataclass(frozen=True, eq=False)
class Const(Var):
    """A value from the constant pool that satisfies ``where``; :meth:`Match.array` reads it."""

    where: Callable[[Array], bool] | None = None


@dataclass(frozen=True, eq=False)
class Opt(Var):
    """A present value or an absent operand; :meth:`Match.optional` reads it."""


@dataclass(frozen=True, eq=False)
class Rest(Var):
    """All operands from here on; :meth:`Match.rest` reads them."""


@dataclass(frozen=True, eq=False, init=False)
class P(Generic[OpT]):
    """A node whose op is an instance of ``cls`` (or of one of several), with matching
    operands.

    ``once``: its value has exactly one reader and is not an output of the graph. ``where``: a further
    condition on the op, such as a trait. ``output``: which of its outputs is matched.
    """

    classes: tuple[type[OpT], ...]
    operands: tuple[Pattern, ...]
    once: bool
    where: Callable[[Any], bool] | None
    output: int

    def __init__(
        self,
        cls: type[OpT] | tuple[type[OpT], ...],
        *operands: Pattern,
        once: bool = False,
        where: Callable[[Any], bool] | None = None,
        output: int = 0,
    ) -> None:
        object.__setattr__(self, "classes", cls if isinstance(cls, tuple) else (cls,))
        object.__setattr__(self, "operands", operands)
        object.__setattr__(self, "once", once)
        object.__setattr__(self, "where", where)
        object.__setattr__(self, "output", output)


Pattern = Var | P[Op]
_Bound = dict[object, object]


@dataclass(frozen=True)
class Match:
    """The result of a match: the values of wildcards and the nodes of ``P`` patterns."""

    root: Node
    module: Module
    bound: _Bound = field(repr=False)

    def __getitem__(self, wildcard: Var) -> Value:
        """The value of ``wildcard``, which must be present."""
        value = self.bound[wildcard]
        if not isinstance(value, Value):
            raise KeyError(f"{wildcard} is absent")
        return value

    def optional(self, wildcard: Var) -> Value | None:
        """The value of ``wildcard``; None if the operand is absent, or not part of the matched
        alternative.
        """
        return cast("Value | None", self.bound.get(wildcard))

    def rest(self, wildcard: Rest) -> tuple[Value | None, ...]:
        """All operands that ``wildcard`` matched."""
        return cast("tuple[Value | None, ...]", self.bound[wildcard])

    def constant(self, wildcard: Var) -> Array | None:
        """The elements of a constant; None if the value is absent or computed."""
        return constant_array(self.optional(wildcard), self.module)

    def array(self, wildcard: Var) -> Array:
        """The elements of a constant."""
        found = constant_array(self[wildcard], self.module)
        if found is None:
            raise KeyError(f"{wildcard} is not a constant")
        return found

    def node(self, pattern: P[OpT]) -> Node:
        """The node that ``pattern`` matched."""
        return cast("Node", self.bound[pattern])

    def op(self, pattern: P[OpT]) -> OpT:
        """The op of the node that ``pattern`` matched."""
        return cast("OpT", self.node(pattern).op)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes of the match, the root first."""
        found = (node for node in self.bound.values() if isinstance(node, Node))
        return tuple(dict.fromkeys((self.root, *found)))

    @property
    def sources(self) -> tuple[str, ...]:
        """The source nodes of all matched nodes."""
        return sources_of((*self.nodes[1:], self.root))


@dataclass(frozen=True)
class Rule:
    """Replaces the match of ``pattern`` by what ``rewrite`` builds, unless ``check`` or ``rewrite`` returns a
    reason against it.

    ``rewrite`` builds nodes before the root, and returns one value per output of the root.
    """

    name: str
    pattern: P[Op]
    check: Callable[[Match], str | Refusal | None]
    rewrite: Callable[[Builder, Match], Value | Sequence[Value] | str | Refusal]
    code: Code | None = None
    """The code of the fusion decision that is recorded when the rule applies."""


def always(_match: Match) -> None:
    """A ``check`` that never objects."""


def match(pattern: P[OpT], node: Node, module: Module) -> Match | None:
    """The first match with ``node`` as the root of ``pattern``; None if there is none."""
    bound = next(_node(pattern, node, {}, module), None)
    return None if bound is None else Match(node, module, bound)


def constant_array(value: Value | None, module: Module) -> Array | None:
    """The elements of ``value`` if it is a constant of the pool, else None."""
    constant = constant_of(value)
    return None if constant is None else module.constants[constant.value]


def used_once(value: Value) -> bool:
    """Whether ``value`` has exactly one reader and is not an output of its graph."""
    return len(value.uses) == 1 and not value.is_output


def _node(pattern: P[Op], node: Node, bound: _Bound, module: Module) -> Iterator[_Bound]:
    op = node.op
    if not isinstance(op, pattern.classes) or (pattern.where is not None and not pattern.where(op)):
        return
    if bound.get(pattern, node) is not node:
        return
    bound = {**bound, pattern: node}
    yield from _operands(pattern.operands, node.inputs, bound, module)
    if Trait.COMMUTATIVE in op.traits and len(node.inputs) == 2 and node.inputs[0] is not node.inputs[1]:
        yield from _operands(pattern.operands, node.inputs[::-1], bound, module)


def _operands(
    patterns: Sequence[Pattern], values: Sequence[Value | None], bound: _Bound, module: Module
) -> Iterator[_Bound]:
    if not patterns:
        if all(value is None for value in values):
            yield bound
        return
    first, *others = patterns
    if isinstance(first, Rest):
        yield {**bound, first: tuple(values)}
        return
    value = values[0] if values else None
    for found in _value(first, value, bound, module):
        yield from _operands(others, values[1:], found, module)


def _value(pattern: Pattern, value: Value | None, bound: _Bound, module: Module) -> Iterator[_Bound]:
    if isinstance(pattern, P):
        if value is None or value.producer is None or value.index != pattern.output:
            return
        if not pattern.once or used_once(value):
            yield from _node(pattern, value.producer, bound, module)
        return
    if value is None and not isinstance(pattern, Opt):
        return
    if isinstance(pattern, Const):
        array = constant_array(value, module)
        if array is None or (pattern.where is not None and not pattern.where(array)):
            return
    if bound.get(pattern, value) is value:
        yield {**bound, pattern: value}
