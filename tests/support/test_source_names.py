"""Labels of tasks, which name all of their source nodes, in few characters."""

from __future__ import annotations

import pytest

from graphwright.support.source_names import sources_text


@pytest.mark.parametrize(
    ("label", "limit", "expected"),
    [
        ("a + b, c", 8, "a + b, c"),
        ("first + second", 13, "first + seco…"),
        ("first + second", 9, "first + …"),
        ("stem + norm + relu, second + norm", 20, "stem and 3 others"),
        ("a long name of a node + b + c", 22, "a long n… and 2 others"),
        ("one_node_with_a_long_name", 10, "one_node_…"),
        ("a\x1b[31m + b", 20, "a�[31m + b"),
    ],
)
def test_a_label_names_the_first_node_and_counts_the_others(label: str, limit: int, expected: str) -> None:
    shown = sources_text(label, limit)
    assert len(shown) <= limit
    assert shown == expected
