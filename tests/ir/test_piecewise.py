"""Expressions of one symbol: equal ones are found, and only equal ones."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.autofusion.autofuse import Request, autofuse
from graphwright.errors import GraphwrightError
from graphwright.ir.algebra.piecewise import always_equal, linear_form, one_together
from graphwright.ir.op import Inference
from graphwright.ir.symbols import Dim, SymbolTable, evaluate, floordiv, maximum, minimum, symbol

N, M = symbol("N"), symbol("M")
MOST = 300
"""Beyond this size the expressions of the tests are linear."""


def _expressions() -> st.SearchStrategy[Dim]:
    leaves = st.just(N) | st.integers(-6, 6)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(lambda a, b: a + b, inner, inner),
            st.builds(lambda a, factor: a * factor, inner, st.integers(-2, 2)),
            st.builds(minimum, inner, inner),
            st.builds(maximum, inner, inner),
        ),
        max_leaves=7,
    )


def _values(dim: Dim) -> list[int]:
    return [evaluate(dim, {"N": size}) for size in range(MOST)]


@settings(max_examples=300, deadline=None)
@given(_expressions(), _expressions())
def test_equality_is_decided_for_all_sizes(a: Dim, b: Dim) -> None:
    assert SymbolTable().proves_equal(a, b) == (_values(a) == _values(b))
    ones = [[value == 1 for value in _values(dim)] for dim in (a, b)]
    if not isinstance(a, int) and not isinstance(b, int):
        assert one_together(a, b) == (ones[0] == ones[1])


@settings(max_examples=300, deadline=None)
@given(_expressions())
def test_linear_forms_have_the_values_of_the_expression(dim: Dim) -> None:
    line, values = linear_form(dim), _values(dim)
    assert _values(line) == values
    is_linear = not any(a - 2 * b + c for a, b, c in zip(values, values[1:], values[2:], strict=False))
    assert is_linear == (line == N * (values[1] - values[0]) + values[0])


def test_functions_that_are_linear_become_sums() -> None:
    assert linear_form(maximum(N, 0)) is N
    assert linear_form(maximum(minimum(minimum(1, N) + N, N + 1) - minimum(1, minimum(1, N) + N), 0)) is N
    assert linear_form(minimum(2 * N, 3 * N)) == 2 * N
    assert linear_form(maximum(0, -N)) == 0
    assert linear_form(minimum(N, 1)) is minimum(N, 1)
    assert linear_form(maximum(N - 1, 0)) is maximum(N - 1, 0)
    assert linear_form(maximum(N, M, 0)) is maximum(N, M, 0)


def test_canonical_forms_do_not_assume_a_sign() -> None:
    """Kernels have arguments that may be negative, such as paddings, and bounds of their accesses are
    expressions.
    """
    assert str(maximum(N, 0)) == "max(0, N)"


def test_what_is_not_decided() -> None:
    assert always_equal(minimum(1, 2 * N), minimum(1, N))
    assert not always_equal(minimum(1, N), minimum(2, N))
    assert not always_equal(minimum(N, M), N)
    assert not always_equal(N * N, N)
    assert not always_equal(floordiv(N, 2), N)
    assert one_together(minimum(512, N), N)
    assert not one_together(minimum(1, N), N)
    assert not one_together(minimum(512, N), M)
    assert not one_together(floordiv(N, 2), N)


def test_sizes_that_are_1_together_are_equal_in_a_broadcast() -> None:
    table = SymbolTable()
    table.assume_of(None)
    at = Inference(table, "add")
    assert at.broadcast((minimum(512, N), 4), (N, 4)) == (minimum(512, N), 4)
    at.require_broadcast(minimum(256, M), M, "the mask")
    assert list(map(str, table.constraints)) == ["min(512, N) == N", "min(256, M) == M"]
    assert not table.guards


@pytest.fixture
def positions() -> onnx.ModelProto:
    """Rows of a table of 8 positions are added to a sequence of N embeddings."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[B, N, 4] x) => (float[B, N, 4] y)
            <int64[1] zero = {0}, int64[1] one = {1}> {
            shape = Shape <start = 1, end = 2> (x)
            rows = Slice (table, zero, shape, zero)
            y = Add (x, rows)
        }""")
    table = np.arange(32, dtype=np.float32).reshape(8, 4)
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    return model


def test_a_table_of_positions_needs_no_assumption(positions: onnx.ModelProto) -> None:
    model = gw.compile(positions)
    table = np.arange(32, dtype=np.float32).reshape(8, 4)
    for count in (0, 1, 5, 8):
        x = np.ones((2, count, 4), np.float32)
        np.testing.assert_array_equal(model(x)[0], x + table[:count])
    with pytest.raises(GraphwrightError, match="do not fit the model"):
        model(np.ones((2, 9, 4), np.float32))


def test_a_table_of_positions_is_part_of_the_program(positions: onnx.ModelProto) -> None:
    library = autofuse(positions, Request(library=True)).operator_library
    assert library is not None
    assert library.whole
