"""Tables of the commands."""

from __future__ import annotations

import pytest

from graphwright.tools.console import table


def test_long_rows_of_one_column_are_wrapped_with_an_indent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    table([["one two three four five"], ["six"]])
    table([["a", "one two three four five"]])
    assert capsys.readouterr().out.splitlines() == [
        "  one two three four",
        "      five",
        "  six",
        "  a  one two three four",
        "     five",
    ]
