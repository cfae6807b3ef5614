"""Patterns and rules: matches, their order, and the recorded reasons."""

from __future__ import annotations

import numpy as np
import pytest

from graphwright.ir.build import Builder
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.match import Const, Match, Opt, P, Rest, Rule, Var, always, match
from graphwright.ir.types import F32, tensor
from graphwright.passes.base import Record
from graphwright.passes.rule_pass import RulePass

from .support import ToyAdd, ToyEffect, ToyScale, ToySub, builder

X, Y, C, BIAS = Var("x"), Var("y"), Const("c"), Opt("bias")


@pytest.fixture
def graph() -> tuple[Module, Builder, list[Value]]:
    module = Module()
    b, values = builder(module, x=tensor(F32, 3), y=tensor(F32, 3))
    return module, b, values


def root(value: Value) -> Node:
    assert value.producer is not None
    return value.producer


def test_wildcards_bind_operands(graph: tuple[Module, Builder, list[Value]]) -> None:
    module, b, (x, y) = graph
    found = match(P(ToySub, X, Y), root(b(ToySub(), x, y)), module)
    assert found is not None
    assert (found[X], found[Y]) == (x, y)


def test_the_same_wildcard_is_the_same_value(graph: tuple[Module, Builder, list[Value]]) -> None:
    module, b, (x, y) = graph
    assert match(P(ToySub, X, X), root(b(ToySub(), x, y)), module) is None
    assert match(P(ToySub, X, X), root(b(ToySub(), x, x)), module) is not None


def test_commutative_operands_match_in_both_orders(graph: tuple[Module, Builder, list[Value]]) -> None:
    module, b, (x, _) = graph
    c = b.const(np.float32(2))
    for operands in ((x, c), (c, x)):
        found = match(P(ToyAdd, X, C), root(b(ToyAdd(), *operands)), module)
        assert found is not None
        assert found[X] is x
        assert found.array(C) == 2
    assert match(P(ToySub, X, C), root(b(ToySub(), c, x)), module) is None


def test_nested_patterns_try_every_order(graph: tuple[Module, Builder, list[Value]]) -> None:
    """The outer order decides which operand the inner pattern gets, and the inner pattern is tried in each
    order.
    """
    module, b, (x, y) = graph
    c = b.const(np.float32(2))
    inner = P(ToyAdd, X, C)
    outer = b(ToyAdd(), y, b(ToyAdd(), c, x))
    found = match(P(ToyAdd, inner, Y), root(outer), module)
    assert found is not None
    assert (found[X], found[Y]) == (x, y)
    assert found.nodes == (root(outer), found.node(inner))


def test_patterns_can_restrict_constants(graph: tuple[Module, Builder, list[Value]]) -> None:
    module, b, (x, _) = graph
    negative = Const("negative", lambda a: bool((a < 0).all()))
    assert match(P(ToyAdd, X, negative), root(b(ToyAdd(), x, b.const(np.float32(1)))), module) is None
    assert match(P(ToyAdd, X, negative), root(b(ToyAdd(), x, b.const(np.float32(-1)))), module) is not None


def test_optional_operands_match_with_and_without_a_value(graph: tuple[Module, Builder, list[Value]]) -> None:
    module, b, (x, y) = graph
    pattern = P(ToyScale, X, BIAS)
    for operands, expected in (((x,), None), ((x, None), None), ((x, y), y)):
        found = match(pattern, root(b(ToyScale(), *operands)), module)
        assert found is not None
        assert found.optional(BIAS) is expected
    assert match(P(ToyScale, X), root(b(ToyScale(), x, y)), module) is None
    assert match(P(ToyScale, X, Y), root(b(ToyScale(), x)), module) is None


def test_a_pattern_matches_the_remaining_operands(graph: tuple[Module, Builder, list[Value]]) -> None:
    module, b, (x, y) = graph
    rest = Rest("rest")
    node = b.node(ToyEffect(), x, y, x)
    found = match(P(ToyEffect, X, rest), node, module)
    assert found is not None
    assert found.rest(rest) == (y, x)


