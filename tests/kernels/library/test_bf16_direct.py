"""Direct convolution in bf16 against float64 of rounded operands, with and without the instruction."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.kernels.conv import bf16_direct
from graphwright.layout.transform import pack
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import chunkings, each_isa, guard
from tests.kernels.library.direct_conv import Direct, operands
from tests.kernels.library.harness import load
from tests.kernels.library.windows import WINDOWS, Window, normal, reference

BF16 = np.dtype(ml_dtypes.bfloat16)


def rounded(x: Any) -> Any:
    return x.astype(BF16).astype(np.float32)


class InPairs(Direct):
    """The kernel in bf16 on the operands of the one in f32."""

    def __init__(
        self, isa: Isa, x: Any, w: Any, *rest: Any, name: str = bf16_direct.SYMBOL, **more: Any
    ) -> None:
        super().__init__(isa, x, w, *rest, **more)
        packed = np.zeros(bf16_direct.packed_shape(w.shape, isa), BF16)
        bf16_direct.pack_weights(packed, w.astype(BF16), isa)
        self.operands[1] = guard(packed)
        self.kernel = load(bf16_direct, isa)[name]
        self.grid = bf16_direct.grid(isa, self.args)
        self.scratch = bf16_direct.scratch_bytes(isa, self.args)


def near(actual: Any, expected: Any, sums: Any = None) -> None:
    """``sums``: the results before the activation, by whose size the rounding errors are measured."""
    size = np.abs(expected if sums is None else sums).max(initial=1.0)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-5 * size)


@each_isa
@settings(max_examples=60, deadline=None)
@given(
    window=WINDOWS, n=st.integers(0, 2), cin=st.sampled_from([0, 2, 4, 8, 16, 18, 32, 38]),
    cout=st.sampled_from([1, 3, 8, 16, 17, 24, 33, 70]), h=st.integers(1, 19), w=st.integers(1, 40),
    bias=st.booleans(), act=st.integers(0, 2), residual=st.booleans(),
)  # fmt: skip
@example(Window((1, 1)), 1, 18, 33, 19, 19, True, 1, True)
@example(Window((1, 1), (2, 2)), 2, 34, 33, 14, 14, True, 1, True)
@example(Window((3, 3), (1, 1), (1, 1, 1, 1)), 1, 64, 33, 7, 7, True, 1, True)
@example(Window((3, 3), (2, 2), (1, 1, 1, 1)), 1, 8, 64, 13, 13, True, 2, False)
@example(Window((3, 4), (3, 3), (1, 2, 1, 2)), 1, 20, 70, 9, 29, True, 1, True)
def test_matches_float64(
    isa: Isa,
    window: Window,
    n: int,
    cin: int,
    cout: int,
    h: int,
    w: int,
    bias: bool,
    act: int,
    residual: bool,
) -> None:
    oh, ow = window.output(h, w)
    if min(oh, ow) < 1:
        return
    rng = np.random.default_rng(h * w)
    x, weights, shift = operands(rng, n, 1, cin, cout, h, w, window)
    added = normal(rng, n, cout, oh, ow) if residual else None
    low, high = (0.0, 0.0) if act < 2 else (-0.5, 1.5)
    expected = reference(rounded(x), rounded(weights), shift if bias else None, 1, window, 0)
    sums = expected if added is None else expected + added
    expected = (sums, np.maximum(sums, 0), np.clip(sums, low, high))[act]
    for name in (bf16_direct.SYMBOL, bf16_direct.WIDE):
        made = InPairs(
            isa, x, weights, shift if bias else None, 1, window, residual=added, act=act, lo=low, hi=high,
            name=name,
        )  # fmt: skip
        near(made.run(), expected, sums)


@each_isa
@pytest.mark.parametrize("into_planes", [False, True])
def test_many_channels_wait_in_scratch_and_any_chunking_gives_the_same_bits(
    isa: Isa, into_planes: bool
) -> None:
    rng, window = np.random.default_rng(1), Window((3, 3), (1, 1), (1, 1, 1, 1))
    x, weights, shift = operands(rng, 1, 1, 320, 40, 9, 11, window)
    made = InPairs(isa, x, weights, shift, 1, window, into_planes=into_planes)
    whole = made.run()
    near(whole, reference(rounded(x), rounded(weights), shift, 1, window, 0))
    for chunks in chunkings(made.grid):
        np.testing.assert_array_equal(made.run(chunks), whole)


@each_isa
def test_the_hook_receives_the_tiles(isa: Isa) -> None:
    rng, window = np.random.default_rng(2), Window((1, 1))
    x, weights, shift = operands(rng, 2, 1, 64, 40, 5, 7, window)
    made = InPairs(isa, x, weights, shift, 1, window)
    near(made.run_hooked(), 3 * reference(rounded(x), rounded(weights), shift, 1, window, 0) + 1)


@each_isa
def test_packing_is_the_layout_of_whole_blocks(isa: Isa) -> None:
    rng = np.random.default_rng(3)
    w = normal(rng, 21, 4 * isa.lanes, 3, 2).astype(BF16)
    packed = np.zeros(bf16_direct.packed_shape(w.shape, isa), BF16)
    bf16_direct.pack_weights(packed, w, isa)
    view = w.reshape(bf16_direct.weights_view(w.shape, isa))
    laid = pack(view, bf16_direct.weights_layout(isa))
    np.testing.assert_array_equal(laid.reshape(packed.shape).view(np.uint16), packed.view(np.uint16))
