"""Sizes in the form that users write: accepted and rejected texts, and the dims that they become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.ir.sizes import (
    LARGEST,
    SizeRange,
    parse_size,
    read_size,
    scaled_symbol,
    span_of,
    symbol_for_range,
)
from graphwright.ir.symbols import Expr, Range, SymbolTable, ceildiv, evaluate, symbol


@st.composite
def dims(draw: st.DrawFn) -> SizeRange:
    low = draw(st.integers(0, 100))
    multiple = draw(st.sampled_from((1, 1, 2, 3, 32)))
    least = -(-low // multiple) * multiple
    high = draw(st.none() | st.integers(least, least + 200))
    return SizeRange(draw(st.sampled_from(("", "N", "_h2"))), low, high, multiple)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("7", 7),
        ("0", 0),
        ("?", None),
        ("N", SizeRange("N")),
        ("1..16", SizeRange("", 1, 16)),
        ("..8", SizeRange("", 0, 8)),
        ("8..", SizeRange("", 8)),
        ("N=1..16", SizeRange("N", 1, 16)),
        ("64..2048%32", SizeRange("", 64, 2048, 32)),
        ("H=64..2048%32", SizeRange("H", 64, 2048, 32)),
        ("H%32", SizeRange("H", multiple=32)),
        ("?%4", SizeRange(multiple=4)),
        ("5..5", SizeRange("", 5, 5)),
        ("min", SizeRange("min")),
    ],
)
def test_texts_are_parsed_as_sizes(text: str, meant: object) -> None:
    assert parse_size(text) == meant


@given(dims())
def test_text_of_a_dim_reads_as_it(dim: SizeRange) -> None:
    assert parse_size(str(dim)) == (dim if dim != SizeRange() else None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-1",
        "1.5",
        "N=",
        "N=5",
        "=1..2",
        "1...3",
        "1..2..3",
        "%",
        "%32",
        "N%",
        "N%x",
        "1..2%0",
        "3..1",
        "5..6%8",
        "a b",
        "é",
        "1..²",
        "9" * 5000,
        "N=1..9" + "9" * 50,
        f"{LARGEST + 1}",
        "1..N",
    ],
)
def test_texts_that_are_not_sizes_are_one_error(text: str) -> None:
    with pytest.raises(gw.FeedError) as caught:
        parse_size(text)
    (found,) = caught.value.diagnostics
    assert found.code == "size" and found.hint and len(found.message) < 300


@given(st.text("N=.%?0123456789x_- ", max_size=12))
def test_any_text_is_read_or_rejected(text: str) -> None:
    try:
        found = parse_size(text)
    except gw.FeedError:
        return
    assert found is None or isinstance(found, int | SizeRange)


@pytest.mark.parametrize(
    ("given_size", "meant"),
    [
        (3, 3),
        (np.int64(3), 3),
        (None, None),
        (range(1, 17), SizeRange("", 1, 16)),
        (range(64, 2049, 32), SizeRange("", 64, 2048, 32)),
        (range(0, 10, 4), SizeRange("", 0, 8, 4)),
        (range(5, 6), SizeRange("", 5, 5)),
        ("H=1..2", SizeRange("H", 1, 2)),
        (SizeRange("K", 2), SizeRange("K", 2)),
    ],
)
def test_objects_are_read_as_sizes(given_size: Any, meant: object) -> None:
    assert read_size(given_size) == meant


@pytest.mark.parametrize(
    "bad", [1.5, b"N", [1], range(0), range(5, 1), range(3, 20, 4), range(8, 0, -4), range(-3, 4)]
)
def test_invalid_sizes_are_rejected(bad: Any) -> None:
    with pytest.raises(gw.FeedError):
        read_size(bad)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "2x"},
        {"name": "a-b"},
        {"low": -1},
        {"high": -1},
        {"multiple": 0},
        {"multiple": -2},
        {"low": 1.0},
        {"low": True},
        {"low": 5, "high": 4},
        {"low": 33, "high": 63, "multiple": 32},
        {"high": LARGEST + 1},
    ],
)
def test_contradictory_dims_are_rejected(fields: dict[str, Any]) -> None:
    with pytest.raises(gw.FeedError):
        gw.Dim(**fields)


@settings(deadline=None)
@given(dims())
def test_the_symbolic_dim_takes_exactly_the_sizes(size: SizeRange) -> None:
    table = SymbolTable()
    made = symbol_for_range(table, SizeRange("N", size.low, size.high, size.multiple))
    fitting = [n for n in range(320) if size.holds(n)]
    if not isinstance(made, Expr):
        assert fitting == [made]
        return
    scaled = scaled_symbol(made)
    assert scaled is not None
    name, scale = scaled
    bounds = table.ranges[name]
    meant = [
        evaluate(made, {name: k}) for k in range(bounds.low, 320 // scale + 1) if k <= (bounds.high or k)
    ]
    assert [n for n in meant if n < 320] == fitting
    span = span_of(made, table)
    assert [n for n in range(320) if span.holds(n)] == fitting


def test_multiples_vanish_in_plain_algebra() -> None:
    table = SymbolTable()
    h = symbol_for_range(table, SizeRange("H", 64, 2048, 32))
    assert str(h) == "32*H_32" and table.ranges["H_32"] == Range(2, 64)
    assert h % 16 == 0 and str(ceildiv(h, 32)) == "H_32" and 2 * ceildiv(h, 32) is ceildiv(h, 16)


def test_only_a_multiple_of_one_symbol_is_decided_by_a_size() -> None:
    n, m = symbol("N"), symbol("M")
    assert scaled_symbol(n) == ("N", 1) and scaled_symbol(4 * m) == ("M", 4)
    for dim in (3, n + 1, n * m, n * n, n + m, n // 2, -n):
        assert scaled_symbol(dim) is None


def test_ranges_are_described_in_words() -> None:
    words = [parse_size(text) for text in ("1..16", "64..2048%32", "8..", "H%32")]
    assert [dim.words for dim in words if isinstance(dim, SizeRange)] == [
        "1 to 16",
        "64 to 2048 in steps of 32",
        "at least 8",
        "a multiple of 32",
    ]
    assert [SizeRange("", *b).smallest for b in ((0, 9), (0, 0), (5, 9), (0, 99, 32), (0, 9, 32))] == [
        1,
        0,
        5,
        32,
        0,
    ]
