"""Sums of random convolutions of one image: the merged convolution computes the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Module
from graphwright.ir.text import parse_module
from graphwright.passes.base import Record
from graphwright.passes.infer_shapes import InferShapes
from graphwright.passes.manager import run_passes
from graphwright.passes.merge_conv_branches import MERGE_CONV_BRANCHES

BRANCHES = st.tuples(st.integers(1, 5), st.integers(0, 4), st.integers(1, 2))
"""The taps of a branch, its leading pad, and its dilation."""
SIZE = 9


def _module(
    branches: tuple[tuple[int, int, int], ...], stride: int, group: int, with_image: bool
) -> Module | None:
    """A sum and difference of convolutions along one axis, and of the normalized image."""
    count = (SIZE - 1) // stride + 1
    rng, lines, names = np.random.default_rng(len(branches) + stride), [], []
    text = "module {\n"
    for k, (taps, before, dilation) in enumerate(branches):
        after = (count - 1) * stride + (taps - 1) * dilation + 1 - SIZE - before
        if after < 0:
            return None
        numbers = ", ".join(f"{x:.4f}" for x in rng.standard_normal(4 * (4 // group) * taps))
        text += f"  constant #w{k}: f32[4, {4 // group}, {taps}] = [{numbers}]\n"
        attributes = f"strides=({stride},), pads=({before}, {after}), dilations=({dilation},), group={group}"
        lines.append(f"%w{k} = Constant[value=#w{k}]: f32[4, {4 // group}, {taps}]")
        lines.append(f"%c{k} = Conv[{attributes}](%x, %w{k}): f32[2, 4, {count}]")
        names.append(f"%c{k}")
    if with_image and stride == 1:
        text += "  constant #v: f32[4] = [1.5, 0.5, 2.0, 1.0]\n"
        lines.append("%v = Constant[value=#v]: f32[4]")
        lines.append("%n = BatchNormalization(%x, %v, %v, %v, %v): f32[2, 4, 9]")
        names.append("%n")
    total = names[0]
    for k, name in enumerate(names[1:]):
        lines.append(f"%s{k} = {'Sub' if k % 2 else 'Add'}({total}, {name}): f32[2, 4, {count}]")
        total = f"%s{k}"
    body = "\n".join(f"    {line}" for line in lines)
    return parse_module(f"{text}  graph main(%x: f32[2, 4, 9]) {{\n{body}\n    return {total}\n  }}\n}}")


@settings(max_examples=150, deadline=None)
@given(
    branches=st.lists(BRANCHES, min_size=2, max_size=4).map(tuple),
    stride=st.integers(1, 2), group=st.sampled_from([1, 2, 4]), with_image=st.booleans(),
)  # fmt: skip
def test_merging_branches_keeps_the_sum(
    branches: tuple[tuple[int, int, int], ...], stride: int, group: int, with_image: bool
) -> None:
    before, after = (_module(branches, stride, group, with_image) for _ in range(2))
    if before is None or after is None:
        return
    run_passes(after, InferShapes(), MERGE_CONV_BRANCHES)
    x = np.random.default_rng(0).standard_normal((2, 4, SIZE)).astype(np.float32)
    (expected,), (actual,) = evaluate_module(before, [x]), evaluate_module(after, [x])
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_branches_of_a_block_become_one_convolution() -> None:
    module = _module(((1, 0, 1), (3, 1, 1), (5, 2, 1), (3, 1, 1)), 1, 2, with_image=True)
    assert module is not None
    run_passes(module, InferShapes())
    assert MERGE_CONV_BRANCHES.run(module, Record("merge"))
    assert [node.op.name for node in module.main if not node.is_constant] == ["Conv"]
