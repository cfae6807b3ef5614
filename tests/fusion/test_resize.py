"""Pointwise convolutions before a Resize: results compared with NumPy in f64, and decisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.fusion.decision_text import decode_decisions
from graphwright.fusion.decisions import Verdict
from graphwright.ir.refusal import Code
from graphwright.ir.text import parse_module
from graphwright.passes.manager import run_passes
from graphwright.passes.sink_resizes import SINK_RESIZES

Array = np.ndarray[Any, Any]
UP = np.array([1, 1, 2, 2], np.float32)


def nearest(x: Array) -> Array:
    """Repeats each pixel four times."""
    return x.repeat(2, 2).repeat(2, 3)


def linear(x: Array) -> Array:
    """Between centers of pixels, a quarter and three quarters of the way; the border is repeated."""
    for axis in (2, 3):
        wide = np.concatenate((x.take([0], axis), x, x.take([-1], axis)), axis)
        before, after = wide.take(range(x.shape[axis]), axis), wide.take(range(2, x.shape[axis] + 2), axis)
        pair = np.stack((0.25 * before + 0.75 * x, 0.75 * x + 0.25 * after), axis + 1)
        x = pair.reshape(*x.shape[:axis], 2 * x.shape[axis], *x.shape[axis + 1 :])
    return x


MEANT = {"": lambda x: x, "nearest": nearest, "linear": linear}


def model(
    rng: np.random.Generator,
    modes: list[str],
    channels: list[int],
    image: tuple[int, int, int],
    features: int,
    batch: int | str | None = None,
) -> tuple[gw.Model, dict[str, Array], Array]:
    """Images resized as ``modes`` say, joined and convolved, with a bias and Relu; and that in f64.

    ``batch`` is the number of images as the model states it.
    """
    n, h, w = image
    b, feeds, parts, meant = gw.GraphBuilder(), {}, [], []
    for k, (mode, count) in enumerate(zip(modes, channels, strict=True)):
        size = (n, count, h, w) if mode else (n, count, 2 * h, 2 * w)
        feeds[f"x{k}"] = rng.standard_normal(size).astype(np.float32)
        x = b.input(f"x{k}", np.float32, (n if batch is None else batch, *size[1:]))
        parts.append(b.resize(x, None, UP, mode=mode, coordinates="half_pixel") if mode else x)
        meant.append(MEANT[mode](feeds[f"x{k}"].astype(np.float64)))
    weights = rng.standard_normal((features, sum(channels), 1, 1)).astype(np.float32)
    bias = rng.standard_normal(features).astype(np.float32)
    joined = parts[0] if len(parts) == 1 else b.concat(*parts, axis=1)
    b.output("y", b.relu(b.conv(joined, weights, bias)))
    sums = np.einsum("oc,nchw->nohw", weights[:, :, 0, 0].astype(np.float64), np.concatenate(meant, 1))
    return b.compile(), feeds, np.maximum(sums + bias[:, None, None], 0)


def replaced(compiled: gw.Model) -> list[Code]:
    """Codes of the decisions about replacing nodes."""
    return [each.code for each in decode_decisions(compiled.entry.decisions) if each.edit.kind == "replace"]


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.sampled_from(["", "nearest", "linear"]), min_size=1, max_size=4),
    st.data(),
    st.tuples(st.integers(1, 2), st.integers(1, 6), st.integers(1, 9)),
    st.integers(1, 37),
    st.integers(0, 1 << 30),
)
def test_results_are_those_of_numpy(
    modes: list[str], data: st.DataObject, image: tuple[int, int, int], features: int, seed: int
) -> None:
    channels = [data.draw(st.sampled_from([1, 2, 7, 16, 40])) for _ in modes]
    compiled, feeds, meant = model(np.random.default_rng(seed), modes, channels, image, features)
    size = sum(channels) ** 0.5
    np.testing.assert_allclose(compiled.run(feeds)["y"], meant, rtol=1e-5, atol=2e-6 * size)


@pytest.mark.parametrize(
    "modes", [["nearest"], ["nearest", ""], ["", "linear", "nearest"], ["linear", "nearest"]]
)
def test_images_of_many_channels_are_resized_behind_the_convolution(modes: list[str]) -> None:
    rng = np.random.default_rng(1)
    compiled, feeds, meant = model(rng, modes, [48] * len(modes), (1, 3, 5), 24)
    assert replaced(compiled).count(Code.REPLACED) == 1
    graph = compiled.entry.graph
    assert "Concat" not in graph
    assert graph.count(" Resize") == sum(map(bool, modes))
    assert all("[1, 24, 6, 10]" in line for line in graph.splitlines() if " Resize" in line)
    np.testing.assert_allclose(compiled.run(feeds)["y"], meant, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("modes", [["nearest"], ["nearest", ""], ["", "linear", "nearest"]])
def test_the_number_of_images_may_be_dynamic(modes: list[str]) -> None:
    rng = np.random.default_rng(1)
    compiled, feeds, meant = model(rng, modes, [48] * len(modes), (2, 3, 5), 24, "N")
    assert replaced(compiled).count(Code.REPLACED) == 1
    np.testing.assert_allclose(compiled.run(feeds)["y"], meant, rtol=1e-5, atol=2e-5)


def test_decisions_have_the_reason_against_a_merge() -> None:
    b = gw.GraphBuilder()
    up = b.resize(b.input("x", np.float32, ("N", 64, 8, 8)), None, UP)
    weights = np.ones((32, 64, 3, 3), np.float32)
    b.output("y", b.conv(up, weights, pads=(1, 1, 1, 1)))
    found = [
        each for each in decode_decisions(b.compile().entry.decisions) if each.verdict is Verdict.REFUSED
    ]
    assert Code.RESIZE_WINDOW in {each.code for each in found}


def test_hinted_nodes_are_not_replaced() -> None:
    b = gw.GraphBuilder()
    up = b.resize(b.input("x", np.float32, (1, 64, 8, 8)), None, UP)
    with b.fuse("never"):
        y = b.conv(up, np.ones((32, 64, 1, 1), np.float32))
    b.output("y", y)
    assert Code.RESIZE_HINT in replaced(b.compile())


def test_an_image_of_unknown_rank_stays_as_it_is() -> None:
    module = parse_module("""module {
  constant #w: f32[1, 2, 1, 1] = [1.0, 2.0]
  graph main(%x: f32[*]) {
    %w = Constant[value=#w]: f32[1, 2, 1, 1]
    %u = Resize[scales=(1.0, 1.0, 2.0, 2.0)](%x): f32[*]
    %y = Conv(%u, %w): f32[*]
    return %y
  }
}
""")
    (record,) = run_passes(module, SINK_RESIZES)
    assert [reason.code for reason in record.reasons] == [Code.RESIZE_KIND]
