"""Commands that compare with an evaluation in f64, on a model that allows 8 bits for an operand."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.tools.support import graphwright


@pytest.fixture
def model() -> str:
    """MatMulNBits at accuracy level 4, and a Tanh that is fused with it."""
    rng = np.random.default_rng(0)
    codes = numpy_helper.from_array(rng.integers(0, 256, (40, 4, 16), dtype=np.uint8), "codes")
    scales = numpy_helper.from_array(rng.uniform(0.01, 0.02, 160).astype(np.float32), "scales")
    attributes = {"K": 128, "N": 40, "bits": 4, "block_size": 32, "accuracy_level": 4}
    nodes = [
        helper.make_node(
            "MatMulNBits", ["x", "codes", "scales"], ["z"], domain="com.microsoft", **attributes
        ),
        helper.make_node("Tanh", ["z"], ["y"]),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, size])
        for name, size in (("x", 128), ("y", 40))
    )
    graph = helper.make_graph(nodes, "g", [x], [y], [codes, scales])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "m.onnx")
    return "m.onnx"


def test_check_has_no_default_tolerance(model: str) -> None:
    result = graphwright("check", model)
    assert result.exit_code == 0 and "there is no default tolerance" in result.stdout
    assert graphwright("check", model, "--tolerance", "1e-4").exit_code == 1
    assert "within 0.0001" in graphwright("check", model, "--numerics", "strict").stdout


def test_bisect_blames_no_kernel(model: str) -> None:
    output = graphwright("debug", "bisect", model).stdout
    assert "each of 1 step is right on its own operands" in output and "MatMulNBits" in output
