"""Encodes programs for the native runtime."""

from __future__ import annotations

from graphwright.lower.serialize import to_plain
from graphwright.lower.tasks import TaskGraph
from graphwright.lower.wire import words_of


def encode(program: TaskGraph) -> bytes:
    """``program`` in the format of :mod:`graphwright.lower.wire`. Raises OverflowError for a number beyond
    int64.
    """
    return words_of(to_plain(program))
