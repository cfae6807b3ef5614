"""Conv and ConvTranspose against ONNX Runtime, their adjointness, and symbolic sizes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.symbols import ceildiv, evaluate, floordiv, symbol
from graphwright.ir.types import F32, tensor
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose

from .peer import compare, imported


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_conv_is_that_of_onnx_runtime(data: st.DataObject) -> None:
    def pick(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    rank, group, depth = pick(1, 3), pick(1, 3), pick(1, 3)
    kernel = [pick(1, 3) for _ in range(rank)]
    dilations = [pick(1, 2) for _ in range(rank)]
    dims = [(k - 1) * d + pick(1, 5) for k, d in zip(kernel, dilations, strict=True)]
    attributes = {
        "group": group,
        "strides": [pick(1, 3) for _ in range(rank)],
        "dilations": dilations,
        "pads": [pick(0, 2) for _ in range(2 * rank)],
    }
    features = group * pick(1, 2)
    x, w = draw(pick(1, 2), group * depth, *dims), draw(features, depth, *kernel, seed=1)
    compare("Conv", [x, w, draw(features, seed=2)], attributes, opset=11)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_conv_transpose_is_that_of_onnx_runtime(data: st.DataObject) -> None:
    def pick(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    rank, group = pick(1, 2), pick(1, 2)
    kernel, strides = [pick(3, 4) for _ in range(rank)], [pick(1, 3) for _ in range(rank)]
    attributes = {
        "group": group,
        "strides": strides,
        "dilations": [pick(1, 2) for _ in range(rank)],
        "pads": [pick(0, 1) for _ in range(2 * rank)],
        "output_padding": [pick(0, s - 1) for s in strides],
    }
    x = draw(1, group * 2, *[pick(1, 5) for _ in range(rank)])
    compare(
        "ConvTranspose", [x, draw(group * 2, 2, *kernel, seed=1), draw(2 * group, seed=2)], attributes, 11
    )


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("stride, size", [(1, 7), (2, 7), (2, 8), (3, 5), (4, 9)])
def test_auto_pad_equals_onnx_runtime(auto_pad: str, stride: int, size: int) -> None:
    attributes = {"auto_pad": auto_pad, "strides": [stride, 1]}
    compare("Conv", [draw(1, 2, size, 5), draw(3, 2, 3, 2, seed=1)], attributes, 11)
    compare("ConvTranspose", [draw(1, 2, size, 5), draw(2, 3, 4, 2, seed=1)], attributes, 11)


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
def test_conv_transpose_to_an_output_shape(auto_pad: str) -> None:
    attributes = {"auto_pad": auto_pad, "strides": [2, 3], "output_shape": [6, 10]}
    compare("ConvTranspose", [draw(1, 2, 3, 4), draw(2, 2, 3, 3, seed=1)], attributes, 11)


def test_conv_transpose_is_the_adjoint_of_conv() -> None:
    rng = np.random.default_rng(5)
    x, y, w = (rng.normal(size=s) for s in ((2, 4, 9, 7), (2, 6, 5, 3), (6, 2, 3, 3)))
    attributes = {"strides": (2, 2), "pads": (1, 0, 1, 0), "group": 2}
    (forward,) = imported("Conv", [x, w], attributes, 22)
    (backward,) = imported("ConvTranspose", [y, w], attributes, 22)
    assert np.vdot(forward, y) == pytest.approx(np.vdot(x, backward), rel=1e-13)


def test_the_reference_needs_little_memory() -> None:
    x, w = draw(1, 64, 160, 160), draw(64, 64, 3, 3, seed=1)
    tracemalloc.start()
    Conv(pads=(1, 1, 1, 1)).reference(x, w)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * x.nbytes


def test_sizes_of_symbols() -> None:
    n, h = symbol("N"), symbol("H")
    b, (x, w, v) = new_main_graph(
        Module(),
        [("x", tensor(F32, n, 3, h, 32)), ("w", tensor(F32, 8, 3, 3, 3)), ("v", tensor(F32, 8, 3, 4, 4))],
    )
    assert b(Conv((2, 2), (1, 1, 1, 1)), x, w).type == tensor(F32, n, 8, floordiv(h + 1, 2), 16)
    same = b(Conv((2, 2), auto_pad="SAME_UPPER"), x, w)
    assert same.type == tensor(F32, n, 8, ceildiv(h, 2), 16)
    y = b(ConvTranspose((2, 2), (1, 1, 1, 1)), same, v)
    assert y.type == tensor(F32, n, 3, ceildiv(h, 2) * 2, 32)
    assert b(ConvTranspose((2, 2), auto_pad="SAME_LOWER"), same, v).type == y.type


@pytest.mark.parametrize("size", [1, 2, 5, 6, 13])
@pytest.mark.parametrize("stride, kernel", [(1, 2), (2, 3), (3, 2), (2, 5)])
def test_same_padding_of_a_symbol_is_that_of_its_number(size: int, stride: int, kernel: int) -> None:
    h = symbol("H")
    b, (x, w) = new_main_graph(Module(), [("x", tensor(F32, 1, 2, h)), ("w", tensor(F32, 2, 2, kernel))])
    y = b(Conv((stride,), auto_pad="SAME_LOWER"), x, w)
    (computed,) = imported(
        "Conv", [draw(1, 2, size), draw(2, 2, kernel)], {"auto_pad": "SAME_LOWER", "strides": [stride]}, 11
    )
    assert evaluate(y.type.dims[2], {"H": size}) == computed.shape[2]
