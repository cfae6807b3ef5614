"""Models in which likely equalities of sizes contradict each other, or what the model requires: they are
assumed again without these, and shapes that violate an assumption run in another form.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import graphwright as gw

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def compiled(inputs: str, outputs: str, body: str) -> gw.Model:
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => ({outputs})
    <float[3] c3 = {{1,2,3}}, float[5] c5 = {{1,2,3,4,5}}, float[1,4] row = {{1,2,3,4}},
      float[1,2] c2 = {{3,4}}>
    {{ {body} }}"""
    return gw.compile(onnx.parser.parse_model(text))


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


C3, C5, ROW = floats(1, 2, 3), floats(1, 2, 3, 4, 5), floats(1, 2, 3, 4)


def test_a_dynamic_size_that_two_constants_broadcast() -> None:
    model = compiled("float[A] x", "float[] s, float[] t", "s = Add (x, c3) t = Add (x, c5)")
    s, t = model(floats(2))
    np.testing.assert_array_equal(s, C3 + 2)
    np.testing.assert_array_equal(t, C5 + 2)
    with pytest.raises(gw.GraphwrightError, match="3 and 5 differ"):
        model(C3)


def test_a_data_dependent_size_that_two_constants_broadcast() -> None:
    body = "i = NonZero (x) f = Cast <to = 1> (i) s = Add (f, c3) t = Add (f, c5)"
    model = compiled("float[A] x", "float[] s, float[] t", body)
    s, t = model(floats(0, 0, 1))
    np.testing.assert_array_equal(s, C3[None] + 2)
    np.testing.assert_array_equal(t, C5[None] + 2)


@pytest.mark.parametrize("found", ["", "i = NonZero (v) f = Cast <to = 1> (i) x = Flatten <axis = 0> (f)"])
def test_a_broadcast_size_that_a_multiplication_requires_to_be_one(found: str) -> None:
    given = "float[A] v" if found else "float[A] x"
    model = compiled(given, "float[] s, float[] t", f"{found} s = Add (x, c3) t = MatMul (x, row)")
    s, t = model(floats(0, 7) if found else floats(1))
    np.testing.assert_array_equal(s.ravel(), C3 + 1)
    np.testing.assert_array_equal(t.ravel(), ROW)


@pytest.mark.parametrize(
    ("x", "y"),
    [(floats(5, 6), floats(1)), (floats(5), floats(1, 2)), (floats(5), floats(1)), (floats(), floats())],
)
def test_two_sizes_that_are_equal_and_twice_each_other(x: Array, y: Array) -> None:
    body = "s = Add (x, y) yy = Concat <axis = 0> (y, y) t = Add (x, yy)"
    model = compiled("float[A] x, float[B] y", "float[] s, float[] t", body)
    s, t = model(x, y)
    np.testing.assert_array_equal(s, x + y)
    np.testing.assert_array_equal(t, x + np.concatenate([y, y]))


@pytest.mark.parametrize(
    ("x", "y"), [(floats(0, 2), floats(1, 1)), (floats(1, 1), floats(0, 2)), (C3[:2], C3[:2])]
)
def test_a_requirement_of_an_assumed_size_is_checked_after_the_assumption(x: Array, y: Array) -> None:
    body = """i = NonZero (x) f = Cast <to = 1> (i) j = NonZero (y) g = Cast <to = 1> (j)
        s = Max (f, g) u = Transpose (s) t = MatMul (c2, u)"""
    model = compiled("float[A] x, float[B] y", "float[] s, float[] t", body)
    s, t = model(x, y)
    expected = np.maximum(np.flatnonzero(x), np.flatnonzero(y))
    np.testing.assert_array_equal(s, expected[None])
    np.testing.assert_array_equal(t, [[floats(3, 4) @ expected]])


@pytest.mark.parametrize("columns", [0, 1])
def test_a_broadcast_size_that_a_concatenation_requires_to_be_at_most_one(columns: int) -> None:
    body = """s = Sub (x, y) h = Slice (x, from, to, axis, two) t = Concat <axis = 0> (h, x)"""
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[A,C] x, float[2] y) => (float[] s, float[] t)
    <int64[1] from = {{0}}, int64[1] to = {{99}}, int64[1] axis = {{1}}, int64[1] two = {{2}}> {{ {body} }}"""
    x = np.full((3, columns), 5, np.float32)
    if columns:
        s, t = gw.compile(onnx.parser.parse_model(text))(x, floats(1, 2))
        np.testing.assert_array_equal(s, x - floats(1, 2))
        np.testing.assert_array_equal(t, np.concatenate([x, x]))
    else:
        with pytest.raises(gw.GraphwrightError, match=r"2 and 0 differ|0 and 2 differ"):
            gw.compile(onnx.parser.parse_model(text))(x, floats(1, 2))


@pytest.mark.parametrize(("rows", "columns"), [(1, 4), (1, 1)])
def test_equal_sizes_of_an_image_and_its_transpose_that_two_other_sizes_contradict(
    rows: int, columns: int
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,C,1,A] x) => (float[] y)
    <int64 first = {0}> { t = Transpose <perm = [2, 3, 0, 1]> (x) s = Add (x, t)
      g = Gather <axis = 3> (x, first) m = Min (x, g) c = Concat <axis = 0> (g, g) y = Sub (c, s) }"""
    x = np.arange(2 * rows * columns, dtype=np.float32).reshape(2, rows, 1, columns)
    gathered = x[..., 0]
    (y,) = gw.compile(onnx.parser.parse_model(text))(x)
    np.testing.assert_array_equal(y, np.concatenate([gathered] * 2) - (x + x.transpose(2, 3, 0, 1)))


def test_an_assumption_about_a_part_that_is_larger_than_the_whole() -> None:
    """``r`` broadcasts half of at most three indices with six columns: the half has one index, never six."""
    text = """<ir_version: 9, opset_import: ["" : 18]>
        g (float[3] x, float[2,12] w, float[3,6] e) => (float[] r)
        { nz = NonZero (x) p, q = Split <axis = 1, num_outputs = 2> (nz)
          some = GatherElements <axis = 1> (w, q) r = Mean (some, e) }"""
    model = gw.compile(onnx.parser.parse_model(text))
    w = np.arange(24, dtype=np.float32).reshape(2, 12)
    e = np.arange(18, dtype=np.float32).reshape(3, 6)
    (r,) = model(floats(0, 5, 7), w, e)
    np.testing.assert_allclose(r, (w[0, 2] + e) / 2)
    with pytest.raises(gw.GraphwrightError):
        model(floats(0, 0, 0), w[:, :0], e[:2])
