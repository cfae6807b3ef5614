"""Pooling problems of tests, their operands and expected results."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tests.kernels.library.cases import AnyArray

F32 = npt.NDArray[np.float32]


def windows(x: F32, case: dict[str, Any]) -> list[tuple[tuple[int, ...], list[tuple[int, ...]], int]]:
    """For each output position: the positions inside its window, and how many taps the pads allow."""
    taps = list(product(*(range(k) for k in case["kernel"])))
    result = []
    for position in product(*(range(n) for n in case["out"])):
        inside, padded = [], 0
        for tap in taps:
            at = tuple(
                p * s - b + t * d
                for p, s, b, t, d in zip(
                    position, case["strides"], case["before"], tap, case["dilations"], strict=True
                )
            )
            size = x.shape[2:]
            padded += all(
                -b <= a < n + e for a, b, n, e in zip(at, case["before"], size, case["after"], strict=True)
            )
            if all(0 <= a < n for a, n in zip(at, size, strict=True)):
                inside.append(at)
        result.append((position, inside, padded))
    return result


def expected_pool(x: F32, case: dict[str, Any], kind: str, count_include_pad: bool) -> AnyArray:
    y = np.empty((*x.shape[:2], *case["out"]), np.float64)
    for position, inside, padded in windows(x, case):
        if not inside:
            picked = np.empty((*x.shape[:2], 0))
        else:
            index = tuple(np.array(axis) for axis in zip(*inside, strict=True))
            picked = x[(slice(None), slice(None), *index)].astype(np.float64)
        if kind == "max":
            y[(..., *position)] = picked.max(-1, initial=-np.inf)
        else:
            count = padded if count_include_pad else len(inside)
            y[(..., *position)] = picked.sum(-1) / max(count, 1)  # a window of pads alone is 0
    return y


@st.composite
def cases(
    draw: st.DrawFn, sizes: tuple[list[int], ...], channels: list[int]
) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The shape of an image whose axes have one of ``sizes`` each, and windows over it; ceil_mode shows as
    one more output than fits.
    """
    names = ("kernel", "strides", "before", "after", "dilations", "out")
    axes: dict[str, list[int]] = {name: [] for name in names}
    shape = []
    for choices in sizes:
        n = draw(st.sampled_from(choices))
        k, s, d = draw(st.integers(1, 6)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
        before, after = draw(st.integers(0, k)), draw(st.integers(0, k))
        left = n + before + after - ((k - 1) * d + 1)
        out = 0 if left < 0 else left // s + 1 + (1 if left % s and draw(st.booleans()) else 0)
        shape.append(n)
        for name, value in zip(names, (k, s, before, after, d, out), strict=True):
            axes[name].append(value)
    return (draw(st.integers(0, 2)), draw(st.sampled_from(channels)), *shape), axes


PROBLEMS = cases(([1, 1, 4], [1, 5, 9], [1, 3, 16, 17, 37, 75]), [1, 3])


def signal(shape: tuple[int, ...], special: bool) -> F32:
    x = np.random.default_rng(math.prod(shape)).standard_normal(shape).astype(np.float32)
    if special and x.size:
        x.reshape(-1)[:: max(1, x.size // 7)] = np.array([np.nan], np.float32)
        x.reshape(-1)[3 :: max(1, x.size // 5)] = -np.inf
    return x
