"""The table of models under torch.compile."""

from __future__ import annotations

from typing import Any

from benchmarks.torch_compile.report import speed_table


def result(milliseconds: float, eager: float, inductor: float) -> dict[str, Any]:
    return {
        "median_ms": {"graphwright": milliseconds},
        "ratios": {"eager": eager, "inductor": inductor},
    }


def test_each_model_has_a_row_and_each_number_of_threads_its_columns() -> None:
    text = speed_table(
        {1: {"a": result(20, 0.5, 0.8), "b": result(3.14159, 0.125, 0.2)}, 2: {"a": result(1, 1, 1)}}
    )
    head, _, *rows = text.splitlines()
    assert head == "| model | 1 thread | of eager | of Inductor | 2 threads | of eager | of Inductor |"
    assert rows == [
        "| a | 20.0 ms | 0.50 | 0.80 | 1.00 ms | 1.00 | 1.00 |",
        "| b | 3.14 ms | 0.12 | 0.20 | - | - | - |",
        "| geometric mean |  | 0.25 | 0.40 |  | 1.00 | 1.00 |",
    ]
