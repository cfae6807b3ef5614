"""Reductions against NumPy over axes, dtypes, empty inputs, and as folds of scalar expressions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.errors import ModelError
from graphwright.ir.inference.infer import infer_outputs
from graphwright.ir.loops.nodes import Ref
from graphwright.ir.op import Fact, Op, Trait
from graphwright.ir.symbols import SymbolTable, symbol
from graphwright.ir.types import BOOL, F32, F64, I32, I64, U8, tensor, type_of
from graphwright.ops.core.arg_reduce import ArgMax, ArgMin
from graphwright.ops.core.cumulative import CumProd, CumSum
from graphwright.ops.core.reduce_log_sum_exp import ReduceLogSumExp
from graphwright.ops.core.reductions import (
    Fold,
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
)
from graphwright.ops.nn.softmax import Hardmax, LogSoftmax, Softmax

from .support import evaluate_scalar, run_reference

INF = math.inf
MEANINGS: dict[Any, Callable[..., Any]] = {
    ReduceSum: np.sum,
    ReduceMean: np.mean,
    ReduceProd: np.prod,
    ReduceMax: np.max,
    ReduceMin: np.min,
    ReduceSumSquare: lambda x, **k: np.sum(x * x, **k),
    ReduceL1: lambda x, **k: np.sum(np.abs(x), **k),
    ReduceL2: lambda x, **k: np.sqrt(np.sum(x * x, **k)),
    ReduceLogSum: lambda x, **k: np.log(np.sum(x, **k)),
    ReduceLogSumExp: lambda x, **k: np.log(np.sum(np.exp(x), **k)),
}
FOLDS = [cls for cls in MEANINGS if issubclass(cls, Fold)]
SHAPES = st.lists(st.sampled_from([1, 2, 3, 5, 7]), min_size=0, max_size=4)


@settings(deadline=None, max_examples=80)
@given(st.sampled_from(list(MEANINGS)), SHAPES, st.data(), st.booleans())
def test_reductions_follow_numpy(cls: Any, shape: list[int], data: Any, keepdims: bool) -> None:
    axes = data.draw(
        st.one_of(
            st.none(), st.lists(st.sampled_from(range(len(shape))), unique=True) if shape else st.just([])
        )
    )
    x = np.random.default_rng(len(shape)).uniform(0.5, 2, shape)
    op = cls(None if axes is None else tuple(axes), keepdims)
    expected = MEANINGS[cls](x, axis=None if axes is None else tuple(axes), keepdims=keepdims)
    (actual,) = run_reference(op, [x])
    (fact,) = infer_outputs(op, [Fact(type_of(x))], SymbolTable(), "node")
    assert fact.type == type_of(actual)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


EMPTY = {ReduceSum: 0, ReduceProd: 1, ReduceMax: -INF, ReduceMin: INF, ReduceSumSquare: 0, ReduceL1: 0,
         ReduceL2: 0, ReduceLogSum: -INF, ReduceLogSumExp: -INF, ReduceMean: math.nan}  # fmt: skip


@pytest.mark.parametrize("cls", EMPTY)
def test_reductions_over_nothing(cls: Any) -> None:
    (actual,) = run_reference(cls((0,), keepdims=False), [np.zeros((0, 2), np.float32)])
    np.testing.assert_array_equal(actual, np.full(2, EMPTY[cls], np.float32))


def test_extremes_over_nothing_are_the_limits_of_the_dtype() -> None:
    assert run_reference(ReduceMax(), [np.zeros(0, np.int32)])[0].tolist() == [-(2**31)]
    assert run_reference(ReduceMin(), [np.zeros(0, np.uint8)])[0].tolist() == [255]
    assert run_reference(ReduceMax(), [np.zeros(0, bool)])[0].tolist() == [False]


@pytest.mark.parametrize("cls", [ReduceMax, ReduceMin, ReduceSum, ReduceLogSumExp, ReduceL2])
def test_nan_wins(cls: Any) -> None:
    assert np.isnan(run_reference(cls(), [np.array([1.0, np.nan, 3.0], np.float32)])[0]).all()


def test_log_sum_exp_does_not_overflow() -> None:
    (actual,) = run_reference(ReduceLogSumExp(), [np.array([1000.0, 1000.0], np.float32)])
    np.testing.assert_allclose(actual, [1000 + math.log(2)], rtol=1e-6)
    rows = np.array([[INF, 1.0], [-INF, -INF], [-INF, 2.0]], np.float32)
    assert run_reference(ReduceLogSumExp((1,), keepdims=False), [rows])[0].tolist() == [INF, -INF, 2.0]


def test_16_bit_floats_are_summed_in_f32() -> None:
    (actual,) = run_reference(ReduceSum(), [np.ones(5000, np.float16)])
    assert actual.tolist() == [5000.0]
    (actual,) = run_reference(ReduceMean(), [np.full(4000, 30.0, np.float16)])
    assert actual.tolist() == [30.0]


def test_integer_means_truncate() -> None:
    assert run_reference(ReduceMean(), [np.array([-3, -4], np.int32)])[0].tolist() == [-3]
    assert run_reference(ReduceL2(), [np.array([3, 4], np.int32)])[0].tolist() == [5]


@pytest.mark.parametrize("cls", FOLDS)
@pytest.mark.parametrize("dtype", [F32, F64, I32])
def test_folds_are_their_combiner_between_prepare_and_finish(cls: Any, dtype: Any) -> None:
    x = np.random.default_rng(3).uniform(1, 5, 6).astype(dtype.numpy)
    made: Fold = cls(None, keepdims=False)
    combine = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[made.combiner]
    acc = np.asarray(made.identity(dtype), dtype.numpy)
    for element in x:
        acc = combine(acc, evaluate_scalar(made.prepare(Ref("x", dtype)), {"x": element}, {}))
    for count in (6, symbol("N")):
        result = evaluate_scalar(made.finish(Ref("acc", dtype), count), {"acc": acc}, {"N": 6})
        np.testing.assert_allclose(result, run_reference(made, [x])[0], rtol=1e-5)
    assert Trait.REDUCTION in made.traits


def test_products_of_sizes_are_known() -> None:
    n = symbol("N")
    fact = Fact(tensor(I64, 3), (n, 4, 5))
    for op, expected in (
        (ReduceProd(), 20 * n),
        (ReduceSum(), n + 9),
        (ReduceProd(None, keepdims=False), 20 * n),
    ):
        assert infer_outputs(op, [fact], SymbolTable(), "node")[0].elements == (expected,)
    assert infer_outputs(ReduceSumSquare(), [fact], SymbolTable(), "node")[0].elements is None


def test_reductions_over_computed_axes_have_unknown_rank() -> None:
    facts = [Fact(tensor(F32, 2, 3)), Fact(tensor(I64, 1))]
    with pytest.raises(ModelError, match="rank"):
        infer_outputs(ReduceSum(), facts, SymbolTable(), "node")
    (fact,) = infer_outputs(ReduceSum(), facts, SymbolTable(), "node", [tensor(F32, 2)])
    assert fact.type.shape is None


@pytest.mark.parametrize(
    ("cls", "last", "expected"),
    [(ArgMax, False, 1), (ArgMax, True, 3), (ArgMin, False, 0), (ArgMin, True, 2)],
)
def test_arg_reductions_break_ties(cls: Any, last: bool, expected: int) -> None:
    x = np.array([1, 5, 1, 5], np.float32)
    assert run_reference(cls(0, keepdims=False, last=last), [x])[0].tolist() == expected


@settings(deadline=None, max_examples=40)
@given(st.sampled_from([CumSum, CumProd]), st.integers(0, 7), st.booleans(), st.booleans())
def test_running_sums_and_products(cls: Any, size: int, exclusive: bool, reverse: bool) -> None:
    x = np.random.default_rng(size).integers(1, 4, size)
    start, combine = (0, lambda a, b: a + b) if cls is CumSum else (1, lambda a, b: a * b)
    expected, acc = [], start
    for value in reversed(x.tolist()) if reverse else x.tolist():
        expected.append(acc if exclusive else combine(acc, value))
        acc = combine(acc, value)
    (actual,) = run_reference(cls(0, exclusive, reverse), [x])
    assert actual.tolist() == (expected[::-1] if reverse else expected)


SOFT: list[tuple[Op, Callable[[Any], Any]]] = [
    (Softmax(), lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    (LogSoftmax(), lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
    (Softmax(0), lambda x: np.exp(x) / np.exp(x).sum(0, keepdims=True)),
    (Softmax(1, flat=True), lambda x: np.exp(x) / np.exp(x).sum((1, 2), keepdims=True)),
    (LogSoftmax(0, flat=True), lambda x: x - np.log(np.exp(x).sum())),
]


@pytest.mark.parametrize(("op", "meaning"), SOFT)
def test_softmax_follows_its_formula(op: Op, meaning: Callable[[Any], Any]) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    np.testing.assert_allclose(run_reference(op, [x])[0], meaning(x), rtol=1e-12)
    shifted = (x + 1000).astype(np.float32)
    np.testing.assert_allclose(run_reference(op, [shifted])[0], meaning(x), rtol=3e-4)


def test_softmax_of_masked_rows() -> None:
    x = np.array([[0.0, -INF, 0.0], [-INF, -INF, -INF], [INF, 0.0, 0.0]], np.float32)
    (actual,) = run_reference(Softmax(), [x])
    assert actual[0].tolist() == [0.5, 0.0, 0.5]
    assert np.isnan(actual[1]).all() and np.isnan(actual[2, 0])


def test_hardmax_takes_the_first() -> None:
    x = np.array([[1, 3, 3], [2, 0, 1]], np.float32)
    assert run_reference(Hardmax(), [x])[0].tolist() == [[0, 1, 0], [1, 0, 0]]
    assert run_reference(Hardmax(0, flat=True), [x])[0].tolist() == [[0, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize("dtype", [BOOL, U8])
def test_extremes_take_small_dtypes(dtype: Any) -> None:
    x = np.array([[1, 0], [1, 1]], dtype.numpy)
    assert run_reference(ReduceMax((1,), keepdims=False), [x])[0].tolist() == [1, 1]
    assert run_reference(ReduceMin((1,), keepdims=False), [x])[0].tolist() == [0, 1]
