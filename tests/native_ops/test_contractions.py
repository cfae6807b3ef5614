"""Contractions that the library alone does not serve: weights of the run, many axes, other dtypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import graphwright as gw
import graphwright.ops
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.graph import Module, Value
from graphwright.ir.symbols import symbol
from graphwright.ir.types import DTYPES, F32, Shape, TensorType, dtype_of
from graphwright.ops.core.binary import Add
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.unary import Tanh
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.gru import GRU
from graphwright.ops.nn.lstm import LSTM
from graphwright.ops.nn.rnn import RNN
from tests.ops.support import assert_close, run_reference

Array = np.ndarray[Any, Any]
Build = Callable[..., Sequence[Value]]

graphwright.ops.load()


def check(
    build: Build, arrays: Sequence[Array], expected: Sequence[Array], shapes: Sequence[Shape] = ()
) -> None:
    """``build`` for ``shapes`` (by default those of ``arrays``) gives ``expected``, run natively."""
    module = Module()
    types = [TensorType(dtype_of(a), a.shape) for a in arrays]
    types = [TensorType(t.dtype, s) for t, s in zip(types, shapes, strict=True)] if shapes else types
    b, values = new_main_graph(module, [(f"x{k}", t) for k, t in enumerate(types)])
    b.graph.set_outputs(build(b, *values))
    model = gw.compile(module)
    for _ in range(2):
        for got, want in zip(model(*arrays), expected, strict=True):
            assert_close(np.asarray(got), want, "result")
    assert model.stats()["host_calls"] == 0


def normal(*shape: int, dtype: str = "f32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(DTYPES[dtype].numpy)


def test_a_region_with_a_3_d_convolution() -> None:
    x, w, y = normal(1, 4, 5, 6, 7), normal(3, 4, 3, 3, 3, seed=1), normal(1, 3, 3, 4, 5, seed=2)

    def build(b: Builder, x: Value, w: Value, y: Value) -> list[Value]:
        return [b(Tanh(), b(Add(), b(Conv(), x, w), y))]

    check(build, (x, w, y), [np.tanh(Conv().reference(x, w) + y)])


def test_a_product_that_is_also_an_output_of_its_region() -> None:
    x, y = normal(2, 1, 3, 1, 4, 5), normal(1, 6, 1, 7, 5, 8)

    def build(b: Builder, x: Value, y: Value) -> list[Value]:
        made = b(MatMul(), x, y)
        return [made, b(Tanh(), made)]

    check(build, (x, y), [x @ y, np.tanh(x @ y)])


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("op", [Conv, ConvTranspose])
def test_weights_computed_at_run_time_with_an_epilogue(op: Any, group: int) -> None:
    n, h = symbol("N"), symbol("H")
    features = 6 if op is Conv else 6 // group
    channels = 4 // group if op is Conv else 4
    weights = (features, channels, 3, 3) if op is Conv else (channels, features, 3, 3)
    x, w = normal(2, 4, 9, 8), normal(*weights, seed=1)
    made = op(pads=(1, 1, 1, 1), group=group)
    (plain,) = run_reference(made, [x, w])
    check(lambda b, x, w: [b(Tanh(), b(made, x, w))], (x, w), [np.tanh(plain)], [(n, 4, h, 8), weights])


@pytest.mark.parametrize("kernel", [(3, 3, 5), (1, 2, 3)])
def test_volumes_of_which_no_size_is_known(kernel: tuple[int, int, int]) -> None:
    """Sizes of the result have many terms each, so their product is too long to be expanded."""
    made = ConvTranspose(auto_pad="SAME_UPPER", group=2, strides=(2, 2, 3), output_padding=(0, 0, 2))
    x, w, bias = normal(2, 4, 3, 4, 5), normal(4, 3, *kernel, seed=1), normal(6, seed=2)
    sizes = [tuple(symbol(f"{name}{k}") for k in range(5)) for name in "XW"]
    shapes = [sizes[0], sizes[1], (symbol("B"),)]
    check(lambda b, x, w, v: [b(made, x, w, v)], (x, w, bias), run_reference(made, [x, w, bias]), shapes)


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "i32", "i8", "u64"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (50, 3, 130), (7, 0, 5), (97, 140, 33)])
def test_products_of_other_dtypes(dtype: str, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    rng = np.random.default_rng(0)
    a, c = (rng.integers(0, 4, shape).astype(DTYPES[dtype].numpy) for shape in ((2, m, k), (k, n)))
    check(
        lambda b, x, y: [b(MatMul(), x, y)],
        (a, c),
        run_reference(MatMul(), [a, c]),
        [(symbol("B"), m, k), (k, n)],
    )


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("k", [1, 31, 32, 47, 256])
def test_few_columns_of_weights_with_an_epilogue(dtype: str, k: int) -> None:
    """Weights have one to five columns, or are a vector; the number of rows is arbitrary."""
    columns = [normal(k, n, dtype=dtype, seed=n) for n in range(1, 6)]
    biases = [normal(n, dtype=dtype, seed=n) for n in range(1, 6)]

    def build(b: Builder, x: Value) -> Sequence[Value]:
        made = [b(MatMul(), x, b.const(w)) for w in (*columns, columns[0][:, 0])]
        sums = [
            b(Add(), b(MatMul(), x, b.const(w)), b.const(v)) for w, v in zip(columns, biases, strict=True)
        ]
        return [*made, *(b(Tanh(), total) for total in sums)]

    for m in (0, 1, 5, 67):
        x = normal(2, m, k, dtype=dtype, seed=m)
        wide = [x.astype(np.float64) @ w.astype(np.float64) for w in columns]
        tails = [np.tanh(a + v) for a, v in zip(wide, biases, strict=True)]
        expected = [a.astype(x.dtype) for a in (*wide, wide[0][..., 0], *tails)]
        check(build, [x], expected, [(2, symbol("M"), k)])


@pytest.mark.parametrize("op", [LSTM, GRU, RNN])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
def test_recurrent_weights_computed_at_run_time(op: Any, batch_first: bool, direction: str) -> None:
    made = op(5, direction, batch_first=batch_first)
    gates, count = made.gates, made.directions
    x = normal(4, 3, 2)
    w, r = normal(count, gates * 5, 2, seed=1), normal(count, gates * 5, 5, seed=2)
    t, n = symbol("T"), symbol("N")
    check(
        lambda b, *values: list(b(made, *values)),
        (x, w, r),
        run_reference(made, [x, w, r]),
        [(t, n, 2), w.shape, r.shape],
    )
    assert dtype_of(x) == F32
