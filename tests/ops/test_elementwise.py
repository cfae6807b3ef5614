"""Elementwise ops on values where implementations differ: NaN, infinities, zeros, subnormals, limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import graphwright as gw
import graphwright.ops
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.inference.infer import infer_outputs
from graphwright.ir.op import Fact, Op, Trait, op_class, registered_ops
from graphwright.ir.symbols import SymbolTable, maximum, mod, symbol
from graphwright.ir.types import BF16, BOOL, DTYPES, F16, F32, F64, I8, I32, I64, STRING, U8, tensor, type_of
from graphwright.ops.core.binary import Add, Greater, GreaterOrEqual, Less, LessOrEqual, Max, Min, Mul, Sub
from graphwright.ops.core.bit_shift import BitShift
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.is_inf import IsInf
from graphwright.ops.core.mod import Mod
from graphwright.ops.core.pow import Pow
from graphwright.ops.core.round_to_range import RoundToRange
from graphwright.ops.core.unary import Abs, Neg, Relu
from graphwright.ops.ml.binarizer import Binarizer
from graphwright.ops.nn.activations import (
    Celu,
    Elu,
    Gelu,
    HardSigmoid,
    LeakyRelu,
    Selu,
    Shrink,
    Swish,
    ThresholdedRelu,
)
from graphwright.ops.special.polynomial import Polynomial

from .support import expression_result, run_reference

graphwright.ops.load()

NAN, INF = math.nan, math.inf
SPECIAL = np.array(
    [NAN, INF, -INF, 0.0, -0.0, 1e-45, -1e-45, 1.1754944e-38, 1.0, -1.0, 0.5, -0.5, 2.5, 3.5, -2.5, 20.0,
     -20.0, 88.0, -104.0, 3.4028235e38, -3.4028235e38],
    np.float32,
)  # fmt: skip


def softplus(x: Any) -> Any:
    return np.logaddexp(0.0, x)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def log_gamma(x: float) -> float:
    return INF if math.isinf(x) or (x <= 0 and x == math.floor(x)) else math.lgamma(x)


ERF = np.vectorize(math.erf, otypes=[np.float64])
UNARY: dict[str, Callable[[Any], Any]] = {
    "Abs": np.abs, "Neg": np.negative, "Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt, "Floor": np.floor,
    "Reciprocal": np.reciprocal, "Ceil": np.ceil, "Round": np.rint, "Sign": np.sign, "Erf": ERF,
    "Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan,
    "Sinh": np.sinh, "Cosh": np.cosh, "Asinh": np.arcsinh,
    "Acosh": np.arccosh, "Atanh": np.arctanh, "Sigmoid": sigmoid, "Tanh": np.tanh,
    "Expm1": np.expm1, "Log1p": np.log1p, "Trunc": np.trunc,
    "Relu": lambda x: np.where(x <= 0, 0, x), "Softplus": softplus, "Softsign": lambda x: x / (1 + np.abs(x)),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1), "Mish": lambda x: x * np.tanh(softplus(x)),
    "Identity": lambda x: x, "IsNaN": np.isnan, "Log2": np.log2, "Log10": np.log10,
    "Erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "LogGamma": np.vectorize(log_gamma, otypes=[np.float64]),
}  # fmt: skip
ATTRIBUTES: list[tuple[Op, Callable[[Any], Any]]] = [
    (LeakyRelu(0.25), lambda x: np.where(x < 0, 0.25 * x, x)),
    (Elu(0.5), lambda x: np.where(x < 0, 0.5 * (np.exp(x) - 1), x)),
    (Selu(1.5, 2.0), lambda x: np.where(x > 0, 2 * x, 3 * (np.exp(x) - 1))),
    (Celu(2.0), lambda x: np.maximum(0, x) + np.minimum(0, 2 * (np.exp(x / 2) - 1))),
    (HardSigmoid(0.25, 0.5), lambda x: np.clip(0.25 * x + 0.5, 0, 1)),
    (ThresholdedRelu(1.0), lambda x: np.where(x > 1, x, 0)),
    (Swish(2.0), lambda x: x * sigmoid(2 * x)),
    (Gelu(), lambda x: 0.5 * x * (1 + ERF(x / math.sqrt(2)))),
    (Gelu("tanh"), lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    (Shrink(0.25, 1.5), lambda x: np.where(x < -1.5, x + 0.25, np.where(x > 1.5, x - 0.25, 0))),
    (Binarizer(0.5), lambda x: np.where(x > 0.5, 1, 0)),
    (RoundToRange(-3.0, 2.0), lambda x: np.minimum(np.fmax(np.rint(x), -3), 2)),
    (IsInf(), np.isinf),
    (IsInf(detect_negative=True, detect_positive=False), np.isneginf),
    (IsInf(detect_negative=False, detect_positive=True), np.isposinf),
    (IsInf(detect_negative=False, detect_positive=False), lambda x: np.zeros(x.shape, bool)),
    (Polynomial((0.5, -1.0, 0.25)), lambda x: 0.5 + x * (-1 + x * 0.25)),
    (Clip(-1.0, 2.0), lambda x: np.clip(x, -1, 2)),
    (Clip(2.0, -1.0), lambda x: np.where(np.isnan(x), x, -1)),
]
SINGLE = [(op_class(name)(), f) for name, f in UNARY.items()] + ATTRIBUTES


def same_special(actual: np.ndarray, expected: np.ndarray, rtol: float) -> None:
    """The same NaNs and infinities, and numbers within ``rtol`` (subnormals within some steps)."""
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-43, equal_nan=True)


@pytest.mark.parametrize(("op", "meaning"), SINGLE, ids=[f"{o.name}-{k}" for k, (o, _f) in enumerate(SINGLE)])
def test_special_values_of_one_operand(op: Op, meaning: Callable[[Any], Any]) -> None:
    with np.errstate(all="ignore"):
        expected = np.asarray(meaning(SPECIAL.astype(np.float64)))
        expected = expected if expected.dtype == bool else expected.astype(np.float32)
    if op.name in ("Mish", "HardSwish", "Gelu", "Swish", "Softsign"):  # products of an infinity and a zero
        finite = np.isfinite(SPECIAL)
    else:
        finite = np.ones(SPECIAL.shape, bool)
    (actual,) = run_reference(op, [SPECIAL])
    assert actual.dtype == expected.dtype
    same_special(actual[finite], expected[finite], 4e-6)
    same_special(expression_result(op, [SPECIAL], [type_of(SPECIAL)]), actual, 4e-6)
    assert (
        np.isnan(actual[0])
        or actual.dtype == bool
        or op.name in ("ThresholdedRelu", "Shrink", "Binarizer", "RoundToRange")
    )


@pytest.mark.parametrize(
    "name", ["Floor", "Ceil", "Round", "Neg", "Abs", "Sqrt", "Tanh", "Erf", "Sin", "Identity", "Asinh"]
)
def test_sign_of_zero(name: str) -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    (actual,) = run_reference(op_class(name)(), [zeros])
    with np.errstate(all="ignore"):
        assert np.signbit(actual).tolist() == np.signbit(UNARY[name](zeros)).tolist()


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power,
    "Min": np.minimum, "Max": np.maximum, "Less": np.less, "LessOrEqual": np.less_equal,
    "Greater": np.greater, "Equal": np.equal, "GreaterOrEqual": np.greater_equal, "Mod": np.mod,
    "Atan2": np.arctan2,
    "PRelu": lambda a, b: np.where(a < 0, a * b, a),
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_special_values_of_two_operands(name: str) -> None:
    a, b = SPECIAL[:, None], SPECIAL[None, :]
    with np.errstate(all="ignore"):
        expected = BINARY[name](a, b)
    (actual,) = run_reference(op_class(name)(), [a, b])
    assert actual.dtype == expected.dtype
    same_special(actual, expected, 2e-7)
    same_special(expression_result(op_class(name)(), [a, b], [type_of(a), type_of(b)]), actual, 2e-7)


def test_fmod_follows_c() -> None:
    pairs = [
        (a, b)
        for a in SPECIAL.tolist()
        for b in SPECIAL.tolist()
        if math.isfinite(a) and b and not math.isnan(b)
    ]
    a, b = (np.array(side, np.float32) for side in zip(*pairs, strict=True))
    (actual,) = run_reference(Mod(fmod=True), [a, b])
    np.testing.assert_array_equal(
        actual, np.array([math.fmod(*p) for p in zip(a.tolist(), b.tolist(), strict=True)])
    )


def test_every_elementwise_op_of_floats_is_in_a_table() -> None:
    covered = {*UNARY, *BINARY, *(o.name for o, _ in ATTRIBUTES), "Cast", "Where"}
    ours = {
        n
        for n, c in registered_ops().items()
        if Trait.ELEMENTWISE in c.traits and c.__module__.startswith("graphwright.ops")
    }
    only_integers = {
        "Not",
        "And",
        "Or",
        "Xor",
        "BitwiseNot",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "BitShift",
    }
    quantized = {n for n in ours if "Quantize" in n}
    assert ours - covered - only_integers - quantized == set()


@pytest.mark.parametrize(
    ("a", "b", "quotient"), [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3), (0, 5, 0), (5, 0, 0)]
)
def test_integer_division_truncates(a: int, b: int, quotient: int) -> None:
    for dtype in (np.int8, np.int32, np.int64):
        (actual,) = run_reference(Div(), [np.array([a], dtype), np.array([b], dtype)])
        assert actual.dtype == dtype and actual.tolist() == [quotient]


@pytest.mark.parametrize(
    ("base", "exponent", "power"), [(3, 4, 81), (2, -1, 0), (-1, -3, -1), (-1, -2, 1), (1, -5, 1), (0, 0, 1)]
)
def test_integer_powers_are_truncated(base: int, exponent: int, power: int) -> None:
    arrays = [np.array([base], np.int32), np.array([exponent], np.int32)]
    assert run_reference(Pow(), arrays)[0].tolist() == [power]


def test_shifts_beyond_the_width_leave_the_sign() -> None:
    a, b = np.array([-8, -8, 8, -8], np.int32), np.array([1, 32, 32, -1], np.int32)
    assert run_reference(BitShift("RIGHT"), [a, b])[0].tolist() == [-4, -1, 0, -1]
    assert run_reference(BitShift("LEFT"), [a, b])[0].tolist() == [-16, 0, 0, 0]


FLOATS = st.floats(width=32)


@settings(deadline=None, max_examples=60)
@given(st.lists(FLOATS, min_size=1, max_size=5), st.lists(FLOATS, min_size=1, max_size=5))
def test_comparisons_partition_numbers(left: list[float], right: list[float]) -> None:
    a, b = np.array(left, np.float32)[:, None], np.array(right, np.float32)[None, :]
    less, equal, greater = (run_reference(o(), [a, b])[0] for o in (Less, Equal, Greater))
    ordered = ~(np.isnan(a) | np.isnan(b))
    assert (less.astype(int) + equal + greater == ordered).all()
    assert (run_reference(LessOrEqual(), [a, b])[0] == (less | equal)).all()
    assert (run_reference(GreaterOrEqual(), [a, b])[0] == (greater | equal)).all()


CASTS = [(F32, I32, [1.9, -1.9, 0.0], [1, -1, 0]), (F32, BOOL, [0.0, -0.0, NAN, 0.1], [0, 0, 1, 1]),
         (I64, I8, [200, -200, 127], [-56, 56, 127]), (I64, U8, [-1, 256, 255], [255, 0, 255]),
         (BOOL, F32, [1, 0], [1.0, 0.0]), (F64, F16, [1e10, -1e10, 1e-10], [INF, -INF, 0.0]),
         (F64, F32, [1e300, 0.1], [INF, np.float32(0.1)]),
         (F32, BF16, [1.00390625, 3.3961775e38], [1.0, INF]),
         (I64, F32, [2**53 + 1, 3], [2.0**53, 3.0])]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "values", "expected"), CASTS)
def test_casts_truncate_wrap_and_overflow_to_infinity(
    source: Any, target: Any, values: list[Any], expected: list[Any]
) -> None:
    array = np.array(values, source.numpy)
    (actual,) = run_reference(Cast(target), [array])
    assert actual.dtype == target.numpy
    assert actual.astype(np.float64).tolist() == np.array(expected, np.float64).tolist()


@pytest.mark.parametrize(
    ("name", "largest"), [("f8e4m3fn", 448), ("f8e4m3fnuz", 240), ("f8e5m2", 57344), ("f8e5m2fnuz", 57344)]
)
def test_casts_to_8_bit_floats_saturate(name: str, largest: float) -> None:
    array = np.array([1e30, -1e30, INF, -INF, NAN, 1.0], np.float32)
    (actual,) = run_reference(Cast(DTYPES[name]), [array])
    np.testing.assert_array_equal(actual.astype(np.float32), [largest, -largest, largest, -largest, NAN, 1.0])
    (actual,) = run_reference(Cast(DTYPES[name], saturate=False), [array])
    over = INF if name == "f8e5m2" else NAN
    np.testing.assert_array_equal(actual.astype(np.float32), [over, -over, over, -over, NAN, 1.0])


@pytest.mark.parametrize(("mode", "code"), [("up", 129), ("down", 128), ("nearest", 129)])
def test_casts_to_powers_of_two_round(mode: str, code: int) -> None:
    (actual,) = run_reference(Cast(DTYPES["f8e8m0"], round_mode=mode), [np.array([3.0, 2.0], np.float32)])
    assert actual.view(np.uint8).tolist() == [code, 128]


def test_casts_of_texts() -> None:
    texts = np.array(["3.5", "-inf", "1e3"], object)
    assert run_reference(Cast(F32), [texts])[0].tolist() == [3.5, -INF, 1000.0]
    assert run_reference(Cast(STRING), [np.array([1.5, 2.0], np.float32)])[0].tolist() == ["1.5", "2.0"]


N, M = symbol("N"), symbol("M")
SYMBOLIC: list[tuple[Op, list[Any], Any]] = [
    (Add(), [N, 1], N + 1), (Sub(), [N + 3, N], 3), (Mul(), [N, 4], 4 * N), (Div(), [4 * N, 2], 2 * N),
    (Div(), [N - 1, 2], None), (Div(), [-7, 2], -3), (Mod(), [4 * N + 1, 4], 1),
    (Mod(fmod=True), [-7, 4], None), (Mod(), [-1, N + 1], N), (Mod(), [-1, N], mod(-1, maximum(N, 1))),
    (Mod(), [7, N - 1], None),
    (Max(), [N, N + 2], N + 2), (Min(), [N, N + 2], N), (Less(), [N, N + 1], 1), (Less(), [N, M], None),
    (GreaterOrEqual(), [N, 0], 1), (Greater(), [0, N], 0), (Equal(), [N, N], 1), (Equal(), [N, N + 1], 0),
    (Equal(), [N, M], None), (Neg(), [N], -1 * N), (Abs(), [N], N), (Relu(), [3], 3), (Cast(I32), [N], N),
    (Cast(BOOL), [N], None), (Cast(BOOL), [3], 1), (op_class("Where")(), [1, N, M], N), (Clip(0, 9), [12], 9),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "elements", "expected"), SYMBOLIC, ids=[f"{o.name}-{k}" for k, (o, _, _) in enumerate(SYMBOLIC)]
)
def test_sizes_are_followed_through_arithmetic(op: Op, elements: list[Any], expected: Any) -> None:
    dtypes = [BOOL if op.name == "Where" and k == 0 else I64 for k in range(len(elements))]
    facts = [Fact(tensor(t, 1), (e,)) for t, e in zip(dtypes, elements, strict=True)]
    (fact,) = infer_outputs(op, facts, SymbolTable(), "node")
    assert fact.elements == (None if expected is None else (expected,))


def test_known_sizes_beside_unknown_ones_are_cast() -> None:
    partly = Fact(tensor(I64, 3), partial_elements=(None, N, 4))
    for to, expected in ((I32, (None, N, 4)), (BOOL, (None, None, 1))):
        (fact,) = infer_outputs(Cast(to), [partly], SymbolTable(), "node")
        assert fact.partial_elements == expected


def test_sizes_are_followed_through_floats() -> None:
    symbols, constant = SymbolTable(), np.array([2.0, 0.5], np.float32)
    size = Fact(tensor(I64, 1), (2 * N,))
    (real,) = infer_outputs(Cast(F32), [size], symbols, "node")
    twice, half = (Fact(tensor(F32, 1), None, constant[k : k + 1]) for k in range(2))
    (scaled,) = infer_outputs(Mul(), [real, twice], symbols, "node")
    (divided,) = infer_outputs(Div(), [real, twice], symbols, "node")
    (floored,) = infer_outputs(op_class("Floor")(), [scaled], symbols, "node")
    assert infer_outputs(Cast(I64), [floored], symbols, "node")[0].elements == (4 * N,)
    assert infer_outputs(Cast(I64), [divided], symbols, "node")[0].elements == (N,)
    assert infer_outputs(Mul(), [real, half], symbols, "node")[0].elements is None
    assert infer_outputs(Cast(F16), [size], symbols, "node")[0].elements is None


def test_elements_that_would_overflow_are_not_inferred() -> None:
    facts = [Fact(tensor(I32, 1), (2**31 - 1,)), Fact(tensor(I32, 1), (1,))]
    assert infer_outputs(Add(), facts, SymbolTable(), "node")[0].elements is None


def test_unknown_ranks_pass_through_one_operand() -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", type_of(np.zeros(3, np.float32)).__class__(F32, None))])
    assert b(Relu(), x).type.shape is None
    assert b(Cast(F64), x).type == x.type.__class__(F64, None)


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_are_raised_without_loss(device: str, dtype: type[np.integer[Any]]) -> None:
    """f32, the type of the exponent, cannot represent 2**24 + 1."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, exponent, y = (
        helper.make_tensor_value_info(name, element, ["N"])
        for name, element in (("x", kind), ("e", TensorProto.FLOAT), ("y", kind))
    )
    graph = helper.make_graph([helper.make_node("Pow", ["x", "e"], ["y"])], "g", [x, exponent], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    bases = np.array([16777217, 3, -2, 46339, 2**30 + 1], dtype)
    exponents = np.array([1, 2, 3, 2, 1], np.float32)
    compiled = gw.compile(model, options={"device": device})
    found = compiled.run({"x": bases, "e": exponents})["y"]
    np.testing.assert_array_equal(found, [16777217, 9, -8, 46339**2, 2**30 + 1])
