"""Programs of a library whose inputs have computed sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import parser

from graphwright.autofusion.autofuse import Request, autofuse
from graphwright.export.onnx import save_model
from tests.autofusion.test_library import with_library
from tests.export.peers import session

MODEL = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[past, 4] cache, float[new, 4] rows, float[total] mask)
        => (float[all, 4] y, float[both] z) <int64[1] one = {1}> {
        y = Concat <axis = 0> (cache, rows)
        sums = ReduceSum <keepdims = 0> (y, one)
        masked = Add (sums, mask)
        both = Concat <axis = 0> (masked, sums, masked)
        scaled = Tanh (both)
        z = Softmax <axis = 0> (scaled)
    }"""


@pytest.mark.parametrize(("past", "new", "total"), [(3, 2, 5), (3, 2, 1), (0, 1, 4), (1, 0, 1)])
def test_a_sum_of_sizes_is_the_size_of_an_input(past: int, new: int, total: int, tmp_path: Path) -> None:
    """The sum of ``past`` and ``new`` is a size of the second program, which gets neither of them."""
    source = parser.parse_model(MODEL)
    fused = autofuse(source, Request(library=True))
    assert fused.operator_library is not None
    assert not fused.operator_library.refused
    save_model(fused.model, tmp_path / "m.onnx")
    with (tmp_path / "m.so").open("wb") as file:
        fused.operator_library.write(file)
    rng = np.random.default_rng(1)
    feed = {
        "cache": rng.standard_normal((past, 4), np.float32),
        "rows": rng.standard_normal((new, 4), np.float32),
        "mask": rng.standard_normal(total, np.float32),
    }
    found = with_library(tmp_path / "m.onnx", tmp_path / "m.so").run(None, feed)
    for array, wanted in zip(found, session(source).run(None, feed), strict=True):
        np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-6)
