"""Which regions are recognized as epilogues of library kernels."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.graph import Module, Value
from graphwright.ir.types import F32, tensor
from graphwright.kernels.candidates.epilogues import Epilogue, epilogue_of
from graphwright.kernels.library.bits import single_bits
from graphwright.ops.core.binary import Add, Max, Min, Mul
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.unary import Relu, Sigmoid

Tail = Callable[[Builder, Value, Value, Value], Value]
"""What follows the product: from its result, a bias [6] and a residual [4, 6]."""


def recognized(tail: Tail, more_outputs: bool = False) -> Epilogue | None:
    module = Module()
    types = {"x": (4, 5), "w": (5, 6), "bias": (6,), "residual": (4, 6)}
    b, (x, w, bias, residual) = new_main_graph(
        module, [(name, tensor(F32, *shape)) for name, shape in types.items()]
    )
    product = b(MatMul(), x, w)
    end = tail(b, product, bias, residual)
    module.main.set_outputs([product, end] if more_outputs else [end])
    assert product.producer is not None
    return epilogue_of(module.main, product.producer, 1, module.constants)


def number(b: Builder, value: float) -> Value:
    made: Value = b.const(value, F32)
    return made


KNOWN: dict[str, tuple[Tail, tuple[bool, bool, float, int, float, float]]] = {
    "nothing": (lambda b, y, c, r: y, (False, False, 1, 0, -math.inf, math.inf)),
    "bias": (lambda b, y, c, r: b(Add(), c, y), (True, False, 1, 0, -math.inf, math.inf)),
    "bias, relu": (lambda b, y, c, r: b(Relu(), b(Add(), y, c)), (True, False, 1, 1, 0, math.inf)),
    "residual, bias": (
        lambda b, y, c, r: b(Add(), b(Add(), y, r), c), (True, True, 1, 0, -math.inf, math.inf)
    ),
    "scale, bias, residual, clip": (
        lambda b, y, c, r: b(Clip(-1.0, 6.0), b(Add(), b(Add(), b(Mul(), y, number(b, 0.5)), c), r)),
        (True, True, 0.5, 2, -1, 6),
    ),
    "bounds as operands": (
        lambda b, y, c, r: b(Clip(), y, number(b, -2), number(b, 3)), (False, False, 1, 2, -2, 3)
    ),
    "relu, min": (lambda b, y, c, r: b(Min(), b(Relu(), y), number(b, 6)), (False, False, 1, 2, 0, 6)),
    "min, max": (
        lambda b, y, c, r: b(Max(), number(b, 4), b(Min(), y, number(b, 1))), (False, False, 1, 2, 4, 4)
    ),
    "a view at the end": (
        lambda b, y, c, r: b(Reshape((2, 12)), b(Add(), y, c)), (True, False, 1, 0, -math.inf, math.inf)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_epilogues_of_library_kernels_are_recognized(name: str) -> None:
    tail, (bias, residual, scale, act, low, high) = KNOWN[name]
    found = recognized(tail)
    assert found is not None
    assert (found.bias is not None, found.residual is not None) == (bias, residual)
    assert (found.scale, found.act, found.low, found.high) == (scale, act, low, high)


UNKNOWN: dict[str, Tail] = {
    "another activation": lambda b, y, c, r: b(Sigmoid(), y),
    "a product of two uses": lambda b, y, c, r: b(Mul(), y, y),
    "a gate": lambda b, y, c, r: b(Mul(), y, b(Sigmoid(), y)),
    "a bias after an activation": lambda b, y, c, r: b(Add(), b(Relu(), y), c),
    "a scale after a bias": lambda b, y, c, r: b(Mul(), b(Add(), y, c), number(b, 2)),
    "two residuals": lambda b, y, c, r: b(Add(), b(Add(), y, r), r),
    "a residual made in the region": lambda b, y, c, r: b(Add(), y, b(Relu(), r)),
    "elementwise behind a view": lambda b, y, c, r: b(Relu(), b(Reshape((24,)), y)),
    "a scale per column": lambda b, y, c, r: b(Mul(), y, c),
    "a bound that is not a number": lambda b, y, c, r: b(Max(), y, number(b, math.nan)),
    "a broadcast result": lambda b, y, c, r: b(
        Add(), b(Reshape((1, 4, 6)), y), b.const(np.ones((2, 4, 6)), F32)
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_other_epilogues_are_not_recognized(name: str) -> None:
    assert recognized(UNKNOWN[name]) is None


def test_a_product_with_other_readers_is_not_fused() -> None:
    assert recognized(lambda b, y, c, r: b(Relu(), y), more_outputs=True) is None


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), max_size=4), st.floats(-20, 20))
def test_clips_in_a_row_are_one(bounds: list[tuple[float, float]], x: float) -> None:
    epilogue, expected = Epilogue(), x
    for low, high in bounds:
        epilogue, expected = epilogue.clipped(low, high), min(max(expected, low), high)
    assert min(max(x, epilogue.low), epilogue.high) == expected


@pytest.mark.parametrize("value", [0.0, -0.0, 6.0, -math.inf, 1e300, -1e300, 1e-45])
def test_numbers_are_rounded_to_f32_bits(value: float) -> None:
    with np.errstate(over="ignore"):
        wanted = np.float64(value).astype(np.float32)
    assert struct.unpack("<f", struct.pack("<I", single_bits(value)))[0] == wanted
