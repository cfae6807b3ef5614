"""Transposed convolution by way of a convolution that makes the phases of its strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.types import F32, tensor
from graphwright.kernels.candidates import registry
from graphwright.kernels.conv.sub_pixel_candidates import sub_pixel
from graphwright.ops.nn.conv_transpose import ConvTranspose

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def alone() -> Any:
    """No other candidate of the op."""
    registry.load()
    with pytest.MonkeyPatch.context() as patch:
        others = registry._CANDIDATES[ConvTranspose]
        kept = [each for each in others if each.candidate is sub_pixel]
        patch.setitem(registry._CANDIDATES, ConvTranspose, kept)
        yield


def ran(op: ConvTranspose, x: Array, w: Array, bias: Array | None) -> tuple[Array, list[str]]:
    """The result, and the reasons why nodes run in Python."""
    module = Module()
    b, (value,) = new_main_graph(module, [("x", tensor(F32, *x.shape))])
    constants = [b.const(w, F32)] + ([] if bias is None else [b.const(bias, F32)])
    module.main.set_outputs([b(op, value, *constants)], ["y"])
    reasons: list[str] = []

    def observe(stage: str, product: Any) -> None:
        if stage == "select":
            reasons.extend(getattr(step.action, "reason", "") for step in product.steps)

    model = gw.compile(module, options=Options(threads=1, isa="v3"), observe=observe)
    return model(x)[0], [reason for reason in reasons if reason]


sizes = st.sampled_from([1, 2, 3, 7, 17])
spatial = st.tuples(sizes, st.integers(1, 3), st.integers(1, 3))


@given(
    axes=st.lists(spatial, min_size=1, max_size=3), channels=st.sampled_from([1, 2, 5]),
    features=st.sampled_from([1, 3]), group=st.sampled_from([1, 2]), crop=st.integers(0, 2),
    extra=st.integers(0, 1), biased=st.booleans(), batch=st.sampled_from([1, 2]),
)  # fmt: skip
@settings(deadline=None, max_examples=25)
def test_it_is_what_the_reference_computes(
    axes: list[tuple[int, int, int]], channels: int, features: int, group: int, crop: int, extra: int,
    biased: bool, batch: int,
) -> None:  # fmt: skip
    """The axes are elements of x, stride, and taps of a phase."""
    generator = np.random.default_rng(0)
    rank, cin = len(axes), channels * group
    strides, kernel = tuple(s for _, s, _ in axes), tuple(s * t for _, s, t in axes)
    pads = tuple(min(crop, (k - 1) // 2) for k in kernel)
    padding = tuple(min(extra, s - 1, p) for s, p in zip(strides, pads, strict=True))
    x = generator.normal(size=(batch, cin, *(n for n, _, _ in axes))).astype(np.float32)
    w = generator.normal(size=(cin, features, *kernel)).astype(np.float32)
    bias = generator.normal(size=features * group).astype(np.float32) if biased else None
    op = ConvTranspose(strides, pads + pads, (1,) * rank, padding, group)
    expected = op.reference(x.astype(np.float64), w.astype(np.float64), bias)
    made, reasons = ran(op, x, w, bias)
    assert reasons == ([] if max(strides) > 1 else ["its strides do not divide its kernel"])
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-4)


def test_infinities_stay_in_their_windows() -> None:
    x = np.zeros((1, 1, 5, 5), np.float32)
    x[0, 0, 2, 2], x[0, 0, 0, 0] = np.inf, np.nan
    w = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    op = ConvTranspose((2, 2), (1, 1, 1, 1))
    made, reasons = ran(op, x, w, None)
    assert reasons == []
    np.testing.assert_array_equal(made, op.reference(x, w))


@pytest.mark.parametrize(
    ("op", "kernel", "reason"),
    [
        (ConvTranspose((2,), (0, 0)), 3, "its strides do not divide its kernel"),
        (ConvTranspose((2,), (0, 0), (3,)), 4, "its strides do not divide its kernel"),
        (ConvTranspose((2,), (0, 0), (1,), (1,)), 4, "its result is larger than what its windows cover"),
    ],
    ids=str,
)
def test_the_candidate_gives_the_reason_against_it(op: ConvTranspose, kernel: int, reason: str) -> None:
    x, w = np.ones((1, 2, 5), np.float32), np.ones((2, 1, kernel), np.float32)
    made, reasons = ran(op, x, w, None)
    assert reasons == [reason]
    np.testing.assert_allclose(made, op.reference(x, w))
