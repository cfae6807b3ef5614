"""Tables of functions of one byte: results compared with NumPy in f64, and what becomes a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw

Array = np.ndarray[Any, Any]
ZEROS = {np.uint8: 117, np.int8: -5}


class Quantized:
    """A model of 8-bit values, in which each op reads dequantized values and is quantized again."""

    def __init__(self, dtype: type, shape: tuple[int | str, ...]) -> None:
        self.b = gw.GraphBuilder()
        self.dtype, self.zero = dtype, dtype(ZEROS[dtype])
        self.x = self.b.input("x", dtype, shape)

    def wide(self, value: Any, scale: float) -> Any:
        return self.b.dequantize_linear(value, np.float32(scale), self.zero)

    def narrow(self, value: Any, scale: float) -> Any:
        return self.b.quantize_linear(value, np.float32(scale), self.zero, to=self.dtype)

    def silu(self) -> Any:
        """Two quantized ops, which depend on x alone."""
        gate = self.narrow(self.b.sigmoid(self.wide(self.x, 0.05)), 1 / 128)
        return self.narrow(self.b.mul(self.wide(self.x, 0.05), self.wide(gate, 1 / 128)), 0.04)

    def compiled(self, result: Any) -> gw.Model:
        self.b.output("y", result)
        return self.b.compile()


def dequantized(steps: Array, scale: float) -> Array:
    return (steps.astype(np.float64) - ZEROS[steps.dtype.type]) * float(np.float32(scale))


def quantized(x: Array, scale: float, dtype: type) -> Array:
    limits = np.iinfo(dtype)
    return np.clip(np.rint(x / float(np.float32(scale))) + ZEROS[dtype], limits.min, limits.max).astype(dtype)


def silu(x: Array) -> Array:
    wide = dequantized(x, 0.05)
    gate = quantized(1 / (1 + np.exp(-wide)), 1 / 128, x.dtype.type)
    return quantized(wide * dequantized(gate, 1 / 128), 0.04, x.dtype.type)


def is_looked_up(model: gw.Model) -> bool:
    return "ByteTable" in model.entry.graph


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@settings(max_examples=8, deadline=None)
@given(sizes=st.sampled_from([(64, 64), (1, 3, 41, 53), (4097,), (5, 0, 7), (1,)]), seed=st.integers(0, 99))
def test_results_are_those_of_numpy(dtype: type, sizes: tuple[int, ...], seed: int) -> None:
    limits = np.iinfo(dtype)
    x = np.random.default_rng(seed).integers(limits.min, limits.max + 1, sizes).astype(dtype)
    shape = tuple(f"N{axis}" for axis in range(len(sizes)))
    model = Quantized(dtype, shape)
    compiled = model.compiled(model.silu())
    assert is_looked_up(compiled)
    off = compiled(x)[0].astype(int) - silu(x)
    assert np.abs(off).max(initial=0) <= 1
    assert np.mean(off != 0) < 0.02 or off.size < 100  # only where f32 rounds another way than f64


def test_all_bytes_of_both_types_are_looked_up() -> None:
    for dtype in (np.uint8, np.int8):
        x = np.tile(np.arange(256, dtype=np.uint8).view(dtype), 32)
        model = Quantized(dtype, (8192,))
        assert np.abs(model.compiled(model.silu())(x)[0].astype(int) - silu(x)).max() <= 1


def test_few_elements_and_cheap_ops_are_computed() -> None:
    small = Quantized(np.uint8, (4095,))
    assert not is_looked_up(small.compiled(small.silu()))
    cheap = Quantized(np.uint8, (1 << 16,))
    assert not is_looked_up(cheap.compiled(cheap.narrow(cheap.b.relu(cheap.wide(cheap.x, 0.1)), 0.1)))


def test_constants_that_vary_and_a_second_operand_are_computed() -> None:
    biased = Quantized(np.uint8, (64, 256))
    bias = np.linspace(-1, 1, 256, dtype=np.float32)
    shifted = biased.b.sigmoid(biased.b.add(biased.wide(biased.x, 0.1), bias))
    assert not is_looked_up(biased.compiled(biased.narrow(shifted, 0.01)))
    two = Quantized(np.uint8, (64, 256))
    other = two.b.input("z", np.uint8, (64, 256))
    product = two.b.mul(two.b.sigmoid(two.wide(two.x, 0.1)), two.wide(other, 0.1))
    assert not is_looked_up(two.compiled(two.narrow(product, 0.1)))


def test_a_function_of_a_biased_value_reads_the_biased_value() -> None:
    """The bias varies by column, the quantized tanh behind it does not."""
    rng = np.random.default_rng(3)
    x, bias = rng.integers(0, 256, (64, 256)).astype(np.uint8), rng.standard_normal(256).astype(np.float32)
    model = Quantized(np.uint8, (64, 256))
    sums = model.narrow(model.b.add(model.wide(model.x, 0.02), bias), 0.03)
    compiled = model.compiled(model.narrow(model.b.tanh(model.wide(sums, 0.03)), 1 / 128))
    assert is_looked_up(compiled)
    expected = quantized(dequantized(x, 0.02) + bias, 0.03, np.uint8)
    expected = quantized(np.tanh(dequantized(expected, 0.03)), 1 / 128, np.uint8)
    off = np.abs(compiled(x)[0].astype(int) - expected)
    assert off.max() <= 4  # one step of the sums is at most 4 steps of the result
    assert np.mean(off != 0) < 0.02


def test_hints_keep_ops_apart() -> None:
    model = Quantized(np.uint8, (1 << 14,))
    with model.b.fuse("never"):
        gate = model.b.sigmoid(model.wide(model.x, 0.05))
    assert not is_looked_up(model.compiled(model.narrow(gate, 1 / 128)))


def test_the_rule_can_be_switched_off() -> None:
    model = Quantized(np.uint8, (1 << 14,))
    model.b.output("y", model.silu())
    assert not is_looked_up(model.b.compile(options={"fusion_rules": "epilogue,pointwise"}))
