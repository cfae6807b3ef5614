"""Remarks: how they are collected from records, their text, and errors for damaged ones."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwright.compiler.remark_text import decode_remarks, encode_remarks
from graphwright.compiler.remarks import (
    MOST_DECLINED,
    MOST_NAMES,
    Declined,
    NodeCount,
    PassRemark,
    Remarks,
    remarks_of,
)
from graphwright.errors import PackageError
from graphwright.fusion.decisions import Decision, Edit, Kind, Verdict
from graphwright.ir.refusal import Code
from graphwright.ir.symbols import symbol
from graphwright.kernels.kernel_choice import KernelChoice, NotTaken, WhyNot
from graphwright.layout.remarks import LayoutCopy, LayoutRequest
from graphwright.passes.base import Reason, Record


def test_runs_of_a_pass_are_one_remark_in_each_stage() -> None:
    first = Record("cse", Counter(merged=2), stage="simplify", removed=Counter({("Add", ("a", "b")): 2}))
    second = Record("cse", Counter(merged=1, tried=0), stage="simplify", added=Counter({("Mul", ("",)): 1}))
    other = Record("cse", stage="decompose")
    assert remarks_of([first, second, other]).passes == (
        PassRemark(
            "simplify", "cse", 2, {"merged": 3}, NodeCount(2, ("Add a + b",)), NodeCount(1, ("Mul",)), ()
        ),
        PassRemark("decompose", "cse", 1, {}, NodeCount(), NodeCount(), ()),
    )


def test_reasons_are_grouped_the_most_frequent_first() -> None:
    record = Record("algebraic", stage="simplify")
    nodes = [f"n{number}" for number in range(MOST_NAMES + 2)]
    for each in [Reason("x", "rule", "rare"), *(Reason(node, "rule", "often") for node in nodes)]:
        record.reasons[each] = None
    again = Record("algebraic", stage="simplify")
    again.reasons[Reason("x", "rule", "rare")] = None  # as in each round of a fixpoint
    (remark,) = remarks_of([record, again]).passes
    assert remark.declined == (
        Declined("", "rule", "often", NodeCount(len(nodes), tuple(nodes[:MOST_NAMES]))),
        Declined("", "rule", "rare", NodeCount(1, ("x",))),
    )


def test_no_more_reasons_are_kept_than_a_screen_can_use() -> None:
    record = Record("many")
    for number in range(3 * MOST_DECLINED):
        record.reasons[Reason("x", "rule", str(number))] = None
    assert len(remarks_of([record]).passes[0].declined) == MOST_DECLINED


def test_a_decision_counts_once_under_its_code() -> None:
    edit = Edit(Kind.MERGE, ("a", "b"))
    refused = Decision(edit, Verdict.REFUSED, Code.CYCLE, "of sizes 3")
    taken = Decision(edit, Verdict.TAKEN, Code.MERGED, "rule row")
    record = Record("fuse", notes=[refused, taken])
    record.reasons[Reason("b", "fuse with a", "of sizes 3", Code.CYCLE)] = None
    assert remarks_of([record]).passes[0].declined == (
        Declined("FUSE_CYCLE", "", Code.CYCLE.means, NodeCount(1, ("a -> b",))),
    )
    alone = Record("replace")
    alone.reasons[Reason("b", "attention", "axis 0", Code.ATTENTION_AXIS)] = None
    assert remarks_of([alone]).passes[0].declined[0].code == "FUSE_ATTENTION_AXIS"


names = st.text(max_size=8)
counts = st.integers(0, 2**40)
node_counts = st.builds(NodeCount, counts, st.lists(names, max_size=3).map(tuple))
others = st.builds(NotTaken, names, st.sampled_from(WhyNot), names, st.none() | counts)
everything = st.builds(
    Remarks,
    st.lists(
        st.builds(
            PassRemark,
            names,
            names,
            counts,
            st.dictionaries(names, counts, max_size=3),
            node_counts,
            node_counts,
            st.lists(st.builds(Declined, names, names, names, node_counts), max_size=2).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    st.lists(st.builds(LayoutRequest, names, names, st.none() | counts), max_size=3).map(tuple),
    st.lists(
        st.builds(LayoutCopy, names, names, names, names, counts | st.just(8 * symbol("N") + 4)), max_size=3
    ).map(tuple),
    st.lists(
        st.builds(
            KernelChoice,
            names,
            st.lists(names, max_size=2).map(tuple),
            st.none() | counts,
            st.lists(others, max_size=3).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
)


@given(everything)
def test_remarks_survive_their_text(remarks: Remarks) -> None:
    text = encode_remarks(remarks)
    assert decode_remarks(text) == remarks
    assert bool(text) == (remarks != Remarks())


def test_equal_choices_are_kept_once() -> None:
    taken = ("gw_direct_f32",), 100, (NotTaken("winograd", WhyNot.ILLEGAL, "strides"),)
    remarks = Remarks(kernels=tuple(KernelChoice(f"conv{k}", *taken) for k in range(50)))
    held = json.loads(encode_remarks(remarks))
    assert len(held["choices"]) == 1 and held["texts"].count("strides") == 1


def held(**changes: Any) -> str:
    """The text of empty remarks, with ``changes``."""
    empty: dict[str, Any] = {"passes": [], "requests": [], "copies": [], "kernels": [], "choices": []}
    return json.dumps({**empty, "texts": ["a"], **changes})


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "{}", "[" * 100_000, held(texts=None),
        held(passes=[[0, 0, 1, [], [0], [0]]]),
        held(passes=[[0, 7, 1, [], [0], [0], []]]),
        held(passes=[[0, 0, -1, [], [0], [0], []]]),
        held(passes=[[0, 0, 1, [[0, 1.5]], [0], [0], []]]),
        held(passes=[[0, 0, 1, [], [], [0], []]]),
        held(passes=[[0, 0, 1, [], [True], [0], []]]),
        held(requests=[[0, 0, 2**63]]),
        held(copies=[[0, 0, 0, 0, "N +"]]),
        held(copies=[[0, 0, 0, 1]]),
        held(kernels=[[0, 0]]),
        held(choices=[[[0], None, [[0, 0, 0, None]]]]),
    ],
)  # fmt: skip
def test_damaged_remarks_are_one_error(text: str) -> None:
    with pytest.raises(PackageError, match="its remarks cannot be read"):
        decode_remarks(text)
