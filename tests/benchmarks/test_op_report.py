"""Tables of the results of single ops."""

from __future__ import annotations

from benchmarks.op_report import families_table, reason_of, slower_table

ENTRIES = {
    1: [
        {"name": "exp f64", "family": "elementwise", "ratio": 2.0},
        {"name": "add", "family": "elementwise", "ratio": 0.5},
    ],
    2: [{"name": "exp f64", "family": "elementwise", "ratio": 1.0}],
}


def test_families_have_a_mean_and_a_count() -> None:
    assert "| elementwise | 2 | 1.00 | 1 | 1.00 | 0 |" in families_table(ENTRIES)
    assert "| all | 2 | 1.00 | 1 | 1.00 | 0 |" in families_table(ENTRIES)


def test_slower_cases_are_listed_with_their_reason() -> None:
    (line,) = slower_table(ENTRIES).splitlines()[2:]
    assert line.startswith("| exp f64 | 2.00 | 1.00 | OpenVINO")


def test_the_reason_is_found_by_the_beginning_of_a_name() -> None:
    assert reason_of("matmul f64 256") != reason_of("matmul K 8")
    assert reason_of("no such case") == "not examined yet"
