"""The part of ONNX's tests that every run of the suite takes: all on the reference, some on the cpu.

``python -m tests.conformance`` (``make conformance``) runs all of them on the cpu.
"""

from __future__ import annotations

import numpy as np
import pytest

from .cases import Case, all_cases, node_cases
from .compare import difference
from .failures import BY_CHANCE, FAILURES
from .run import Verdict, run_cases

EVERY = 32
"""One case in this many is run on the cpu."""
WANTED = 1800
"""Node cases that have to pass."""


def check(cases: list[Case], device: str) -> None:
    """Checks that exactly the listed cases fail."""
    outcomes = list(run_cases(cases, device))
    failed = {o.name: o.reason for o in outcomes if o.verdict is Verdict.FAILED}
    listed = {case.name for case in cases} & FAILURES.keys()
    assert {name: reason for name, reason in failed.items() if name not in listed} == {}
    assert sorted(listed - failed.keys() - BY_CHANCE) == [], "these pass now: take them off the list"


@pytest.mark.long
def test_the_reference_passes_all_but_those_listed() -> None:
    check(all_cases(), "reference")


def test_a_sample_of_the_cases_passes_on_the_cpu() -> None:
    check(all_cases()[::EVERY], "cpu")


def test_the_list_names_cases_and_reasons() -> None:
    names = {case.name for case in all_cases()}
    assert FAILURES.keys() <= names
    assert all(len(reason) > 10 for reason in FAILURES.values())
    nodes = [case.name for case in node_cases()]
    assert sum(name not in FAILURES for name in nodes) >= WANTED


F32, NAN = np.array([1, 2], np.float32), np.array([np.nan, 1], np.float32)


@pytest.mark.parametrize(
    ("actual", "expected", "said"),
    [
        (F32, F32 * np.float32(1 + 9e-4), ""),
        (F32, F32 * np.float32(1 + 2e-3), "2 of 2 elements differ, the first is 1.0"),
        (F32, F32.astype(np.float64), "float32 instead of float64"),
        (F32, F32[None], "shape (2,) instead of (1, 2)"),
        (NAN, NAN, ""),
        (NAN, F32, "2 of 2 elements"),
        (np.array([2**53 + 1]), np.array([2**53]), "1 of 1 elements"),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), "1 of 2 strings differ"),
        ([F32, NAN], [F32, NAN], ""),
        ([F32], [F32, NAN], "a list of 1 instead of 2"),
        ([F32, F32], [F32, NAN], "item 1: 2 of 2"),
        (F32, [F32], "ndarray instead of a list"),
        (None, None, ""),
        (None, F32, "nothing instead of ndarray"),
    ],
)
def test_a_difference_is_described(actual: object, expected: object, said: str) -> None:
    found = difference(actual, expected, 1e-3, 1e-7)
    assert said in found and bool(said) == bool(found)
