"""Operators of other domains in the programs of a library for ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from typer.testing import CliRunner

from graphwright.autofusion.autofuse import Request, autofuse
from graphwright.autofusion.onnxruntime import programs
from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.builtin.foreign import Foreign
from graphwright.ir.graph import Graph, Module
from graphwright.tools.graph_autofusion import app
from tests.autofusion.sessions import with_library
from tests.export.peers import session

WIDTH = 24


def model_of_other_domains() -> onnx.ModelProto:
    """Operators of ONNX Runtime and of ai.onnx.ml between standard ones, an absent operand, and one of two
    results.
    """
    graph = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "ai.onnx.ml" : 3]>
        g (float[n, {WIDTH}] x) => (float[n, {WIDTH}] y, float[n, {WIDTH}] z)
            <float[{WIDTH}, {WIDTH}] w, float[{WIDTH}] gain, float[{WIDTH}] bias> {{
            a = Mul (x, x)
            b = com.microsoft.QuickGelu <alpha = 1.5> (a)
            c = com.microsoft.FusedMatMul <transB = 1, alpha = 0.5> (b, w)
            d, mean, scale, sum = com.microsoft.SkipLayerNormalization <epsilon = 0.001> (c, x, gain, , bias)
            y = ai.onnx.ml.Scaler <offset = [0.5], scale = [2.0]> (d)
            z = Relu (sum)
        }}""")
    rng = np.random.default_rng(3)
    del graph.graph.initializer[:]
    for name, shape in (("w", (WIDTH, WIDTH)), ("gain", WIDTH), ("bias", WIDTH)):
        array = rng.standard_normal(shape).astype(np.float32)
        graph.graph.initializer.append(numpy_helper.from_array(array, name))
    return graph


@pytest.mark.parametrize("weights", ["original", "packed"])
def test_programs_contain_native_operators_of_other_domains(weights: str, tmp_path: Path) -> None:
    source = model_of_other_domains()
    fused = autofuse(source, Request(library=True))
    assert fused.operator_library is not None
    assert fused.operator_library.whole
    assert not fused.operator_library.outside
    names = {node.op_type for function in fused.model.proto.functions for node in function.node}
    assert {"QuickGelu", "FusedMatMul", "SkipLayerNormalization", "Scaler"} <= names
    path = tmp_path / "m.onnx"
    onnx.save(source, path)
    target = tmp_path / "out.onnx"
    given = ["--input", str(path), "--output", str(target), "--library", "--weights", weights]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    x = {"x": np.random.default_rng(4).standard_normal((5, WIDTH)).astype(np.float32)}
    expected = session(source).run(None, x)
    for found in (
        session(fused.model.with_weights()).run(None, x),
        with_library(target, tmp_path / "out.onnx.so").run(None, x),
    ):
        for array, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(array, wanted, rtol=1e-4, atol=1e-5)


def test_foreign_operators_stay_outside_if_a_program_with_them_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(module: Module, graph: Graph) -> None:
        if any(isinstance(node.op, Foreign) for node in graph):
            raise ModelError(Diagnostic("import", "refused here"))

    monkeypatch.setattr(programs, "translate_foreign", refuse)
    library = autofuse(model_of_other_domains(), Request(library=True)).operator_library
    assert library is not None
    assert not library.refused
    assert "com.microsoft.FusedMatMul" in library.outside


def test_an_unknown_operator_stays_outside_of_the_library() -> None:
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "com.example" : 3]>
        g (float[n, 4] x) => (float[n, 4] y) <float[n, 4] c> {
            a = Exp (x)
            b = Softmax (a)
            c = com.example.Whatever (b)
            d = Softmax (c)
            y = Tanh (d)
        }""")
    library = autofuse(source, Request(library=True)).operator_library
    assert library is not None
    assert library.outside == {"com.example.Whatever": "graphwright cannot run the operator in a program"}
