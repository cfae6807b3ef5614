"""Convolutions over one to three axes as models with dynamic sizes, compiled, against their references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.inference.infer import evaluate
from graphwright.ops.core.binary import Add
from graphwright.ops.core.unary import Tanh
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.harness import RUNNABLE

NAMES = "DHW"


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[Conv | ConvTranspose, tuple[int, ...]]:
    """An op over one to three axes, and the shape of its weights: often with axes that have no windows."""
    rank, group = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2, 3]))
    kernel = tuple(draw(st.sampled_from([1, 1, 2, 3])) for _ in range(rank))
    strides, dilations = (tuple(draw(st.sampled_from([1, 1, 2, 3])) for _ in range(rank)) for _ in range(2))
    pads = tuple(draw(st.integers(0, min(2, k - 1))) for k in kernel * 2)
    cin, cout = draw(st.sampled_from([1, 2, 9])), draw(st.sampled_from([1, 2, 17]))
    if draw(st.booleans()):
        return Conv(strides, pads, dilations, group), (group * cout, cin, *kernel)
    return ConvTranspose(strides, pads, dilations, group=group), (group * cin, cout, *kernel)


def compiled(op: Conv | ConvTranspose, w: Any, bias: Any, sizes: list[Any], options: Options) -> gw.Model:
    b = gw.GraphBuilder()
    channels = w.shape[1] * op.group if isinstance(op, Conv) else w.shape[0]
    b.output("y", b(op, b.input("x", "f32", ["N", channels, *sizes]), b.constant(w), b.constant(bias)))
    return b.compile(options=options)


def feeds(op: Conv | ConvTranspose, w: Any, rank: int) -> list[Any]:
    """Images of three sizes, the smallest one that the windows leave."""
    generator = np.random.default_rng(w.size)
    channels = w.shape[1] * op.group if isinstance(op, Conv) else w.shape[0]
    extents = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], op.dilations, strict=True)]
    least = extents
    if isinstance(op, ConvTranspose):  # one element more than the padding removes
        removed = (op.pads[k] + op.pads[k + rank] - extents[k] for k in range(rank))
        least = [1 + max(0, -(-(r + 1) // s)) for r, s in zip(removed, op.strides, strict=True)]
    shapes = [(1, channels, *least), (2, channels, *(n + 4 for n in least)), (0, channels, *least)]
    shapes.append((1, channels, *(n + 17 if axis == rank - 1 else n for axis, n in enumerate(least))))
    return [generator.standard_normal(shape, np.float32) for shape in shapes]


@settings(max_examples=40, deadline=None)
@given(convolutions(), st.sampled_from([isa.name for isa in RUNNABLE]), st.booleans())
@example((Conv((1, 1), (1, 0, 1, 0), (2, 1)), (17, 9, 3, 1)), "v3", False)
@example((Conv((1, 1, 1), (1, 0, 0, 1, 0, 0), (1, 1, 1)), (17, 9, 3, 1, 1)), "v3", True)
@example((Conv((2, 1), (0, 0, 0, 0), (1, 1)), (17, 9, 3, 1)), "v3", True)
@example((ConvTranspose((2, 2), (1, 1, 1, 1), (1, 1)), (16, 16, 3, 3)), RUNNABLE[-1].name, False)
@example((ConvTranspose((2,), (0, 1), (1,)), (9, 17, 2)), "v3", False)
@example((ConvTranspose((2,), (0, 0), (2,)), (9, 17, 2)), "v3", False)
def test_any_axes_at_any_size(
    made: tuple[Conv | ConvTranspose, tuple[int, ...]], isa: str, one: bool
) -> None:
    """With ``one``, the last axis has size 1, so a column becomes a row."""
    op, shape = made
    rank, generator = len(shape) - 2, np.random.default_rng(0)
    one = one and rank > 1 and shape[-1] == 1
    w = generator.standard_normal(shape, np.float32)
    features = shape[0] if isinstance(op, Conv) else shape[1] * op.group
    bias = generator.standard_normal(features, np.float32)
    sizes: list[Any] = [*NAMES[: rank - one], *[1] * one]
    models = [compiled(op, w, bias, sizes, Options(isa=isa, threads=n)) for n in (1, 2, 3)]
    for x in feeds(op, w, rank):
        x = x[..., :1] if one else x
        (expected,) = evaluate(op, (x, w, bias))
        results = [np.asarray(model(x)[0]) for model in models]
        np.testing.assert_allclose(results[0], expected, rtol=1e-5, atol=1e-4)
        for result in results[1:]:
            np.testing.assert_array_equal(result.view(np.uint32), results[0].view(np.uint32))
    assert all(model.stats()["host_calls"] == 0 for model in models)


@pytest.mark.parametrize("op", [Conv(), ConvTranspose(), Conv(group=4)])
def test_volumes_have_kernels_of_the_library(op: Conv | ConvTranspose) -> None:
    shape = (4, 1, 3, 3, 3) if op.group > 1 else (4, 4, 3, 3, 3)
    model = compiled(op, np.ones(shape, np.float32), np.zeros(4, np.float32), [5, 5, 5], Options())
    assert "gw_" in model.report()


@pytest.mark.parametrize("isa", RUNNABLE, ids=[isa.name for isa in RUNNABLE])
def test_dynamic_sizes_take_the_faster_form_when_they_are_known(isa: Isa) -> None:
    """The epilogues are a hook (tanh) and a residual."""
    generator = np.random.default_rng(0)
    w, v = (generator.standard_normal((64, 64, 3, 3), np.float32) / 24 for _ in range(2))
    conv = Conv(pads=(1, 1, 1, 1))
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ["N", 64, "H", "W"])
    b.output("y", b(Add(), b(conv, b(Tanh(), b(conv, x, b.constant(w))), b.constant(v)), x))
    model = b.compile(options=Options(isa=isa.name, threads=2))
    assert {"gw_direct_f32", "gw_winograd4_f32"} <= set(model.report().split())
    for size in ((1, 1), (2, 3), (7, 80), (80, 80)):
        image = generator.standard_normal((2, 64, *size), np.float32)
        inner = np.tanh(conv.reference(image, w))
        np.testing.assert_allclose(model(image)[0], conv.reference(inner, v) + image, rtol=1e-4, atol=1e-4)
