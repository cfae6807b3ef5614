"""``graphwright profile``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.profiling.trace_reader import read_trace

from .support import graphwright


def test_a_table_a_trace_and_a_page(model: Path, tmp_path: Path) -> None:
    files = "--trace", "trace.json", "--html", "page.html"
    result = graphwright("profile", model, "--shape", "x:8,4", "--runs", "3", "--threads", "1", *files)
    assert result.exit_code == 0, result.stderr
    head = result.stdout.splitlines()[0].split()
    assert head == [
        "kernel",
        "calls",
        "total",
        "self",
        "share",
        "GFLOP/s",
        "GB/s",
        "roofline",
        "read",
        "written",
    ]
    assert "3 runs in " in result.stdout and "wrote trace.json" in result.stderr
    runs = [s for s in read_trace(tmp_path / "trace.json").slices() if s.category == "run"]
    assert len(runs) == 3
    assert "3 runs in " in (tmp_path / "page.html").read_text()


def test_json_has_totals_and_rows(model: Path) -> None:
    command = "profile", model, "--shape", "x:8,4", "--runs", "2", "--group", "source", "--json"
    result = graphwright(*command)
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert (facts["format"], facts["runs"], facts["group"]) == (1, 2, "source")
    assert facts["totals"]["runs"] == 2 and facts["totals"]["lost"] == 0
    assert sum(row["operations"] for row in facts["rows"]) == 2 * 2 * 8 * 4 * 3
    assert sum(row["share"] for row in facts["rows"]) == 1


def test_faults_are_said_before_anything_runs(model: Path) -> None:
    assert graphwright("profile", model, "--trace", "no/trace.json").exit_code == 2
    assert graphwright("profile", model, "--group", "line").exit_code == 2
    assert graphwright("profile", model, "--runs", "0").exit_code == 2
    assert graphwright("profile", model).exit_code == 1


@pytest.mark.parametrize("width", [60, 80])
def test_a_table_fits_the_terminal(width: int, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that do not fit are named below; the most important ones stay."""
    monkeypatch.setenv("COLUMNS", str(width))
    command = "profile", model, "--shape", "x:8,4", "--runs", "2", "--group", "source"
    result = graphwright(*command)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert max(map(len, lines[: lines.index("")])) <= width
    assert {"source", "self", "share", "GFLOP/s", "roofline"} <= set(lines[0].split())
    left_out = [line for line in lines if line.startswith("columns that a wider terminal shows: ")]
    assert len(left_out) == 1 and "total" in left_out[0] and "total" not in lines[0]
