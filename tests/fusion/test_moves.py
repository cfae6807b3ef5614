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
