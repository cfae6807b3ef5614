"""The algebra of sizes against plain integers, canonical forms, ranges, texts."""

from __future__ import annotations

import itertools
import pickle

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.ir.algebra.bounds import LOWEST, bounds
from graphwright.ir.symbols import (
    MAX_TERMS,
    Dim,
    Expr,
    Range,
    SymbolError,
    SymbolTable,
    atoms,
    ceildiv,
    evaluate,
    floordiv,
    maximum,
    minimum,
    mod,
    parse_constraint,
    parse_dim,
    product,
    substitute,
    symbol,
    total,
)

from .support import PLAIN_SYMBOLS, dims

N, M, H, T = symbol("N"), symbol("M"), symbol("H"), symbol("T")
SIZES = st.fixed_dictionaries({name: st.integers(0, 40) for name in PLAIN_SYMBOLS})

quick = settings(max_examples=200, deadline=None)


@quick
@given(dims(), dims(), st.integers(1, 9), SIZES)
def test_arithmetic_agrees_with_integers(a: Dim, b: Dim, c: int, sizes: dict[str, int]) -> None:
    x, y = evaluate(a, sizes), evaluate(b, sizes)
    for made, expected in [
        (a + b, x + y), (a - b, x - y), (a * b, x * y), (floordiv(a, c), x // c), (mod(a, c), x % c),
        (minimum(a, b), min(x, y)), (maximum(a, b), max(x, y)), (ceildiv(a, c), -(-x // c)),
    ]:  # fmt: skip
        assert evaluate(made, sizes) == expected


@quick
@given(dims(), dims(), SIZES)
@example(N, 4 * M - 4 * floordiv(3 * M, 4) + 40, dict.fromkeys(PLAIN_SYMBOLS, 7))
@example(N - M, N + M + 1, dict.fromkeys(PLAIN_SYMBOLS, 5))
def test_a_product_divided_by_a_sum_is_the_other_factor(a: Dim, b: Dim, sizes: dict[str, int]) -> None:
    divisor, dividend = evaluate(b, sizes), evaluate(a * b, sizes)
    if divisor:
        assert evaluate(floordiv(a * b, b), sizes) == dividend // divisor
        assert evaluate(mod(a * b, b), sizes) == 0
        assert evaluate(floordiv(a * b + 1, b), sizes) == (dividend + 1) // divisor


def test_exact_quotients_of_sums_are_found() -> None:
    padded = 4 * T - 4 * floordiv(3 * T, 4) + 40
    for factor in (N, N + M, 3 * N - 2, N * N + H):
        assert floordiv(factor * padded, padded) is factor
        assert mod(factor * padded, padded) == 0
    assert str(floordiv(N * N - 1, N + 2)) == "floordiv(N*N - 1, N + 2)"
    assert str(floordiv(3 * N, 2 * N + 2)) == "floordiv(3*N, 2*N + 2)"


@quick
@given(dims())
def test_text_comes_back_as_the_same_object(dim: Dim) -> None:
    again = parse_dim(str(dim))
    assert again is dim or again == dim
    assert pickle.loads(pickle.dumps(dim)) == dim


@quick
@given(dims(), dims(), dims())
def test_equal_polynomials_are_one_object(a: Dim, b: Dim, c: Dim) -> None:
    for left, right in [(a + b, b + a), (a * b, b * a), (a * (b + c), a * b + a * c), ((a - b) + b, a)]:
        assert left == right
        assert left is right or isinstance(left, int)


@quick
@given(
    dims(),
    SIZES,
    st.dictionaries(st.sampled_from(PLAIN_SYMBOLS), st.tuples(st.integers(0, 40), st.integers(0, 40))),
)
def test_inferred_ranges_contain_every_value(
    dim: Dim, sizes: dict[str, int], limits: dict[str, tuple[int, int]]
) -> None:
    table = SymbolTable({name: Range(min(pair), max(pair)) for name, pair in limits.items()})
    within = {
        n: min(max(v, table.ranges[n].low), table.ranges[n].high or 0) if n in limits else v
        for n, v in sizes.items()
    }
    found, value = table.range_of(dim), evaluate(dim, within)
    assert found.low <= value
    assert found.high is None or value <= found.high


@pytest.mark.parametrize(
    ("dim", "low", "high"),
    [
        (N * M - N - M + 1, 2, 9),  # (N - 1) * (M - 1)
        (N * M - 2 * N, 2, 8),
        (2 * M - N * M, -8, 0),
        (N * N - N, 2, 12),
    ],
)
def test_products_are_bounded_over_the_excesses_of_their_factors(dim: Dim, low: int, high: int) -> None:
    found = SymbolTable({"N": Range(2, 4), "M": Range(3, 4)}).range_of(dim)
    actual = [evaluate(dim, {"N": n, "M": m}) for n in (2, 3, 4) for m in (3, 4)]
    assert low <= found.low <= min(actual)
    assert found.high is not None and max(actual) <= found.high <= high


@pytest.mark.parametrize(
    ("dim", "low", "high"),
    [
        (mod(-N, 4), 0, 3),
        (N - 4 * floordiv(N, 4), 0, 3),
        (8 * floordiv(N, 4) - 2 * N, -6, 0),
        (mod(N, M + 1), 0, None),
        (floordiv(N + 8, M + 1), 0, None),
        (floordiv(-1 * M - 1, N + 1), None, -1),
    ],
    ids=str,
)
def test_quotients_and_remainders_are_bounded(dim: Dim, low: int | None, high: int | None) -> None:
    found = SymbolTable().range_of(dim)
    assert (None if found.low == LOWEST else found.low, found.high) == (low, high)


def test_repeated_subexpressions_are_bounded_once() -> None:
    """A size of ten levels has a thousand paths to its symbol."""
    dim: Dim = N
    low, high = 1000, 9000
    for _ in range(10):
        dim = maximum(floordiv(dim, 2) + 1, floordiv(dim, 3) + 2)
        low, high = (max(size // 2 + 1, size // 3 + 2) for size in (low, high))
    asked: list[str] = []

    def of_symbol(name: str) -> Range:
        asked.append(name)
        return Range(1000, 9000)

    assert bounds(dim, of_symbol) == Range(low, high)
    assert asked == ["N"]


@quick
@given(dims(), dims(), SIZES)
def test_refuted_equalities_never_hold(a: Dim, b: Dim, sizes: dict[str, int]) -> None:
    table = SymbolTable()
    if table.refutes_equal(a, b):
        assert evaluate(a, sizes) != evaluate(b, sizes)
    if table.proves_equal(a, b):
        assert evaluate(a, sizes) == evaluate(b, sizes)


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (2 * (N + 1), "2*N + 2"),
        (N * M - N * M, "0"),
        (floordiv(4 * N + 2, 4), "N"),
        (floordiv(6 * N + 3, 4), "N + floordiv(N + 1, 2)"),
        (floordiv(floordiv(N, 2), 3), "floordiv(N, 6)"),
        (floordiv(N * M, N), "M"),
        (mod(8 * N + 3, 4), "3"),
        (mod(mod(N, 8) + 3 * mod(M, 4), 4), "mod(3*M + N, 4)"),
        (N + mod(-N, 4), "4*floordiv(N + 3, 4)"),
        (floordiv(N + mod(4 - mod(N, 4), 4), 4), "floordiv(N + 3, 4)"),
        (maximum(N, N + 2), "N + 2"),
        (minimum(N, 3, maximum(M, M)), "min(3, M, N)"),
        (substitute(N * H + floordiv(H, 2), {"H": 4}), "4*N + 2"),
        (N * N * 3, "3*N*N"),
        (product((2, N, 3)), "6*N"),
    ],
)
def test_equal_dims_are_printed_in_one_form(dim: Dim, text: str) -> None:
    assert str(dim) == text


def test_totals_are_canonical() -> None:
    dims = (3, N, floordiv(N + M, 2), N * 2, M - N * 3, -3)
    assert total(dims) is floordiv(N + M, 2) + M
    assert total(()) == 0 and total((N,)) is N and total((2, 5)) == 7
    with pytest.raises(SymbolError, match=str(MAX_TERMS)):
        total(symbol(f"a{k}") for k in range(MAX_TERMS + 1))


def test_atoms_are_found_inside_functions() -> None:
    assert {a.name for a in atoms(floordiv(N + M, 2) * H)} == {"N", "M", "H"}


@pytest.mark.parametrize("text", ["", "N +", "N M", "floordiv(N)", "(N", "N / 2", "1.5", "min(", "N)", "$"])
def test_bad_text_is_rejected(text: str) -> None:
    with pytest.raises(SymbolError):
        parse_dim(text)


def test_invalid_expressions_raise_an_error() -> None:
    with pytest.raises(SymbolError, match="by zero"):
        floordiv(N, 0)
    with pytest.raises(SymbolError, match="modulo zero"):
        mod(N, 0)
    with pytest.raises(SymbolError, match="not a valid symbol"):
        symbol("a b")
    with pytest.raises(SymbolError, match="unbound symbols M"):
        evaluate(N + M, {"N": 1})
    sums = [sum((symbol(f"{letter}{k}") for k in range(33)), start=0) for letter in "ab"]
    with pytest.raises(SymbolError, match=str(MAX_TERMS)):
        sums[0] * sums[1]


def test_table_proves_by_constraints_and_ranges() -> None:
    table = SymbolTable({"N": Range(1, 8)})
    assert table.proves_at_least(N, 1)
    assert not table.proves_at_least(M, 1)
    assert table.refutes_equal(N, 9)
    assert not table.proves_equal(N, M)
    table.demand("==", N, M, "Add_0")
    assert table.proves_equal(M, N)
    fresh = [table.fresh("N"), table.fresh("N"), table.fresh("2 d")]
    assert [str(f) for f in fresh] == ["N_1", "N_2", "s2_d"]
    assert all(isinstance(f, Expr) for f in fresh)


STEPS = st.lists(st.tuples(st.integers(1, 4), st.integers(-9, 9), st.integers(1, 5)), max_size=3)


@quick
@given(STEPS)
@example([(1, 3, 4), (1, -8, 1)])
@example([(3, -1, 2)])
def test_a_constraint_on_quotients_bounds_their_symbol(steps: list[tuple[int, int, int]]) -> None:
    """It holds exactly for the sizes from the bound on."""
    dim: Dim = N
    for factor, summand, divisor in steps:
        dim = floordiv(factor * dim + summand, divisor)
    table = SymbolTable()
    table.demand("<=", 0, dim, "Conv_0")
    bound = table.range_of(N).low
    assert [evaluate(dim, {"N": n}) >= 0 for n in range(60)] == [n >= bound for n in range(60)]


def test_guards_bound_their_symbols() -> None:
    table = SymbolTable(assumable=None)
    assert table.assume("<=", 1, 16 * N, "Div_0")
    assert table.proves_at_least(32 * N, 32)
    assert not table.proves_at_least(N, 2)


def test_bounds_follow_constraints_that_come_and_go() -> None:
    table = SymbolTable()
    a, b = table.fresh("a"), table.fresh("b")
    table.demand("<=", 4, a, "x")
    table.demand("<=", 7, 2 * b, "x")
    assert (table.range_of(a).low, table.range_of(b).low) == (4, 4)
    table.demand("<=", 9, a, "y")
    assert table.range_of(a).low == 9
    table.constraints.pop(next(reversed(table.constraints)))
    assert table.range_of(a).low == 4
    table.constraints.pop(next(iter(table.constraints)))
    table.demand("<=", 2, a, "z")
    assert (table.range_of(a).low, table.range_of(b).low) == (2, 4)
    other = table.copy()
    other.demand("<=", 5, a, "z")
    assert (table.range_of(a).low, other.range_of(a).low) == (2, 5)
    table.constraints = {}
    assert table.range_of(b).low == 0


def test_equalities_are_transitive_and_enter_expressions() -> None:
    table = SymbolTable()
    table.demand("==", N, M, "a")
    table.demand("==", M + 1, 2 * T, "b")
    assert table.proves_equal(N + 1, 2 * T)
    assert table.proves_equal(N * T, M * T)
    assert table.proves_equal(4 * T - 2, N + M)
    assert not table.proves_equal(N, T)


def test_equalities_that_lead_to_invalid_expressions_prove_nothing() -> None:
    table = SymbolTable()
    table.demand("==", N, 0, "")
    assert not table.proves_equal(floordiv(M, N), 3)
    table = SymbolTable()
    wide = sum((symbol(f"s{k}") for k in range(20)), start=0)
    table.demand("==", N, wide, "")
    assert product([N] * 6) not in (0, 1)
    assert not table.proves_equal(product([N] * 6), M)


def test_an_equality_without_a_symbol_to_solve_for_serves_as_it_stands() -> None:
    table = SymbolTable()
    table.demand("==", 2 * floordiv(N + 31, 32), floordiv(N + 15, 16), "a")
    table.demand("==", N, M, "b")
    assert table.proves_equal(floordiv(M + 15, 16), 2 * floordiv(M + 31, 32))
    assert not table.proves_equal(floordiv(M + 15, 16), floordiv(M + 31, 32))


def test_equalities_without_symbols_to_solve_for_are_transitive_as_well() -> None:
    halves = [floordiv(size + 1, 2) for size in (N, M, T)]
    table = SymbolTable()
    table.demand("==", halves[0], halves[1], "a")
    table.demand("==", 3 * halves[1], 3 * halves[2], "b")
    assert table.proves_equal(halves[0], halves[2])
    assert table.proves_equal(2 * halves[0] + 1, halves[1] + halves[2] + 1)
    assert not table.proves_equal(N, T), "sizes 1 and 2 have one half"
    table.demand("==", 4 * N, 4 * M, "c")
    assert table.proves_equal(N, M) and not table.proves_equal(N, T)


SIZES = [N, M, T, 2 * N, N + M, N * T, floordiv(N, 2), floordiv(M + 1, 3), floordiv(T, 2), minimum(M, T)]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=9))
@example([(2, 6, False), (0, 8, False), (4, 7, False)])  # a quotient and a symbol are divided again
@settings(deadline=None)
def test_equal_sizes_are_classes(edges: list[tuple[int, int, bool]]) -> None:
    """Checked and assumed equalities are joined: sizes that a chain of equalities connects are equal."""
    table = SymbolTable(assumable=None)
    classes = [{k} for k in range(len(SIZES))]
    for a, b, demanded in edges:
        (table.demand if demanded else table.assume)("==", SIZES[a], SIZES[b], "node")
        joined = classes[a] | classes[b]
        for k in joined:
            classes[k] = joined
    for a, one in enumerate(classes):
        assert all(table.proves_equal(SIZES[a], SIZES[b]) for b in one)


@given(
    st.lists(st.tuples(st.sampled_from(SIZES), st.sampled_from(SIZES)), max_size=4),
    st.tuples(st.sampled_from(SIZES), st.sampled_from(SIZES)),
)
@settings(deadline=None)
def test_proved_equalities_hold_wherever_the_demanded_ones_do(
    demanded: list[tuple[Dim, Dim]], asked: tuple[Dim, Dim]
) -> None:
    table = SymbolTable()
    for a, b in demanded:
        table.demand("==", a, b, "node")
    if not table.proves_equal(*asked):
        return
    for n, m, t in itertools.product(range(5), repeat=3):
        sizes = {"N": n, "M": m, "T": t}
        if all(evaluate(a, sizes) == evaluate(b, sizes) for a, b in demanded):
            assert evaluate(asked[0], sizes) == evaluate(asked[1], sizes)


def test_assumptions_are_guards_of_the_symbols_that_may_be_assumed() -> None:
    table = SymbolTable()
    assert not table.assume("!=", N, 1, "squeeze") and table.undecided
    table.assumable = frozenset({"N"})
    assert table.assume("!=", N, 1, "squeeze") and not table.assume("==", N, M, "add")
    assert [*map(str, table.guards)] == ["N != 1"]
    copy = table.copy()
    copy.assume_nothing()
    assert not copy.guards and table.guards


def test_constraints_that_sizes_break() -> None:
    parsed = parse_constraint("2*N <= M + 1 (node add (1))")
    assert str(parsed) == "2*N <= M + 1" and parsed.node == "add (1)"
    assert parsed.broken_by({"N": 2, "M": 3}) is None
    assert parsed.broken_by({"N": 2}) is None, "a size is not known"
    assert "2*N <= M + 1 fails with 6 and 4" in (parsed.broken_by({"N": 3, "M": 3}) or "")
    equal = parse_constraint("N == 4")
    assert equal.broken_by({"N": 4}) is None and equal.broken_by({"N": 5})
