"""Random stacks of image ops on channel blocks, compiled, against their references."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright.config import Options
from graphwright.cost.predict import Work
from graphwright.ir.build import new_main_graph
from graphwright.ir.clone import clone_module
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Module, Value
from graphwright.ir.symbols import evaluate, symbol
from graphwright.ir.types import F16, F32, DType, tensor
from graphwright.layout import convolution_costs, costs
from graphwright.layout.blocks import is_blocked
from graphwright.layout.trans_data import TransData
from graphwright.ops.core.binary import Mul
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.reductions import ReduceMean
from graphwright.ops.core.split import Split
from graphwright.ops.core.unary import HardSwish, Relu, Sigmoid
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.lrn import LRN
from graphwright.ops.nn.max_pool import MaxPool
from graphwright.ops.nn.resize import Resize
from tests.isas import RUNNABLE
from tests.layout.stack import ImageStack

Array = np.ndarray[Any, Any]
SIZES = {"N": 2, "H": 13}
STEPS = 7


@pytest.fixture(autouse=True)
def _blocks_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images this small are faster row-major: let the pass think otherwise."""
    monkeypatch.setattr(convolution_costs, "im2col_work", lambda *sizes: Work(cycles=1 << 40))
    monkeypatch.setattr(costs.LayoutCosts, "transfer_ns", lambda costs, value: 1e-3)


class Stack(ImageStack):
    def convolution(self) -> Value:
        kernel, stride = self.random.choice([1, 3, 3, 5]), self.random.choice([1, 1, 2])
        features = self.random.choice([1, 5, 16, 24, 37])
        bias = self.weights(features) if self.random.random() < 0.5 else None
        op = Conv((stride, stride), (kernel // 2,) * 4)
        return self.b(op, self.image, self.weights(features, self.channels, kernel, kernel), bias)

    def column(self) -> Value:
        """Windows without a width, which join short rows."""
        op = Conv(pads=(2, 0, 1, 0), dilations=(self.random.choice([1, 2]), 1))
        return self.b(op, self.image, self.weights(24, self.channels, 3, 1), self.weights(24))

    def depthwise(self) -> Value:
        op = Conv(pads=(1, 1, 1, 1), group=self.channels)
        return self.b(op, self.image, self.weights(self.channels, 1, 3, 3), self.weights(self.channels))

    def activation(self) -> Value:
        return self.b(self.random.choice([Relu(), HardSwish(), Sigmoid(), Clip(0.0, 6.0)]), self.image)

    def scaled(self) -> Value:
        return self.b(Mul(), self.image, self.weights(self.channels, 1, 1))

    def gated(self) -> Value:
        mean = self.b(ReduceMean((2, 3)), self.image)
        gate = self.b(Sigmoid(), self.b(Conv(), mean, self.weights(self.channels, self.channels, 1, 1)))
        return self.b(Mul(), self.image, gate)

    def pooled(self) -> Value:
        kind = self.random.choice([MaxPool, AveragePool])
        return self.b(kind((3, 3), self.random.choice([(1, 1), (2, 2)]), (1, 1, 1, 1)), self.image)

    def concatenated(self) -> Value:
        other = self.b(Conv(), self.image, self.weights(self.random.choice([7, 16]), self.channels, 1, 1))
        return self.b(Concat(1), other, self.image, other)

    def split(self) -> Value:
        if self.channels < 4:
            return self.image
        sizes = (self.channels // 3, self.channels - self.channels // 3)
        first, second = self.b(Split(2, 1, sizes), self.image)
        return self.b(Concat(1), second, first)

    def resized(self) -> Value:
        op = Resize(self.random.choice(["nearest", "linear"]), scales=(1.0, 1.0, 2.0, 2.0))
        return self.b(op, self.image)

    def normalized(self) -> Value:
        return self.b(LRN(5, 0.5, self.random.choice([0.75, 0.5])), self.image)


def _stack(seed: int, dtype: DType = F32, has_lrn: bool = True) -> Module:
    module, random = Module(), Random(seed)
    size = [("x", tensor(dtype, symbol("N"), random.choice([3, 5, 16, 21]), symbol("H"), 11))]
    b, (x,) = new_main_graph(module, size)
    stack = Stack(b, random, x)
    steps: list[Callable[[], Value]] = [
        stack.convolution, stack.convolution, stack.depthwise, stack.grouped, stack.residual,
        stack.activation, stack.scaled, stack.gated, stack.pooled, stack.concatenated, stack.split,
        stack.resized, *([stack.normalized] if has_lrn else []), stack.column,
    ]  # fmt: skip
    for _ in range(STEPS):
        stack.image = random.choice(steps)()
    module.main.set_outputs([stack.image], ["y"])
    return module


ON_PLANES = frozenset({14})
"""Stacks whose images have three channels throughout, which do not pay in blocks."""


def _feeds(module: Module, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    values = [(v.type.dtype, [evaluate(dim, SIZES) for dim in v.type.dims]) for v in module.main.inputs]
    return [rng.normal(size=sizes).astype(dtype.numpy) for dtype, sizes in values]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("seed", range(24))
def test_stacks_on_blocks_compute_what_their_references_do(seed: int, isa: str) -> None:
    module = _stack(seed)
    feeds = _feeds(module, seed)
    (want,) = evaluate_module(module, feeds)
    blocked: list[bool] = []

    def observe(name: str, product: object) -> None:
        if name == "assign_layouts" and isinstance(product, Module):
            blocked.append(any(map(is_blocked, (v for node in product.main for v in node.outputs))))

    model = gw.compile(
        clone_module(module),
        options=Options(isa=isa, verify=True, threads=2),
        observe=observe,
    )
    (got,) = model(*feeds)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
    model.threads = 1
    np.testing.assert_array_equal(model(*feeds)[0], got)
    assert blocked == [seed not in ON_PLANES]


@pytest.mark.parametrize("seed", range(24))
def test_stacks_of_halves_need_no_more_conversions(seed: int) -> None:
    def conversions(module: Module) -> int:
        found = 0

        def observe(name: str, product: object) -> None:
            nonlocal found
            if name == "assign_layouts" and isinstance(product, Module):
                found = sum(isinstance(node.op, TransData) for node in product.main)

        models.append(gw.compile(clone_module(module), options=Options(verify=True), observe=observe))
        return found

    models: list[gw.Model] = []
    halves, floats = (_stack(seed, dtype, has_lrn=False) for dtype in (F16, F32))  # LRN has a kernel for f32
    assert conversions(halves) <= conversions(floats)
    feeds = _feeds(halves, seed)
    (got,), (want,) = (
        model(*(feed.astype(t) for feed in feeds)) for model, t in zip(models, "ef", strict=True)
    )
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=2e-2 * np.abs(want).max())
