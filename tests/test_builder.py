"""Modules built by hand run, and say what is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest

import graphwright as gw
from graphwright.errors import FeedError, ModelError
from graphwright.ops.binary import Add, Mul
from graphwright.ops.matmul import MatMul
from graphwright.ops.softmax import Softmax
from graphwright.ops.split import Split


def test_a_layer_in_a_few_lines() -> None:
    generator = np.random.default_rng(0)
    weights, bias = (generator.standard_normal(shape, np.float32) for shape in ((8, 5), (5,)))
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N", 8))
    logits = b(Add(), b(MatMul(), x, weights), bias, name="logits")
    b.output("y", b(Softmax(axis=-1), b(Mul(), logits, 0.5)))
    model = b.compile()
    for rows in (1, 3, 17):
        fed = generator.standard_normal((rows, 8), np.float32)
        wide = 0.5 * (fed.astype(np.float64) @ weights + bias)
        wanted = np.exp(wide) / np.exp(wide).sum(-1, keepdims=True)
        np.testing.assert_allclose(model.run({"x": fed})["y"], wanted, rtol=1e-5)


def test_constants_are_copied() -> None:
    scale = np.ones(3, np.float32)
    b = gw.GraphBuilder()
    b.output("y", b(Mul(), b.input("x", "f32", (3,)), scale))
    scale[:] = 7
    assert b.compile().run({"x": np.full(3, 2, np.float32)})["y"].tolist() == [2, 2, 2]


def test_several_outputs_and_equal_sizes() -> None:
    b = gw.GraphBuilder()
    x, y = b.input("x", "f32", ("N", 4)), b.input("y", "f32", ("N", 4))
    left, right = b(Split(2, axis=1, sizes=(1, 3)), b(Add(), x, y))
    b.output("left", left)
    b.output("right", right)
    model = b.compile()
    ones = np.ones((2, 4), np.float32)
    assert {n: a.shape for n, a in model.run({"x": ones, "y": ones}).items()} == {
        "left": (2, 1),
        "right": (2, 3),
    }
    with pytest.raises(FeedError):
        model.run({"x": ones, "y": np.ones((3, 4), np.float32)})


def test_faults_are_said() -> None:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N", 4))
    with pytest.raises(ModelError, match="taken already"):
        b.input("x", "f32", (1,))
    with pytest.raises(ModelError, match="there is no dtype 'float'"):
        b.input("y", "float", (1,))
    with pytest.raises(ModelError):
        b.input("z", "f32", ("N +",))
    with pytest.raises(ModelError):
        b(MatMul(), x, np.ones((5, 2), np.float32))
    with pytest.raises(ModelError, match="nothing says of which dtype"):
        b(Add(), 1.0, 2.0)
    with pytest.raises(ModelError, match="no outputs"):
        b.compile()
    b.output("y", x)
    with pytest.raises(ModelError, match="taken already"):
        b.output("y", x)
