"""The text of errors."""

from __future__ import annotations

from graphwright.errors import Diagnostic, ModelError


def test_a_hint_that_successive_faults_share_is_shown_once() -> None:
    faults = [
        Diagnostic("size", "the first fault", "a", "give sizes"),
        Diagnostic("size", "the second fault", "b", "give sizes"),
        Diagnostic("name", "the third fault", hint="give names"),
    ]
    error = ModelError(*faults)
    assert str(error) == (
        "a: the first fault [size]\n"
        "b: the second fault [size]\n"
        "    give sizes\n"
        "the third fault [name]\n"
        "    give names"
    )
    assert list(error.diagnostics) == faults
