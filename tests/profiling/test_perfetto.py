"""Traces as Perfetto's own importer reads them: nothing is lost, and the numbers are those of the profile."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import graphwright as gw
from tests.profiling.perfetto import imported
from tests.view.browser import browser_path

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[64, 64] x, float[64, 64] w) => (float[64, 64] y) { h = MatMul (x, w) r = Relu (h) y = Softmax (r) }
"""
RUNS = 3


@pytest.mark.skipif(browser_path() is None, reason="no Chromium is installed")
def test_perfetto_reads_a_trace(tmp_path: Path) -> None:
    model, x = gw.compile(parser.parse_model(MODEL), options={"threads": 1}), np.ones((64, 64), np.float32)
    with gw.profile() as p:
        for _ in range(RUNS):
            model(x, x)
    p.chrome_trace(tmp_path / "trace.json")
    with imported(tmp_path / "trace.json", tmp_path) as trace:
        wrong = trace.query("select name, value from stats where severity != 'info' and value > 0")
        slices = Counter(dict(trace.query("select name, count(*) from slice group by name")))
        ((begun, ended),) = trace.query("select min(dur), max(dur) from slice where name = 'run'")
        ((flows,),) = trace.query("select count(*) from flow")
        counters = {name for (name,) in trace.query("select distinct name from counter_track")}
    assert wrong == []
    assert slices["run"] == RUNS and slices["MatMul:h + Relu:r"] == RUNS and slices["Softmax:y"] == RUNS
    runs = p.events.whole_runs()
    times = runs["end"] - runs["start"]
    assert abs(begun - times.min()) <= 1000 and abs(ended - times.max()) <= 1000  # Chrome's unit is 1 us
    assert flows == RUNS  # the softmax waits for the product
    assert any("arena" in name for name in counters)
