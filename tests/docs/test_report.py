"""Result tables."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.report import PART, report, summary


def result(model: str, threads: int, peers: dict[str, float]) -> dict[str, Any]:
    engines = {
        name: {"median_ns": 2e6 * factor, "peak_bytes": 3 << 20}
        for name, factor in {"graphwright": 1, **peers}.items()
    }
    return {
        "model": f"{model}.1.onnx",
        "threads": threads,
        "engines": engines,
        "ratios": {
            name: {"median": factor, "low": factor - 0.25, "high": factor + 0.5}
            for name, factor in peers.items()
        },
        "compile": {"seconds": 1.25},
        "machine": {"cpu": "A CPU", "usable_cores": 2},
        "versions": {"graphwright": "0.1.0"},
        "command": ["python", "-m", "benchmarks.peers", model, "--threads", str(threads)],
    }


def test_a_table_for_each_number_of_threads() -> None:
    text = report([result("a", 1, {"onnxruntime": 1.5}), result("b", 1, {}), result("a", 2, {})])
    head = (
        "| model | graphwright | ONNX Runtime / graphwright | limit | compile | memory | ONNX Runtime's |\n"
    )
    assert f"1 thread:\n\n{head}" in text
    assert "| `a` | 2.00 ms | 1.50 (1.25-2.00) | - | 1.2 s | 3 MiB | 3 MiB |\n" in text
    assert "| `b` | 2.00 ms | - | - | 1.2 s | 3 MiB | - |\n" in text
    assert "| geometric mean |  | 1.50 |  |  |  |  |\n" in text
    assert "2 threads:\n\n| model | graphwright | limit | compile | memory |\n" in text
    assert "On A CPU, 2 cores. graphwright 0.1.0." in text
    assert "`python -m benchmarks.peers MODEL --threads 2`" in text


def test_measurements_with_a_busy_core_have_a_separate_table() -> None:
    text = report([result("a", 2, {}), result("a", 2, {}) | {"busy": True}])
    assert text.count("2 threads:\n") == 1
    assert text.count("2 threads, one of their cores busy:\n") == 1


def test_the_limit_and_what_is_reached_of_it() -> None:
    roofline = {"ns": 1.5e6, "shares": {"graphwright": {"median": 0.75}}}
    assert "| `a` | 2.00 ms | 75% | 1.2 s |" in report([result("a", 1, {}) | {"roofline": roofline}])


def test_the_report_says_if_there_are_no_results() -> None:
    assert report([]).startswith("No results are recorded yet")


def test_filling_a_page_again_changes_nothing() -> None:
    page = f"before\n{PART.begin}\n{PART.end}\nafter\n"
    once = PART.filled(page, "table\n")
    assert once == f"before\n{PART.begin}\n\ntable\n\n{PART.end}\nafter\n"
    assert PART.filled(once, "table\n") == once
    with pytest.raises(ValueError, match="results"):
        PART.filled("nothing", "table\n")


def test_the_summary_has_the_mean_and_both_extremes() -> None:
    text = summary([result("a", 1, {"onnxruntime": 1.0}), result("b", 1, {"onnxruntime": 4.0})])
    assert "| 1 | ONNX Runtime | 2 | 2.00 | 1.00 `a` | 4.00 `b` | 1.00 |\n" in text
    assert text.endswith("On A CPU, 2 cores. graphwright 0.1.0.\n")
