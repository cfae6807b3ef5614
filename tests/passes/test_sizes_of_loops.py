"""Sizes that only a loop or a branch defines, used by nodes that do not read its results."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import graphwright as gw

LOOP = """long = Loop ({trips}, , x) <body = b (int64 i, bool go, float[p] v) => (bool on, float[q] w) {{
    w = Concat <axis = 0> (v, x)
    on = Identity (go)
}}>"""
LONG = {
    "trips that are an input": (LOOP.format(trips="n"), lambda n: n + 1),
    "two trips": (LOOP.format(trips="two"), lambda n: 3),
    "one trip": (LOOP.format(trips="one"), lambda n: 2),
    "no trip": (LOOP.format(trips="zero"), lambda n: 1),
    "rows until a condition": (
        """yes = Equal (one, one)
        last, rows = Loop (, yes, x) <
            body = b (int64 i, bool go, float[N] v) => (bool on, float[N] w, float[N] v) {
                w = Abs (v)
                on = Less (i, two)
            }>
        flat = Constant <value_ints = [-1]> ()
        long = Reshape (rows, flat)""",
        lambda n: 3,
    ),
    "a branch that the size of the input selects": (
        """count = Size (x)
        some = Greater (count, zero)
        long = If (some) <
            then_branch = t () => (float[p] t) { t = Concat <axis = 0> (x, x, x) },
            else_branch = e () => (float[q] e) { e = Identity (x) }>""",
        lambda n: 3,
    ),
}
"""The nodes that make ``long`` from x, and the number of copies of x in it."""
USES = {
    "an Expand": ("y = Expand (half, size)", lambda length: np.full(length, 0.5, np.float32)),
    "a Range": (
        "length = Squeeze (size) r = Range (zero, length, one) y = Cast <to = 1> (r)",
        lambda length: np.arange(length, dtype=np.float32),
    ),
    "a Split": (
        "unused, y = Split <axis = 0, num_outputs = 2> (long)",
        lambda length: np.tile([1, 2, 3], length)[-(-length // 2) : length].astype(np.float32),
    ),
    "a loop": (
        """begin = Expand (half, size)
        y = Loop (two, , begin) <body = c (int64 i, bool go, float[p] v) => (bool on, float[q] w) {
            more = Expand (half, size)
            w = Add (v, more)
            on = Identity (go)
        }>""",
        lambda length: np.full(length, 1.5, np.float32),
    ),
}
"""The nodes that use the size of ``long``, and their result for a length."""


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("long", LONG)
def test_sizes_are_kept_for_their_uses(long: str, use: str) -> None:
    (makes, copies), (uses, expected) = LONG[long], USES[use]
    text = f"""
    <ir_version: 8, opset_import: ["" : 18]>
    g (float[N] x, int64 n) => (float[m] y)
    <float[1] half = {{0.5}}, int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}> {{
        {makes}
        size = Shape (long)
        {uses}
    }}"""
    model, x = gw.compile(onnx.parser.parse_model(text)), np.array([1, 2, 3], np.float32)
    for n in (0, 2):
        y: Any = model(x, np.array(n))[0]
        np.testing.assert_array_equal(y, expected(3 * copies(n)))


BODIES = {
    "its size": "size = Shape (v) r = Expand (half, size)",
    "its size, in a branch": """size = Shape (v) some = Greater (i, minus) r = If (some) <
            then_branch = t () => (float[p] t) { t = Expand (half, size) },
            else_branch = e () => (float[q] e) { e = Neg (x) }>""",
    "the size of what it selects": """all = Greater (v, zeros) kept = Compress <axis = 0> (v, all)
        size = Shape (kept) r = Expand (half, size)""",
}
"""Nodes that read the carried value ``v`` for a size only."""


@pytest.mark.parametrize("body", BODIES)
def test_values_carried_for_their_size_stay(body: str) -> None:
    text = f"""
    <ir_version: 8, opset_import: ["" : 18]>
    g (float[N] x, int64 n) => (float[m] y)
    <float[1] half = {{0.5}}, float zeros = {{0}}, int64 minus = {{-1}}> {{
        unused, y = Loop (n, , x, x) <
            body = b (int64 i, bool go, float[p] v, float[q] u) => (bool on, float[s] w, float[r] r) {{
                w = Concat <axis = 0> (v, x)
                {BODIES[body]}
                on = Identity (go)
            }}>
    }}"""
    model, x = gw.compile(onnx.parser.parse_model(text)), np.array([1, 2, 3], np.float32)
    for n in (0, 1, 3):
        y: Any = model(x, np.array(n))[0]
        np.testing.assert_array_equal(y, np.full(3 * n, 0.5, np.float32) if n else x)
