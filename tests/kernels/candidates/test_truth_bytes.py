"""Kernels of bools compute on bytes: results are equal for any byte that represents true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.ir.loops.nodes import Buffer, Kernel, Kind, Load, Loop, Store, apply, cast
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F32, U8
from graphwright.kernels.candidates.truth_bytes import on_bytes

Array = np.ndarray[Any, Any]
AT, N = symbol("i"), symbol("n")
FUNCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "Equal": np.equal,
}


def kernel_of(result: Buffer, value: Any, *read: Buffer) -> Kernel:
    store = Store(result, (AT,), value)
    return Kernel("k", (*read, result), ("n",), (Loop("i", Kind.VECTOR, N, (store,)),))


def test_functions_of_bools_become_functions_of_bytes() -> None:
    a, b, y = (Buffer(name, BOOL, (N,)) for name in "aby")
    value = apply("not", apply("and", Load(a, (AT,)), Load(b, (AT,))))
    made = on_bytes(kernel_of(y, value, a, b))
    assert [buffer.dtype for buffer in made.parameters] == [U8, U8, U8]
    bytes_ = [apply("min", Load(Buffer(name, U8, (N,)), (AT,)), 1) for name in "ab"]
    stored = apply("xor", apply("and", *bytes_), 1)
    assert made == kernel_of(Buffer("y", U8, (N,)), stored, *(Buffer(n, U8, (N,)) for n in "ab"))


def test_kernels_that_do_not_only_compute_with_bools_stay() -> None:
    a, f, y = Buffer("a", BOOL, (N,)), Buffer("f", F32, (N,)), Buffer("y", BOOL, (N,))
    compared = kernel_of(y, Load(f, (AT,)) < 0.0, f)
    counted = kernel_of(y, cast(Load(a, (AT,)), F32) < 1.0, a)
    assert on_bytes(compared) is compared
    assert on_bytes(counted) is counted


@pytest.fixture(scope="module")
def model() -> gw.Model:
    """A model of a[M, N] and b[N]: each function, and one composed of several."""
    nodes = [helper.make_node(op, ["a", "b"], [op]) for op in FUNCTIONS]
    nodes += [helper.make_node("Not", ["a"], ["Not"]), helper.make_node("Xor", ["Not", "Or"], ["both"])]
    names = [*FUNCTIONS, "Not", "both"]
    typed = helper.make_tensor_value_info
    inputs = [typed("a", TensorProto.BOOL, ["M", "N"]), typed("b", TensorProto.BOOL, ["N"])]
    outputs = [typed(name, TensorProto.BOOL, ["M", "N"]) for name in names]
    made = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 20)]
    )
    made.ir_version = 9
    onnx.checker.check_model(made)
    return gw.compile(made.SerializeToString())


@pytest.mark.parametrize(("m", "n"), [(0, 3), (1, 1), (3, 63), (2, 64), (5, 129), (1, 1031)])
def test_results_of_bools_are_those_of_numpy(model: gw.Model, m: int, n: int) -> None:
    rng = np.random.default_rng(m * 1000 + n)
    a, b = rng.integers(0, 2, (m, n)) > 0, rng.integers(0, 2, n) > 0
    expected = [f(a, b) for f in FUNCTIONS.values()] + [~a, ~a ^ (a | b)]
    for found, wanted in zip(model(a, b), expected, strict=True):
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found, wanted)


def test_every_byte_but_0_is_true(model: gw.Model) -> None:
    a = np.arange(256, dtype=np.uint8).view(np.bool_)[None]
    b = np.arange(255, -1, -1, dtype=np.uint8).view(np.bool_)
    true_a, true_b = a.view(np.uint8) != 0, b.view(np.uint8) != 0
    expected = [f(true_a, true_b) for f in FUNCTIONS.values()]
    for found, wanted in zip(model(a, b), [*expected, ~true_a, ~true_a ^ (true_a | true_b)], strict=True):
        np.testing.assert_array_equal(found.view(np.uint8), wanted.astype(np.uint8))
