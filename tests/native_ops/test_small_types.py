"""Conversions to and from few bits in compiled models: the bits of ml_dtypes and of the ops' references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.op import Op
from graphwright.ir.types import DTYPES, F32, DType, TensorType, dtype_of
from graphwright.ops.core.cast import Cast
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear
from graphwright.ops.quantized.quantize_linear import QuantizeLinear

Array = np.ndarray[Any, Any]

CPU = gw.CompileOptions(device="cpu")
FLOATS = ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz")
SIX_AND_FOUR = ("f4e2m1", "f6e2m3", "f6e3m2")
HALVES = np.arange(1 << 16, dtype=np.uint16)


def run(ops: list[tuple[Op, tuple[Array, ...]]]) -> list[Array]:
    """Each op of its own operands, in one model, without the host."""
    module = Module()
    types = {
        f"x{k}_{p}": TensorType(dtype_of(a), a.shape)
        for k, (_, operands) in enumerate(ops)
        for p, a in enumerate(operands)
    }
    b, values = new_main_graph(module, list(types.items()))
    inputs = dict(zip(types, values, strict=True))
    made = [b(op, *(inputs[f"x{k}_{p}"] for p in range(len(own)))) for k, (op, own) in enumerate(ops)]
    b.graph.set_outputs(made)
    model = gw.compile(module, options=CPU)
    found = model(*(a for _, own in ops for a in own))
    assert model.stats()["host_calls"] == 0
    return list(found)


def same(actual: Array, expected: Array, what: object) -> None:
    """Equal in every bit, NaN of f32 but for its sign and payload."""
    assert actual.dtype == expected.dtype
    if actual.dtype == np.float32:
        np.testing.assert_array_equal(actual, expected, err_msg=str(what))
    else:
        np.testing.assert_array_equal(actual.view(np.uint8), expected.view(np.uint8), err_msg=str(what))


def test_conversions_of_all_16_bit_floats() -> None:
    rng = np.random.default_rng(0)
    single = rng.integers(0, 1 << 32, 100_003, dtype=np.uint32).view(np.float32)
    operands = [*(HALVES.view(DTYPES[name].numpy) for name in ("f16", "bf16")), single]
    casts = [Cast(DTYPES[name], saturate) for name in FLOATS for saturate in (True, False)]
    casts += [Cast(DTYPES["f8e8m0"], s, m) for s in (True, False) for m in ("up", "down", "nearest")]
    casts += [Cast(DTYPES[name]) for name in SIX_AND_FOUR]
    ops = [(cast, (x,)) for cast in casts for x in operands]
    for (cast, (x,)), y in zip(ops, run(ops), strict=True):
        same(y, cast.reference(x), (cast, x.dtype))


def test_conversions_of_integers_and_codes() -> None:
    small = [DTYPES[n] for n in (*FLOATS, "f8e8m0", *SIX_AND_FOUR, "i4", "u4", "i2", "u2")]
    codes = [np.arange(1 << max(d.bits, 4), dtype=np.uint8).view(d.numpy) for d in small]
    ops: list[tuple[Op, tuple[Array, ...]]] = [
        (Cast(DTYPES[n]), (x,)) for x in codes for n in ("f32", "f16", "bool")
    ]
    integers = np.arange(-70_000, 70_000, 7)
    ops += [(Cast(d), (integers.astype(DTYPES[n].numpy),)) for d in small for n in ("i32", "i64", "u8")]
    for (op, (x,)), y in zip(ops, run(ops), strict=True):
        same(y, np.asarray(op.reference(x)), (op, x.dtype))


@st.composite
def quantized(draw: st.DrawFn) -> tuple[DType, tuple[int, ...], int, int]:
    """A dtype, a shape, an axis and a block: 0 is a scale for each place, -1 one for all."""
    name = draw(st.sampled_from((*FLOATS, *SIX_AND_FOUR, "i4", "u4", "i2", "u2", "i8", "u16")))
    shape = tuple(draw(st.lists(st.sampled_from((1, 2, 3, 7, 17, 32, 33)), min_size=1, max_size=3)))
    axis = draw(st.integers(0, len(shape) - 1))
    return DTYPES[name], shape, axis, draw(st.sampled_from((-1, 0, 1, 2, 5, 16)))


@settings(max_examples=8, deadline=None)
@given(quantized(), st.integers(0, 2**32 - 1))
def test_quantizing_and_dequantizing(case: tuple[DType, tuple[int, ...], int, int], seed: int) -> None:
    dtype, shape, axis, block = case
    rng = np.random.default_rng(seed)
    own: tuple[int, ...] = ()
    if block == 0:
        own = (shape[axis],)
    elif block > 0:
        own = tuple(-(-n // block) if k == axis else n for k, n in enumerate(shape))
    x = (rng.standard_normal(shape) * 20).astype(F32.numpy)
    scale = rng.uniform(0.25, 4, own).astype(F32.numpy)
    zero = rng.integers(0, 2, own).astype(dtype.numpy)
    q = np.asarray(rng.integers(0, 2, shape) + x / 8).astype(F32.numpy).astype(dtype.numpy)
    to = QuantizeLinear(dtype, axis, max(block, 0))
    back = DequantizeLinear(F32, axis, max(block, 0))
    ops: list[tuple[Op, tuple[Array, ...]]] = [(to, (x, scale, zero)), (back, (q, scale, zero))]
    there, again = run(ops)
    same(there, np.asarray(to.reference(x, scale, zero)), case)
    same(again, np.asarray(back.reference(q, scale, zero)), case)


@pytest.mark.parametrize("mode", ("up", "down", "nearest"))
def test_round_modes_agree_with_onnx(mode: str) -> None:
    helper = pytest.importorskip("onnx.numpy_helper")
    x = np.random.default_rng(1).integers(0, 0x7F800000, 50_000, dtype=np.uint32).view(np.float32)
    x[:3] = 0.0, 2.0**-127, 2.0**-126
    expected = helper.to_float8e8m0(x, saturate=True, round_mode=mode)
    same(Cast(DTYPES["f8e8m0"], saturate=True, round_mode=mode).reference(x), expected, mode)
