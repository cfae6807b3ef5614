"""What tests of convolutions share: windows, layouts, the float64 reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.kernels.library.harness import Array
from tests.kernels.library.prepared import PreparedKernel

LAYOUTS = {
    "nchw": ((0, 1, 2, 3), 0, 1),
    "nhwc": ((0, 2, 3, 1), 0, 1),
    "rows apart": ((0, 1, 2, 3), 3, 1),
    "scattered": ((1, 0, 2, 3), 1, 3),
}


@dataclass(frozen=True)
class Window:
    """One entry per spatial axis; pads are all begins, then all ends."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...] = (1, 1)
    pads: tuple[int, ...] = (0, 0, 0, 0)
    dilation: tuple[int, ...] = (1, 1)

    def output(self, *sizes: int) -> tuple[int, ...]:
        begins, ends = self.pads[: len(sizes)], self.pads[len(sizes) :]
        axes = zip(sizes, begins, ends, self.kernel, self.dilation, self.stride, strict=True)
        return tuple((n + b + e - (k - 1) * d - 1) // s + 1 for n, b, e, k, d, s in axes)


def reference(x: Any, w: Any, bias: Any, groups: int, window: Window, act: int) -> Any:
    """Sums over the taps of shifted images, in float64."""
    rank, counts = len(window.kernel), window.output(*x.shape[2:])
    pads = zip(window.pads[:rank], window.pads[rank:], strict=True)
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *pads])
    n, cin, cout = x.shape[0], x.shape[1] // groups, w.shape[0] // groups
    y = np.zeros((n, groups, cout, *counts))
    weights = w.astype(np.float64).reshape(groups, cout, *w.shape[1:])
    for tap in np.ndindex(*window.kernel):
        axes = zip(tap, window.dilation, counts, window.stride, strict=True)
        part = padded[(..., *(slice(i * d, i * d + (o - 1) * s + 1, s) for i, d, o, s in axes))]
        part = part.reshape(n, groups, cin, *counts)
        y += np.einsum("ngc...,gdc->ngd...", part, weights[(..., *tap)])
    y = y.reshape(n, groups * cout, *counts)
    y = y if bias is None else y + bias.reshape(-1, *[1] * rank)
    return np.maximum(y, 0) if act else y


def depth_height_width(sizes: Sequence[int], window: Window) -> tuple[int, ...]:
    """Three each of: sizes, counts, kernel sizes, strides, leading pads, dilations."""
    rank = len(sizes)
    counts, pads = window.output(*sizes), window.pads[:rank]
    fields = (
        (sizes, 1),
        (counts, 1),
        (window.kernel, 1),
        (window.stride, 1),
        (pads, 0),
        (window.dilation, 1),
    )
    return tuple(value for values, fill in fields for value in (*(fill,) * (3 - rank), *values))


def deep_strides(strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of images, with one for a depth of 1."""
    return strides if len(strides) == 5 else (*strides[:2], 0, *strides[2:])


def with_depth(order: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """A memory order of images over two axes, for those over ``rank`` (2 or 3)."""
    if rank == 2:
        return order
    return tuple(axis for a in order for axis in {2: (2, 3), 3: (4,)}.get(a, (a,)))


def normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def assert_near(actual: Any, expected: Any, depth: int) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * (depth + 4) ** 0.5)


pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))
WINDOWS = st.builds(
    Window, kernel=st.tuples(st.sampled_from([1, 2, 3, 5]), st.sampled_from([1, 2, 3, 7])), stride=pairs,
    pads=st.tuples(*[st.integers(0, 3)] * 4), dilation=pairs,
)  # fmt: skip

triples = st.tuples(*[st.integers(1, 3)] * 3)
DEEP_WINDOWS = st.builds(
    Window, kernel=st.tuples(*[st.sampled_from([1, 2, 3])] * 2, st.sampled_from([1, 2, 3, 5])),
    stride=triples, pads=st.tuples(*[st.integers(0, 2)] * 6), dilation=triples,
)  # fmt: skip
"""Windows over three axes."""


class Prepared(PreparedKernel):
    """A convolution whose operands are laid out: x, weights, bias, y [N, C, spatial axes]."""

    y: Array

    def run(self, chunks: list[tuple[int, int]] | None = None) -> Array:
        return self.launch(chunks).copy()

    def run_hooked(self) -> Array:
        """The tiles that a hook stored."""
        images, channels, *counts = self.y.shape
        return self.hooked(images, channels, prod(counts)).reshape(self.y.shape)
