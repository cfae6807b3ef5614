"""Edge cases of regions that load and store elements at moved positions, without a copy."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import graphwright as gw


@pytest.mark.parametrize(
    "body",
    [
        "s = Slice (x, two, three, zero) q = Squeeze (s, zero) z = Exp (q)",
        "e = Exp (x) s = Slice (e, two, three, zero) q = Squeeze (s, zero) z = Log (q)",
    ],
)
def test_one_element_of_a_vector_has_no_lanes(body: str) -> None:
    text = f"""
        <ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float z)
        <int64[1] two = {{2}}, int64[1] three = {{3}}, int64[1] zero = {{0}}> {{ {body} }}"""
    x = np.array([0.5, 1, 1.5, 2], np.float32)
    (z,) = gw.compile(onnx.parser.parse_model(text))(x)
    np.testing.assert_allclose(z, np.exp(x[2]) if "Log" not in body else x[2], rtol=1e-6)


@pytest.mark.parametrize("columns", [0, 1, 3])
def test_a_reshaped_operand_that_others_read_is_stored_without_iterations(columns: int) -> None:
    """A loop over the columns of ``s`` does not store the one element of ``u`` if there are no columns."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[A] x, float[B] y) => (float[] s, float[] t)
        <int64[1] zero = {0}, int64[2] flat = {1, -1}>
        { u = Unsqueeze (x, zero) v = Unsqueeze (y, zero) s = Add (u, v)
          d = Add (u, u) r = Reshape (d, flat) t = Add (r, r) }"""
    model = gw.compile(onnx.parser.parse_model(text))
    y = np.ones(columns, np.float32)
    for x in (2, 5):
        s, t = model(np.array([x], np.float32), y)
        np.testing.assert_array_equal(s, x + y[None])
        np.testing.assert_array_equal(t, [[4 * x]])


def test_the_result_of_a_matrix_multiplication_beside_a_reshaped_operand() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> 
        g (float[2,C,1] x, float[C] b) => (float[] y, float[] z) <int64[1] zero = {0}>
        { v = Unsqueeze (b, zero) w = MatMul (x, x) z = Add (w, v) y = Mul (w, w) }"""
    y, z = gw.compile(onnx.parser.parse_model(text))(
        np.full((2, 1, 1), 3, np.float32), np.ones(1, np.float32)
    )
    np.testing.assert_array_equal(y, np.full((2, 1, 1), 81))
    np.testing.assert_array_equal(z, np.full((2, 1, 1), 10))
