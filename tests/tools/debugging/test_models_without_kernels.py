"""``debug bisect`` of models that run without kernels."""

from __future__ import annotations

from pathlib import Path

import onnx

from tests.tools.support import graphwright


def test_no_pass_is_wrong_if_the_host_computes_everything(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]> g (string[3] x, bool[3] c) => (string[] y, string[] z)
        { y, n = StringSplit <delimiter = ","> (x) z = Compress (x, c) }"""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    assert "this is within" in graphwright("debug", "bisect", path).stdout
