"""Two runs of a model, value by value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from benchmarks.planted_faults.models import MODELS
from tests.tools.support import graphwright


@pytest.mark.parametrize("engine", ["graphwright", "onnxruntime", "fp64"])
@pytest.mark.parametrize("model", ["convolutions", "residuals"])
def test_equal_models_agree(engine: str, model: str) -> None:
    onnx.save(MODELS[model](), "m.onnx")
    assert graphwright("compile", "m.onnx", "-o", "m.om").exit_code == 0
    result = graphwright("debug", "compare", "m.om", "m.onnx", "--with", engine)
    assert result.exit_code == 0, result.output
    assert "1 output and" in result.stdout and "all are within 0.0001" in result.stdout


@pytest.mark.parametrize("engine", ["graphwright", "onnxruntime", "fp64"])
def test_the_first_value_that_differs_is_named(engine: str) -> None:
    proto = MODELS["residuals"]()
    onnx.save(proto, "m.onnx")
    (weight,) = (tensor for tensor in proto.graph.initializer if tensor.name == "w3")
    changed = numpy_helper.to_array(weight) * np.float32(1.01)
    weight.CopyFrom(numpy_helper.from_array(changed, "w3"))  # the weights of node c
    onnx.save(proto, "changed.onnx")
    result = graphwright("debug", "compare", "m.onnx", "changed.onnx", "--with", engine, "--all")
    assert result.exit_code == 1 and "c is the first value with an error above 0.0001" in result.stdout
    (row,) = (line for line in result.stdout.splitlines() if line.split()[:2] == ["c", "float32[16,"])
    assert abs(float(row.split()[-1]) - 0.01 / 1.01) < 1e-5


def test_wrong_usage_is_an_error(tmp_path: Path) -> None:
    onnx.save(MODELS["residuals"](), "m.onnx")
    graphwright("compile", "m.onnx", "-o", "m.om")
    assert graphwright("debug", "compare", "m.onnx", "m.onnx", "--with", "magic").exit_code == 2
    result = graphwright("debug", "compare", "m.onnx", "m.om", "--with", "onnxruntime")
    assert result.exit_code == 2 and "not packages" in result.stderr
