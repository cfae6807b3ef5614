"""Resize of any axes as models of fixed sizes, compiled, against its reference."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.inference.infer import evaluate
from graphwright.ops.nn.resize import Resize
from tests.kernels.library.harness import RUNNABLE

SIZES = st.tuples(*[st.integers(1, 3)] * 2, *[st.sampled_from([1, 2, 5, 17])] * 3)


@settings(max_examples=30, deadline=None)
@given(
    mode=st.sampled_from(["linear", "cubic", "nearest"]),
    coordinates=st.sampled_from(["half_pixel", "align_corners", "asymmetric"]),
    size=SIZES,
    result=st.tuples(*[st.sampled_from([1, 3, 8, 33])] * 3),
    antialias=st.booleans(),
    isa=st.sampled_from([isa.name for isa in RUNNABLE]),
)
@example("linear", "half_pixel", (1, 2, 17, 17, 17), (8, 33, 33), False, "v3")
@example("linear", "half_pixel", (1, 2, 2, 17, 17), (8, 33, 33), False, "v3")
@example("cubic", "half_pixel", (1, 2, 17, 17, 17), (3, 8, 8), True, "v3")
def test_resize_of_volumes_of_any_size(
    mode: str,
    coordinates: str,
    size: tuple[int, ...],
    result: tuple[int, ...],
    antialias: bool,
    isa: str,
) -> None:
    """One kernel resizes the last two axes where possible, before or after the first axis."""
    smooth = antialias and mode != "nearest"
    op = Resize(mode, coordinates, sizes=(*size[:2], *result), antialias=smooth)
    x = np.random.default_rng(sum(size)).standard_normal(size).astype(np.float32)
    (expected,) = evaluate(op, (x,))
    b = gw.GraphBuilder()
    b.output("y", b(op, b.input("x", "f32", list(size))))
    results = [np.asarray(b.compile(Options(isa=isa, threads=n))(x)[0]) for n in (1, 3)]
    np.testing.assert_allclose(results[0], expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(results[0].view(np.uint32), results[1].view(np.uint32))
