"""The benchmark of single ops: its cases are valid models, and its report describes the results correctly."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from benchmarks.op_cases import CASES, FAMILIES
from benchmarks.op_cases.case import Case
from benchmarks.ops import difference, line, run, selected, summary

SMALL = [name for name, case in CASES.items() if sum(np.prod(o.shape) for o in case.operands.values()) < 1e5]


def test_every_case_has_a_name_of_its_own() -> None:
    assert len(CASES) == sum(map(len, FAMILIES.values())) >= 300
    assert all(case.nodes and case.operands for case in CASES.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_small_cases_are_valid_models(family: str) -> None:
    for name in SMALL:
        if CASES[name].family == family and not CASES[name].domain:
            onnx.checker.check_model(CASES[name].model())


def test_feeds_are_seeded() -> None:
    case = CASES["gather rows"]
    first, second = case.arrays(inputs=True), case.arrays(inputs=True)
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert set(first) == {"a", "b"} and not case.arrays(inputs=False)


def test_differences_are_parts_of_the_largest_number() -> None:
    a = np.array([1.0, np.nan, -4.0, np.inf], np.float32)
    assert difference([a], [a]) == 0
    assert difference([a[:3]], [np.array([1.0, np.nan, -5.0], np.float32)]) != 0
    assert difference([np.array([1.0, 3.0])], [np.array([1.0, 4.0])]) == 0.25
    assert difference([a], [a[:3]]) == np.inf
    assert difference([a], [a.astype(np.float64)]) == np.inf


def test_cases_are_selected_by_name_and_family() -> None:
    assert {case.family for case in selected((), ("rows",), {})} == {"rows"}
    assert all("flip" in case.name for case in selected(("flip",), (), {}))
    assert [case.name for case in selected((), (), {"trilu": 2.0})] == ["trilu"]


def test_the_summary_counts_cases_with_a_peer() -> None:
    entries = [{"ratio": 0.5}, {"ratio": 2.0}, {"ratio": None}]
    assert summary(entries) == {"cases": 2, "geometric_mean": 1.0, "median": 1.25, "above": 1}


def test_cases_are_measured_and_refusals_do_not_end_the_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    refused = Case("no such op", [("Nonsense", "x", "y", {})], CASES["add 4096"].operands)
    (entry,) = run([refused, CASES["add 4096"]], ["onnxruntime"], threads=1, rounds=2)
    assert "no such op" in capsys.readouterr().out
    assert entry["name"] == "add 4096" and entry["best_peer"] == "onnxruntime"
    assert entry["differs"] == {"onnxruntime": 0.0} and entry["ratio"] > 0
    assert "add 4096" in line(entry)
