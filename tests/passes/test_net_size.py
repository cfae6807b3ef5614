"""Folding neither enlarges files much, nor leaves computations of constants to each run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

import graphwright as gw
from graphwright.ops.core.tile import Tile
from graphwright.passes.dead_code import DeadCode
from graphwright.passes.fold_constants import MIB, FoldConstants
from graphwright.passes.manager import run_passes
from tests.onnx_models import model_proto

from .support import op_names

SIZES = (1024, 1536)
KIB = 1024


def _filled() -> onnx.ModelProto:
    """``y = relu(x @ full((1024, 1536), 0.125)) + full(...)``, weights as ConstantOfShape and Expand."""
    value = numpy_helper.from_array(np.array([0.25], np.float32))
    nodes = [
        helper.make_node("ConstantOfShape", ["sizes"], ["filled"], value=value),
        helper.make_node("Mul", ["filled", "half"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Expand", ["one", "sizes"], ["ones"]),
        helper.make_node("Transpose", ["ones"], ["turned"]),
        helper.make_node("MatMul", ["h", "turned"], ["y"]),
    ]
    constants = {"sizes": np.array(SIZES), "half": np.float32(0.5), "one": np.ones((1, 1), np.float32)}
    return model_proto(nodes, {"x": [4, SIZES[0]]}, {"y": None}, constants)


def test_weights_that_repeat_one_number_take_no_space_in_the_file(tmp_path: Path) -> None:
    model = gw.compile(_filled())
    model.save(tmp_path / "m.om")
    assert (tmp_path / "m.om").stat().st_size < 100_000 < 12 * MIB <= model.package.weights.data.nbytes
    assert all(name not in model.entry.graph for name in ("ConstantOfShape", "Expand"))
    x = np.random.default_rng(0).standard_normal((4, SIZES[0]), np.float32)
    expected = np.repeat(x.astype(np.float64).sum(1, keepdims=True) * 0.125 * SIZES[1], SIZES[0], 1)
    for each in (model, gw.load(tmp_path / "m.om"), gw.load(tmp_path / "m.om", mmap=True)):
        np.testing.assert_allclose(each.run({"x": x})["y"], expected, rtol=1e-4, atol=1e-2)


def test_folding_stops_at_the_total_size_of_constants() -> None:
    """Each of these tiles alone would be folded."""
    builder = gw.GraphBuilder()
    for k in range(40):
        row = np.random.default_rng(k).standard_normal(25 * KIB, np.float32)
        builder.output(f"y{k}", builder(Tile((8,)), builder.constant(row)))
    module = builder.build()
    given = 40 * 100 * KIB
    record, _ = run_passes(module, FoldConstants(max_bytes=4 * MIB), DeadCode())
    held = sum(module.constants.stored(ref).nbytes for ref in module.constants)
    left = op_names(module).count("Tile")
    assert 0 < left < 40
    assert held <= 4 * given
    assert any("the constants may grow by only" in reason.why for reason in record.reasons)
