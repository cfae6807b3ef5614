"""Transposed convolutions on channel blocks, compiled, against their reference; one axis and two."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.config import Options
from graphwright.cost.predict import Work
from graphwright.ir.build import new_main_graph
from graphwright.ir.clone import clone_module
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Module, Node
from graphwright.ir.symbols import evaluate, symbol
from graphwright.ir.types import F32, tensor
from graphwright.kernels.conv.blocked_transposed_candidates import taps_of
from graphwright.layout import convolution_costs, costs
from graphwright.layout.blocks import is_blocked
from graphwright.ops.core.binary import Add
from graphwright.ops.core.unary import Relu, Sigmoid
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.max_pool import MaxPool
from tests.isas import RUNNABLE

CASES = {
    "no overlap": ((2, 2), ConvTranspose((2, 2))),
    "no overlap, uneven": ((3, 2), ConvTranspose((3, 2))),
    "rows alone": ((2, 1), ConvTranspose((2, 1))),
    "overlap": ((4, 4), ConvTranspose((2, 2), (1, 1, 1, 1))),
    "longer": ((3, 3), ConvTranspose((2, 2), (1, 1, 1, 1), output_padding=(1, 1))),
    "dilated": ((3, 2), ConvTranspose((2, 3), (1, 0, 0, 1), (3, 2))),
    "holes": ((1, 2), ConvTranspose((3, 3), output_padding=(1, 0))),
    "stride 1": ((3, 3), ConvTranspose((1, 1), (1, 1, 1, 1))),
    "cropped": ((2, 2), ConvTranspose((2, 2), (1, 0, 0, 1))),
    "one axis": ((4,), ConvTranspose((3,), (1, 2))),
    "one axis, no overlap": ((5,), ConvTranspose((5,))),
}


@pytest.fixture(autouse=True)
def _blocks_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images this small are faster row-major: let the pass think otherwise."""
    monkeypatch.setattr(convolution_costs, "im2col_work", lambda *sizes: Work(cycles=1 << 40))
    monkeypatch.setattr(convolution_costs, "TRANSPOSED", 1)
    monkeypatch.setattr(convolution_costs, "scatters", lambda *sizes: False)
    monkeypatch.setattr(costs.LayoutCosts, "transfer_ns", lambda costs, value: 1e-3)


def _module(kernel: tuple[int, ...], op: ConvTranspose, cin: int, cout: int, bias: bool, tail: str) -> Module:
    """A convolution to ``cin`` channels, the transposed one to ``cout``, and what follows it."""
    module, rng = Module(), np.random.default_rng(cin)
    sizes = (symbol("H"), 11) if len(kernel) == 2 else (symbol("H"),)
    b, (x,) = new_main_graph(module, [("x", tensor(F32, symbol("N"), 5, *sizes))])

    def constant(*shape: int) -> object:
        return b.const((rng.normal(size=shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32))

    image = b(Conv(), x, constant(cin, 5, *[1] * len(kernel)))
    y = b(op, image, constant(cin, cout // op.group, *kernel), constant(cout) if bias else None)
    if tail == "residual":
        r = module.main.add_input(tensor(F32, *y.type.dims), "r")
        image = b(Conv(), r, constant(cout, cout, *[1] * len(kernel)))
        pooled = b(MaxPool((3, 3), (1, 1), (1, 1, 1, 1)), image)
        y = b(Sigmoid(), b(Add(), y, pooled))
    y = {"relu": b(Relu(), y), "sigmoid": b(Sigmoid(), y)}.get(tail, y)
    module.main.set_outputs([y], ["y"])
    return module


def _check(module: Module, isa: str) -> list[Node]:
    """Compile and run ``module``; its transposed convolutions as they were laid out."""
    rng = np.random.default_rng(0)
    shapes = [[evaluate(d, {"N": 2, "H": 7}) for d in value.type.dims] for value in module.main.inputs]
    feeds = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    (want,) = evaluate_module(module, feeds)
    laid_out: list[Node] = []

    def keep(name: str, product: object) -> None:
        if name == "assign_layouts" and isinstance(product, Module):
            laid_out.extend(node for node in product.walk() if isinstance(node.op, ConvTranspose))

    options = Options(isa=isa, verify=True, threads=2)
    model = gw.compile(clone_module(module), options=options, observe=keep)
    (got,) = model(*feeds)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
    model.threads = 1
    np.testing.assert_array_equal(model(*feeds)[0], got)
    return laid_out


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("cout, tail", [(24, "relu"), (16, "sigmoid"), (5, ""), (1, "sigmoid"), (1, "")])
def test_agrees_with_its_reference(name: str, cout: int, tail: str, isa: str) -> None:
    kernel, op = CASES[name]
    bias = Random(name + tail).random() < 0.5
    (node,) = _check(_module(kernel, op, 21, cout, bias, tail), isa)
    plain = cout == 1 and op.overlaps(kernel)
    assert is_blocked(node.operand(0)) != plain


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("name", ["no overlap", "overlap", "one axis"])
def test_groups_of_whole_blocks(name: str, isa: str) -> None:
    kernel, op = CASES[name]
    (node,) = _check(_module(kernel, replace(op, group=2), 32, 64, bias=True, tail=""), isa)
    assert is_blocked(node.operand(0)) and is_blocked(node.output)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_its_epilogue_adds_an_image_that_ends_there(isa: str) -> None:
    """The kernel after it may write in place of that image, or of the result of the transposed
    convolution.
    """
    (node,) = _check(_module((4, 4), CASES["overlap"][1], 32, 32, bias=True, tail="residual"), isa)
    assert is_blocked(node.operand(0)) and is_blocked(node.output)


@settings(max_examples=200, deadline=None)
@given(kernel=st.integers(1, 7), stride=st.integers(1, 5), dilation=st.integers(1, 4), pad=st.integers(0, 6))
def test_phases_use_every_tap_once(kernel: int, stride: int, dilation: int, pad: int) -> None:
    """Tap k of input i contributes to output i * stride + k * dilation - pad; each phase must read exactly
    these.
    """
    seen = set()
    for phase in range(stride):
        taps = taps_of(phase, kernel, stride, dilation, pad)
        for position in range(taps.count):
            tap, image = taps.first - position * taps.step, position * taps.dilation - taps.pad
            assert image * stride + tap * dilation - pad == phase
            seen.add(tap)
    assert seen == set(range(kernel))
