"""What inference found of a node, kept at the node until its op or what is known of its operands changes.

Passes infer a module several times, and most nodes stay as they are in between. What is kept depends on
nothing but the op and the facts: no symbols, which may get ranges and equalities, no arrays, which may be
let go, no regions, and no op of a user's, whose ``infer`` may do anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphwright.ir.constant import Constant, constant_of
from graphwright.ir.free_symbols import symbols_named
from graphwright.ir.graph import Node, Value
from graphwright.ir.op import Fact, Op
from graphwright.ir.plugin_ops import is_plugin_op
from graphwright.ir.symbols import Expr, SymbolTable
from graphwright.records import dataclass

Given = Fact | Constant | None
"""An operand: what is known of it, or the constant that it is."""


@dataclass(frozen=True)
class _Inferred:
    op: Op
    given: tuple[Given, ...]
    facts: tuple[Fact, ...]


def state_of(symbols: SymbolTable) -> tuple[int, int, int, bool]:
    """What changes if inference adds a symbol, a constraint or a guard, or leaves something undecided."""
    return len(symbols.ranges), len(symbols.constraints), len(symbols.guards), symbols.undecided


def remember(node: Node, inputs: Sequence[Fact | None], facts: tuple[Fact, ...]) -> None:
    """Keep that ``node`` gives ``facts`` for ``inputs``, where nothing else can change that."""
    if node.regions or not all(map(_is_plain, facts)):
        return
    given = tuple(map(_given, node.inputs, inputs))
    if not all(_is_plain(each) for each in given if isinstance(each, Fact)):
        return
    if not is_plugin_op(type(node.op)) and not symbols_named(node.op):
        node.inferred = _Inferred(node.op, given, facts)


def recalled(node: Node, known: Mapping[Value, Fact]) -> tuple[Fact, ...] | None:
    """Facts of the outputs of ``node``, whose operands are ``known``, where they were found before."""
    last = node.inferred
    if not isinstance(last, _Inferred) or last.op is not node.op or len(last.given) != len(node.inputs):
        return None
    for value, given in zip(node.inputs, last.given, strict=True):
        fact = None if value is None else known.get(value)
        if fact is not given and not _is_same(value, fact, given):
            return None
    return last.facts


def _given(value: Value | None, fact: Fact | None) -> Given:
    return constant_of(value) or fact


def _is_same(value: Value | None, fact: Fact | None, given: Given) -> bool:
    if value is None or given is None or fact is None:
        return False
    if isinstance(given, Constant):
        return value.producer is not None and value.producer.op is given
    return fact.data is None and fact == given


def _is_plain(fact: Fact) -> bool:
    if fact.data is not None or fact.held is not None or not fact.type.is_static:
        return False
    if fact.elements is None and fact.partly is None:
        return True
    return not any(isinstance(each, Expr) for each in (*(fact.elements or ()), *(fact.partly or ())))
