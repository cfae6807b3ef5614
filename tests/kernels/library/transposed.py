"""Transposed convolutions: cases, operands, and expected results. By definition, each input pixel times each
tap is added to one output pixel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from graphwright.kernels.conv.conv_transpose import ConvTransposeArgs
from tests.kernels.library.cases import AnyArray, chunkings, element_strides, guard
from tests.kernels.library.harness import call, call_hooked, strided

F32 = npt.NDArray[np.float32]
SMALL = {
    "n": 1, "groups": 1, "cin": 1, "cout": 1, "size": (2, 2), "kernel": (2, 2), "strides": (2, 2),
    "dilations": (1, 1), "pads": (0, 0), "out": (4, 4),
}  # fmt: skip


def scatter(x: F32, w: F32, case: dict[str, Any]) -> npt.NDArray[np.float64]:
    """Expected output, without bias, in float64."""
    n, cin, *size = x.shape
    _, cout, *kernel = w.shape
    groups, rank = case["groups"], len(size)
    axes = list(zip(size, kernel, case["strides"], case["dilations"], case["pads"], case["out"], strict=True))
    room = [max((i - 1) * s + (k - 1) * d + 1, p + o) for i, k, s, d, p, o in axes]
    full = np.zeros((n, groups, cout, *room))
    xs = x.reshape(n, groups, cin // groups, *size).astype(np.float64)
    ws = w.reshape(groups, cin // groups, cout, *kernel).astype(np.float64)
    for tap in product(*map(range, kernel)):
        part = np.einsum("ngi...,gio->ngo...", xs, ws[(..., *tap)])
        places = zip(tap, axes, strict=True)
        full[(..., *(slice(t * d, t * d + (i - 1) * s + 1, s) for t, (i, _, s, d, _, _) in places))] += part
    kept = tuple(slice(p, p + o) for _, _, _, _, p, o in axes)
    assert len(kept) == rank
    return full[(..., *kept)].reshape(n, groups * cout, *case["out"])


@st.composite
def cases(draw: st.DrawFn, rank: int = 2, most: tuple[int, int] = (4, 5)) -> dict[str, Any]:
    """Kernels and strides are at most ``most``."""
    kernel, strides = (tuple(draw(st.integers(1, size)) for _ in range(rank)) for size in most)
    dilations = tuple(draw(st.integers(1, 2)) for _ in range(rank))
    rows = tuple(draw(st.sampled_from([1, 2, 5])) for _ in range(rank - 1))
    size = (*rows, draw(st.sampled_from([1, 3, 16, 33, 70, 290] if rank == 2 else [1, 3, 16, 33])))
    out, pads = [], []
    for n, k, s, d in zip(size, kernel, strides, dilations, strict=True):
        reach = (k - 1) * d + 1
        begin, after, extra = (
            draw(st.integers(0, reach - 1)),
            draw(st.integers(0, reach - 1)),
            draw(st.integers(0, s - 1)),
        )
        pads.append(begin)
        out.append(max(0, (n - 1) * s + reach - begin - after + extra))
    return {
        "n": draw(st.integers(1, 2)), "groups": draw(st.integers(1, 2)),
        "cin": draw(st.sampled_from([1, 3, 24])),
        "cout": draw(st.sampled_from([1, 5, 13, 24])), "size": size, "kernel": kernel, "strides": strides,
        "dilations": dilations, "pads": tuple(pads), "out": tuple(out),
    }  # fmt: skip


def problem(case: dict[str, Any], gap: int, side: str) -> tuple[F32, F32, F32, F32, ConvTransposeArgs]:
    """x, w, bias, y and the args of a call but for ``act``."""
    rng = np.random.default_rng(math.prod(case["size"]) + case["cout"])
    groups, cin, cout = case["groups"], case["cin"], case["cout"]
    x, x_strides = strided(
        rng.standard_normal((case["n"], groups * cin, *case["size"])).astype(np.float32),
        range(2 + len(case["size"])), gap, side,
    )  # fmt: skip
    w = rng.standard_normal((groups * cin, cout, *case["kernel"])).astype(np.float32)
    bias = rng.standard_normal(groups * cout).astype(np.float32)
    y = guard(np.empty((case["n"], groups * cout, *case["out"]), np.float32), at_end=side == "end")
    args = ConvTransposeArgs(
        *(case["n"], groups, cin, cout, *_three(case["size"], 1), *_three(case["out"], 1)),
        *(*_three(case["kernel"], 1), *_three(case["strides"], 1), *_three(case["pads"], 0)),
        *(*_three(case["dilations"], 1), *_deep(x_strides[:-1]), *_deep(element_strides(y)[:-1])),
        act=0,
    )
    return x, w, bias, y, args


def _three(values: tuple[int, ...], fill: int) -> tuple[int, ...]:
    return (*(fill,) * (3 - len(values)), *values)


def _deep(strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides but for the width's, with one for a depth of 1."""
    return strides if len(strides) == 4 else (*strides[:2], 0, *strides[2:])


def per_channel(bias: F32, case: dict[str, Any]) -> F32:
    return bias.reshape(-1, *[1] * len(case["size"]))


def expected_of(x: F32, w: F32, bias: F32 | None, case: dict[str, Any], act: bool) -> npt.NDArray[np.float64]:
    """The result in float64."""
    y = scatter(x, w, case) + (0 if bias is None else per_channel(bias, case))
    return np.maximum(y, 0) if act else y


def assert_hook_gets_each_output_once(
    kernel: Any, operands: list[Any], args: Any, grid: Any, room: Any, y: F32, expected: AnyArray
) -> None:
    """The hook stores three times its tiles plus 1."""
    shape = (y.shape[0], y.shape[1], math.prod(y.shape[2:]))
    stored = call_hooked(kernel, operands, args, grid, room, shape).reshape(y.shape)
    np.testing.assert_allclose(stored, 3 * expected + 1, rtol=3e-4, atol=3e-4)


def in_all_chunks(kernel: Any, operands: list[Any], args: Sequence[Any], grid: Any, scratch: Any) -> F32:
    """The last operand, which the kernel writes; it must have the same bits however the grid is cut."""
    y, results = operands[-1], []
    for chunks in chunkings(grid):
        y[...] = np.nan
        assert call(kernel, operands, args, grid, scratch, chunks=chunks) == 0
        results.append(y.copy())
    for result in results[1:]:
        np.testing.assert_array_equal(result.view(np.uint32), results[0].view(np.uint32))
    return results[0]
