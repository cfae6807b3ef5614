"""Bits under another dtype."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I32, U32, tensor
from graphwright.ops.core.bit_cast import BitCast
from graphwright.ops.core.cast import Cast

from .peer import imported

NUMBER = {"f32": 1, "u8": 2, "i8": 3, "u16": 4, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11,
          "u32": 12, "bf16": 16, "f8e4m3fn": 17, "u4": 21, "i4": 22, "f4e2m1": 23, "u2": 25}  # fmt: skip
"""ONNX's numbers of dtypes."""


def cast(x: Any, to: str) -> Any:
    (y,) = imported("BitCast", [x], {"to": NUMBER[to]}, 26)
    return y


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_casting_bits_back_restores_them(bits: int) -> None:
    x = np.array([bits], np.uint32)
    floats = cast(x, "f32")
    assert floats.dtype == np.float32
    assert floats.tobytes() == x.tobytes()
    assert cast(floats, "u32").tolist() == [bits]


@pytest.mark.parametrize(
    "x, to, expected",
    [
        (np.array([1.0, -2.5, 3.75], np.float32), "i32", [1065353216, -1071644672, 1081081856]),
        (np.array([1.0, -2.5], np.float64), "i64", [4607182418800017408, -4610560118520545280]),
        (np.array([1.0, -2.0], ml_dtypes.bfloat16), "u16", [0x3F80, 0xC000]),
        (np.array([0x3C00, 0xC000], np.uint16), "f16", [1.0, -2.0]),
        (np.array([1.0, -0.0], ml_dtypes.float8_e4m3fn), "u8", [0x38, 0x80]),
        (np.array([True, False]), "u8", [1, 0]),
        (np.array([-1, -128, 127], np.int8), "u8", [255, 128, 127]),
        (np.array([-1, -8, 7], ml_dtypes.int4), "u4", [15, 8, 7]),
        (np.array([15, 8, 7], ml_dtypes.uint4), "i4", [-1, -8, 7]),
        (np.array([15, 9, 0], ml_dtypes.uint4), "f4e2m1", [-6.0, -0.5, 0.0]),
        (np.array([-6.0, 0.5], ml_dtypes.float4_e2m1fn), "i4", [-1, 1]),
        (np.array([-1, -2, 1], ml_dtypes.int2), "u2", [3, 2, 1]),
    ],
)
def test_bits_are_those_of_the_format(x: Any, to: str, expected: list[float]) -> None:
    assert cast(x, to).astype(np.float64).tolist() == expected


def test_bit_casts_keep_the_shape() -> None:
    assert cast(np.float32(1.0).reshape(()), "i32") == 1065353216
    assert cast(np.zeros((0, 3), np.float32), "i32").shape == (0, 3)
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    assert cast(cast(turned, "i32"), "f32").tolist() == turned.tolist()


def test_integers_are_cast_natively() -> None:
    b, (x, y) = new_main_graph(Module(), [("x", tensor(I32, symbol("N"))), ("y", tensor(F32, 2))])
    made = BitCast(U32).decompose(b, x)
    assert made is not None and made.type == tensor(U32, symbol("N"))
    assert [node.op for node in b.graph] == [Cast(U32)]
    assert BitCast(U32).decompose(b, y) is None
