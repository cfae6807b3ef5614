"""The report of a compilation: what the compiler did, and what it did not optimize and why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper

import graphwright as gw
from tests.onnx_models import model_proto


def _model() -> bytes:
    """Two matrix products, one behind an activation, one before a division."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "first"),
        helper.make_node("Relu", ["h"], ["r"], "act"),
        helper.make_node("MatMul", ["r", "w"], ["y"], "second"),
        helper.make_node("Div", ["y", "three"], ["z"], "third"),
    ]
    weights = {"w": np.eye(8, dtype=np.float32), "three": np.float32(3)}
    return bytes(model_proto(nodes, {"x": ["N", 8]}, {"z": ["N", 8]}, weights).SerializeToString())


def test_a_report_names_kernels_and_reasons_and_is_kept_in_the_package(tmp_path: Path) -> None:
    model = gw.compile(_model())
    report = model.report()
    assert "fuse: joined nodes 2, regions 2" in report
    assert "1 gw_gemm_f32_packed\n" in report and "1 gw_gemm_f32_packed with matmul_div_hook_0" in report
    assert "in Python: nothing" in report
    assert "third: x / 2**k: the divisor is not a power of two" in report
    model.save(tmp_path / "m.om")
    assert gw.load(tmp_path / "m.om").report() == report


def test_long_names_are_shortened_and_reasons_are_not() -> None:
    b = gw.GraphBuilder()
    x, scope = b.input("x", "f32", ("N", 8)), "model.encoder.layer.0.attention.self.projection." * 2
    h = b.relu(b.matmul(x, np.eye(8, dtype=np.float32), name=f"{scope}first"), name=f"{scope}act")
    b.output("y", b.softmax(b.mul(h, h, name=f"{scope}square"), name=f"{scope}classes"))
    (line,) = (line for line in b.compile().report().splitlines() if "stores tiles" in line)
    assert "a reduction needs whole rows; the contraction stores tiles [FUSE_EPILOGUE_REDUCTION]" in line
    assert len(line) < 300
