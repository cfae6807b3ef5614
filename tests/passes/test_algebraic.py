"""What algebra may and may not do, on NaN, infinities, signed zeros, subnormals and overflow."""

from __future__ import annotations

import numpy as np
import pytest

from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.graph import Module, Value
from graphwright.ir.op import Op
from graphwright.ir.types import (
    BOOL,
    DTYPES,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U32,
    U64,
    DType,
    TensorType,
    tensor,
)
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.div import Div
from graphwright.ops.core.pow import Pow
from graphwright.passes.algebraic import ALGEBRAIC, RULES, holds_all
from graphwright.passes.base import Record
from graphwright.passes.rule_pass import apply_rules

from .support import Closeness, Evaluator, assert_same_array

TINY = float(np.float32(1e-45))
TROUBLE = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, TINY, -TINY, 1e-38, 3.4e38, -3.4e38, 1.5, -7.25], np.float32
)


def simplified(build: object) -> tuple[Record, list[np.ndarray], list[np.ndarray]]:
    """The result of the pass on ``build(b, x)``, and its results before and after for special values."""
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, len(TROUBLE)))])
    result = build(b, x)  # type: ignore[operator]
    b.graph.set_outputs([result])
    before = Evaluator(module, {}).graph(b.graph, [TROUBLE])
    record = Record("algebraic")
    ALGEBRAIC.run(module, record)
    return record, before, Evaluator(module, {}).graph(b.graph, [TROUBLE])


@pytest.mark.parametrize(
    ("op", "number", "rule"),
    [
        (Mul(), 1.0, "x * 1"),
        (Div(), 1.0, "x / 1"),
        (Sub(), 0.0, "x - 0"),
        (Add(), -0.0, "x + 0"),
        (Pow(), 1.0, "x ** 1"),
        (Pow(), 2.0, "x ** 2"),
        (Div(), 4.0, "x / 2**k"),
        (Div(), -(2.0**-126), "x / 2**k"),
        (Add(), 0.0, None),
        (Sub(), -0.0, None),
        (Mul(), 0.0, None),
        (Pow(), 0.5, None),
        (Pow(), 0.0, None),
        (Div(), 3.0, None),
        (Div(), 2.0**-130, None),
    ],
)
def test_numbers_with_constants(op: Op, number: float, rule: str | None) -> None:
    def build(b: Builder, x: Value) -> Value:
        made: Value = b(op, x, b.const(number, F32))
        return made

    record, before, after = simplified(build)
    assert list(record.counts) == ([rule] if rule else [])
    assert_same_array(before[0], after[0], 0, Closeness.BITS)


@pytest.mark.parametrize(
    ("first", "second", "merges"),
    [(2.0, 4.0, True), (2.0**100, 2.0**100, False), (2.0, 0.5, False), (1.0, 8.0, True), (1.5, 1.5, False)],
)
def test_chains_of_products(first: float, second: float, merges: bool) -> None:
    def build(b: Builder, x: Value) -> Value:
        made: Value = b(Mul(), b(Mul(), x, b.const(first, F32)), b.const(second, F32))
        return made

    record, before, after = simplified(build)
    assert bool(record.counts) == merges
    assert_same_array(before[0], after[0], 0, Closeness.BITS)


@pytest.mark.parametrize(
    ("inner", "outer", "merges"),
    [
        ((-1.0, 5.0), (0.5, 9.0), True),
        ((None, 5.0), (1.0, None), True),
        ((0.0, 6.0), (-0.0, 3.0), False),
        ((5.0, 6.0), (1.0, 2.0), False),
        ((0.0, 6.0), (0.0, 6.0), True),
    ],
)
def test_chains_of_clips(
    inner: tuple[float | None, float | None], outer: tuple[float | None, float | None], merges: bool
) -> None:
    record, before, after = simplified(lambda b, x: b(Clip(*outer), b(Clip(*inner), x)))
    assert bool(record.counts) == merges
    assert_same_array(before[0], after[0], 0, Closeness.BITS)


@pytest.mark.parametrize(
    ("have", "between", "to", "merges"),
    [
        (U32, F64, I32, False),  # 2**32 - 1 wraps to -1 as an integer, and is out of range as a float
        (U8, F32, I8, False),
        (U32, U64, I32, True),
        (I8, F32, I32, True),
        (F16, F32, I8, True),
    ],
)
def test_chains_of_casts(have: DType, between: DType, to: DType, merges: bool) -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(have, 3))])
    b.graph.set_outputs([b(Cast(to), b(Cast(between), x))])
    record = Record("algebraic")
    ALGEBRAIC.run(module, record)
    assert bool(record.counts) == merges


@pytest.mark.parametrize(
    ("wide", "narrow", "holds"),
    [
        (F64, F32, True), (F32, F64, False), (F32, F16, True), (F16, DTYPES["bf16"], False),
        (DTYPES["bf16"], F16, False), (F32, DTYPES["bf16"], True), (I64, I32, True), (I32, I64, False),
        (I64, U8, True), (U64, I8, False), (I16, U8, True), (I8, U8, False), (F64, I32, True),
        (F32, I32, False), (F32, I16, True), (I8, BOOL, True), (BOOL, I8, False), (F64, I64, False),
    ],
)  # fmt: skip
def test_which_dtypes_hold_which(wide: DType, narrow: DType, holds: bool) -> None:
    assert holds_all(wide, narrow) == holds


def test_a_rewrite_that_needs_an_unknown_rank_leaves_the_graph_as_it_is() -> None:
    module, record, unranked = Module(), Record("algebraic"), TensorType(F16, None)
    b, (x,) = new_main_graph(module, [("x", unranked)])
    b.graph.set_outputs([b(Div(), x, b.const(np.array(2, np.float16)), known=[unranked])])
    assert not apply_rules(RULES, b.graph, module, record)
    assert [node.op.name for node in b.graph] == ["Constant", "Div"]
    assert [reason.why for reason in record.reasons] == ["the rank of an operand is not known"]
