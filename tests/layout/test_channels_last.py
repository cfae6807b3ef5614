"""Random stacks of image ops between transposes, compiled with channels last, against their references."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.build import new_main_graph
from graphwright.ir.clone import clone_module
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Module, Value
from graphwright.ir.symbols import evaluate, symbol
from graphwright.ir.types import F32, tensor
from graphwright.layout.costs import LayoutCosts
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reductions import ReduceMax, ReduceMean
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import HardSwish, Sigmoid
from graphwright.ops.nn.channels_last_conv import ChannelsLastConv
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.max_pool import MaxPool
from tests.isas import RUNNABLE
from tests.layout.stack import ImageStack

STEPS = 4


@pytest.fixture(autouse=True)
def _transposes_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images this small are transposed in no time: let the pass think otherwise."""
    monkeypatch.setattr(LayoutCosts, "transfer_ns", lambda costs, value: 1e9)


class Stack(ImageStack):
    """Images that random ops are put on; the windows of all fit into any image."""

    def window(self, group: int = 1) -> tuple[Conv, tuple[int, int]]:
        """With more padding than its kernel needs, so that no image is too small."""
        kernel = self.random.choice([(1, 1), (3, 3), (7, 7), (2, 5)])
        dilations = (self.random.choice([1, 1, 2]), 1)
        spans = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
        begins = [self.random.randint(0, span + 1) for span in spans]
        ends = [
            max(0, span - begin) + self.random.randint(0, 1)
            for span, begin in zip(spans, begins, strict=True)
        ]
        strides = (self.random.choice([1, 1, 2]), self.random.choice([1, 1, 3]))
        return Conv(strides, (*begins, *ends), dilations, group), kernel

    def depthwise(self) -> Value:
        op, kernel = self.window(self.channels)
        return self.b(op, self.image, self.weights(self.channels, 1, *kernel), self.weights(self.channels))

    def dense(self) -> Value:
        op, kernel = self.window()
        features = self.random.choice([16, 32, 32, 24])
        bias = self.weights(features) if self.random.random() < 0.5 else None
        return self.b(op, self.image, self.weights(features, self.channels, *kernel), bias)

    def rows(self) -> Value:
        """A product of rows of channels, and the image added."""
        rows = self.b(Transpose((0, 2, 3, 1)), self.image)
        made = self.b(MatMul(), rows, self.weights(self.channels, self.channels))
        return self.b(Add(), self.image, self.b(Transpose((0, 3, 1, 2)), self.b(HardSwish(), made)))

    def tokens(self) -> Value:
        """The same of rows of pixels."""
        n, c, h, w = self.image.type.dims
        rows = self.b(Transpose((0, 2, 1)), self.b(Reshape((n, c, h * w)), self.image))
        back = self.b(Transpose((0, 2, 1)), self.b(Sigmoid(), rows))
        return self.b(Reshape((n, c, h, w)), back)

    def scaled(self) -> Value:
        return self.b(Mul(), self.image, self.weights(*self.random.choice([(self.channels, 1, 1), (1,)])))

    def gated(self) -> Value:
        mean = self.b(ReduceMean(self.random.choice([(2, 3), (1,), (-1,)])), self.image)
        return self.b(Mul(), self.image, self.b(Sigmoid(), mean))

    def pooled(self) -> Value:
        return self.b(MaxPool((3, 3), (1, 1), (1, 1, 1, 1)), self.image)

    def step(self) -> None:
        kinds = [
            self.depthwise, self.depthwise, self.dense, self.dense, self.grouped, self.residual, self.rows,
            self.tokens, self.scaled, self.gated, self.pooled,
        ]  # fmt: skip
        self.image = self.random.choice(kinds)()


def _stack(seed: int) -> Module:
    """A stack of layers on rows of channels, or on images."""
    module, random = Module(), Random(seed)
    channels = random.choice([3, 16, 32, 48])
    h, w = symbol("H"), symbol("W")
    dims = (3, h, w) if channels == 3 else (h, w, channels)
    b, (x,) = new_main_graph(module, [("x", tensor(F32, symbol("N"), *dims))])
    made = Stack(b, random, x if channels == 3 else b(Transpose((0, 3, 1, 2)), x))
    if channels == 3:
        made.image = b(Conv((2, 2), (1, 1, 1, 1)), made.image, made.weights(32, channels, 3, 3))
    else:
        made.image = made.depthwise()
    made.image = made.rows()
    for _ in range(STEPS):
        made.step()
    rows = b(Transpose((0, 2, 3, 1)), made.image)
    outputs = [rows, b(ReduceMax((2, 3), keepdims=False), made.image)][: random.randint(1, 2)]
    module.main.set_outputs(outputs, ["y", "z"][: len(outputs)])
    return module


SIZES = st.fixed_dictionaries(
    {"N": st.integers(0, 2), "H": st.integers(1, 13), "W": st.sampled_from([1, 2, 7, 16, 23])}
)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("seed", range(8))
def test_stacks_compute_what_their_references_do(seed: int, isa: str) -> None:
    module = _stack(seed)
    made: list[bool] = []

    def observe(name: str, product: object) -> None:
        if name == "assign_channels_last" and isinstance(product, Module):
            made.append(any(isinstance(node.op, ChannelsLastConv) for node in product.main))

    options = Options(isa=isa, verify=True, threads=2)
    model = gw.compile(clone_module(module), options=options, observe=observe)
    assert made == [True]

    @settings(max_examples=5, deadline=None)
    @given(SIZES)
    def check(sizes: dict[str, int]) -> None:
        rng = np.random.default_rng(seed)
        shapes = [[evaluate(d, sizes) for d in v.type.dims] for v in module.main.inputs]
        feeds = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
        wanted = evaluate_module(module, feeds)
        model.threads = 2
        given_by_two = model(*feeds)
        for got, want in zip(given_by_two, wanted, strict=True):
            largest = np.abs(want).max(initial=1.0, where=np.isfinite(want))
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * largest)
        for threads in (1, 3):
            model.threads = threads
            for got, want in zip(model(*feeds), given_by_two, strict=True):
                np.testing.assert_array_equal(got, want)

    check()
