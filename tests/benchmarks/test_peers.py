"""Comparisons with peers: the results file, the machine's limits, the competing process, the chart."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.figures import Work
from benchmarks.models import MODELS
from benchmarks.neighbor import busy
from benchmarks.peers import compare, summary
from benchmarks.roofline import Roofline
from graphwright.tools.machine import usable_cores
from graphwright.tools.measuring.bench import Measured


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    peers = ["onnxruntime", "inductor"]
    return compare(MODELS["ppocr_cls"], peers, threads=1, rounds=3, round_seconds=0.005)


def test_a_results_file_says_who_was_measured_and_who_not(made: dict[str, Any]) -> None:
    assert made["engines"].keys() == {"graphwright", "onnxruntime"}
    assert all(len(engine["rounds_ns"]) == 3 for engine in made["engines"].values())
    assert made["refused"].keys() == {"inductor"}
    assert made["ratios"]["onnxruntime"]["low"] <= made["ratios"]["onnxruntime"]["high"]
    assert made["busy"] is False
    assert "without inductor: " in summary(made)


def test_the_limit_is_below_every_engine(made: dict[str, Any]) -> None:
    limit = made["roofline"]
    assert 1 < limit["gflops"] < 10_000
    assert limit["flops"] == 32_630_752
    assert 0 < limit["shares"]["onnxruntime"]["median"] < 1


def test_the_limit_is_the_longer_of_arithmetic_and_traffic() -> None:
    roofline = Roofline(Work(flops=100, bytes=40), threads=1)
    roofline.gflops, roofline.gbps = [10.0, 10.0], [10.0, 2.0]
    assert roofline.nanoseconds == [10.0, 20.0]
    measured = Measured("one", "", 0, 0, rounds=[[40, 20, 99], [40]])
    found = roofline.record({"one": measured})
    assert found["shares"]["one"]["median"] == pytest.approx((0.25 + 0.5) / 2)
    assert found["ns"] == 15.0


def test_a_sample_measures_all_cores() -> None:
    affinity = os.sched_getaffinity(0)
    roofline = Roofline(Work(1, 1), threads=len(affinity))
    roofline.sample()
    assert roofline.gflops[0] > 0 and roofline.gbps[0] > 0
    assert os.sched_getaffinity(0) == affinity


def test_a_neighbor_computes_on_its_core_and_ends() -> None:
    (core,) = usable_cores(1)
    before = children()
    with busy(core):
        (process,) = children() - before
        assert os.sched_getaffinity(process) == {core}
        begun = processor_time(process)
        time.sleep(0.3)
        assert processor_time(process) > begun
    assert process not in children()


def children() -> set[int]:
    tasks = Path(f"/proc/{os.getpid()}/task")
    return {int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()}


def processor_time(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_chart_for_each_setting(made: dict[str, Any], tmp_path: Path) -> None:
    chart = pytest.importorskip("benchmarks.chart", reason="matplotlib is not installed")
    figure = chart.draw([made], "1 thread")
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["ppocr_cls"]
    assert len(axes.patches) == 1
    figure.savefig(tmp_path / "ratios.png")
    assert (tmp_path / "ratios.png").stat().st_size > 1000


def test_an_unknown_model_is_an_error_that_lists_the_models() -> None:
    command = [sys.executable, "-m", "benchmarks.peers", "no_such_model"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "invalid choice: 'no_such_model'" in done.stderr
