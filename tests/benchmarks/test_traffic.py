"""Bytes that a run reads and writes, as ``benchmarks.fusion.traffic`` counts them."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper, parser

from benchmarks.fusion.traffic import Row, row_of

ROWS, DEPTH, COLUMNS = 5, 7, 11
GRAPH = f"(float[{ROWS},{DEPTH}] x) => (float[{ROWS},{COLUMNS}] y) {{ p = MatMul(x, w) y = Relu(p) }}"


def test_bytes_of_a_product_and_its_epilogue() -> None:
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> g {GRAPH}')
    model.graph.initializer.append(numpy_helper.from_array(np.ones((DEPTH, COLUMNS), np.float32), "w"))
    read, written = 4 * ROWS * DEPTH, 4 * ROWS * COLUMNS
    assert row_of("m", model, {}) == Row("m", read + 3 * written, read + written, read + written)