def test_once_excludes_values_with_other_readers(graph: tuple[Module, Builder, list[Value]]) -> None:
    module, b, (x, y) = graph
    inner = b(ToyScale(2.0), x)
    outer = b(ToySub(), inner, y)
    pattern = P(ToySub, P(ToyScale, X, once=True), Y)
    assert match(pattern, root(outer), module) is not None
    b.graph.set_outputs([inner])
    assert match(pattern, root(outer), module) is None
    b.graph.set_outputs([outer])
    b(ToyScale(3.0), inner)
    assert match(pattern, root(outer), module) is None


def test_classes_and_conditions_on_the_op(graph: tuple[Module, Builder, list[Value]]) -> None:
    module, b, (x, y) = graph
    either = P((ToyAdd, ToySub), X, Y)
    assert match(either, root(b(ToySub(), x, y)), module) is not None
    strong = P(ToyScale, X, where=lambda op: op.factor > 2)
    assert match(strong, root(b(ToyScale(2.0), x)), module) is None
    found = match(strong, root(b(ToyScale(3.0), x)), module)
    assert found is not None
    assert found.op(strong).factor == 3.0


def scales(limit: float) -> Rule:
    outer = P(ToyScale, INNER := P(ToyScale, X, once=True))

    def check(m: Match) -> str | None:
        factor = m.op(outer).factor * m.op(INNER).factor
        return None if factor <= limit else f"{factor} is above {limit}"

    def rewrite(b: Builder, m: Match) -> Value:
        made: Value = b(ToyScale(m.op(outer).factor * m.op(INNER).factor), m[X])
        return made

    return Rule("merge scales", outer, check, rewrite)


def test_rules_rewrite_to_a_fixpoint_and_keep_sources_and_reasons() -> None:
    module = Module()
    b, (x,) = builder(module, x=tensor(F32, 3))
    value = x
    for k in range(4):
        b.sources = (f"Scale_{k}",)
        value = b(ToyScale(2.0), value)
    value.name = "result"
    b.graph.set_outputs([value])
    record = Record("scales")
    assert RulePass("scales", (scales(8.0),)).run(module, record)
    assert record.counts == {"merge scales": 2}
    assert [node.op for node in b.graph] == [ToyScale(8.0), ToyScale(2.0)]
    assert [node.sources for node in b.graph] == [("Scale_0", "Scale_1", "Scale_2"), ("Scale_3",)]
    assert b.graph.outputs[0].name == "result"
    assert [str(reason) for reason in record.reasons] == ["Scale_3: merge scales: 16.0 is above 8.0"]


def test_rules_reach_into_regions() -> None:
    module = Module()
    b, (x,) = builder(module, x=tensor(F32, 3))
    inner, (p,) = builder(Module(), "body", p=tensor(F32, 3))
    inner.graph.set_outputs([inner(ToyScale(2.0), inner(ToyScale(2.0), p))])
    b.graph.append(Node(ToyEffect(), [x], [], [inner.graph]))
    assert RulePass("scales", (scales(8.0),)).run(module, Record("scales"))
    assert [node.op for node in inner.graph] == [ToyScale(4.0)]


def test_a_rule_may_give_an_operand_itself() -> None:
    module = Module()
    b, (x,) = builder(module, x=tensor(F32, 3))
    b.graph.set_outputs([b(ToyScale(1.0), x)], ["y"])
    one = Rule("scale by 1", P(ToyScale, X, where=lambda op: op.factor == 1), always, lambda b, m: m[X])
    assert RulePass("ones", (one,)).run(module, Record("ones"))
    assert b.graph.outputs == (x,)
    assert b.graph.output_names == ("y",)
    assert len(b.graph) == 0


def test_a_rewrite_that_returns_a_reason_leaves_no_nodes() -> None:
    module = Module()
    b, (x,) = builder(module, x=tensor(F32, 3))
    b.graph.set_outputs([b(ToyScale(2.0), x)])
    nodes = list(b.graph)

    def rewrite(b: Builder, m: Match) -> str:
        b(ToyScale(3.0), m[X])
        return "three is too much"

    record = Record("scales")
    rule = Rule("more", P(ToyScale, X), always, rewrite)
    assert not RulePass("scales", (rule,)).run(module, record)
    assert list(b.graph) == nodes
    assert [reason.why for reason in record.reasons] == ["three is too much"]
