"""Caches inferred facts at each node, until its op or the facts of its operands change.

Passes infer a module several times, and most nodes do not change in between. Cached facts must depend only on
the op and the facts of the operands. So nodes are not cached if they involve symbols, which can get ranges
and equalities; arrays, which must not be kept alive; regions; or users' ops, whose ``infer`` may read other
state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphwright.ir.builtin.constant import Constant, constant_of
from graphwright.ir.free_symbols import symbols_named
from graphwright.ir.graph import Node, Value
from graphwright.ir.op import Fact, Op
from graphwright.ir.op.plugin_ops import is_plugin_op
from graphwright.ir.symbols import Expr, SymbolTable
from graphwright.records import dataclass

Given = Fact | Constant | None
"""The facts about an operand, or its Constant op."""


@dataclass(frozen=True)
class _Inferred:
    op: Op
    given: tuple[Given, ...]
    facts: tuple[Fact, ...]


def state_of(symbols: SymbolTable) -> tuple[int, int, int, bool]:
    """A value that changes if inference adds a symbol, a constraint or a guard, or leaves something
    undecided.
    """
    return len(symbols.ranges), len(symbols.constraints), len(symbols.guards), symbols.undecided


def cache_facts(node: Node, inputs: Sequence[Fact | None], facts: tuple[Fact, ...]) -> None:
    """Caches that ``node`` has outputs with ``facts`` for ``inputs``, if nothing else can change that."""
    if node.regions or not all(map(_is_plain, facts)):
        return
    given = tuple(map(_contents, node.inputs, inputs))
    if not all(_is_plain(each) for each in given if isinstance(each, Fact)):
        return
    if not is_plugin_op(type(node.op)) and not symbols_named(node.op):
        node.inferred = _Inferred(node.op, given, facts)


def cached_facts(node: Node, known: Mapping[Value, Fact]) -> tuple[Fact, ...] | None:
    """The cached facts of the outputs of ``node``, if they are still valid for the ``known`` facts of its
    operands.
    """
    last = node.inferred
    if not isinstance(last, _Inferred) or last.op is not node.op or len(last.given) != len(node.inputs):
        return None
    for value, given in zip(node.inputs, last.given, strict=True):
        fact = None if value is None else known.get(value)
        if fact is not given and not _is_same(value, fact, given):
            return None
    return last.facts


def _contents(value: Value | None, fact: Fact | None) -> Given:
    return constant_of(value) or fact


def _is_same(value: Value | None, fact: Fact | None, given: Given) -> bool:
    if value is None or given is None or fact is None:
        return False
    if isinstance(given, Constant):
        return value.producer is not None and value.producer.op is given
    return fact.data is None and fact == given


def _is_plain(fact: Fact) -> bool:
    if fact.data is not None or fact.item_types is not None or not fact.type.is_static:
        return False
    if fact.elements is None and fact.partial_elements is None:
        return True
    return not any(
        isinstance(each, Expr) for each in (*(fact.elements or ()), *(fact.partial_elements or ()))
    )
