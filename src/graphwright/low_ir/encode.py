"""Encodes programs for the native runtime."""

from __future__ import annotations

from graphwright.low_ir.serialize import to_plain
from graphwright.low_ir.tasks import TaskGraph
from graphwright.low_ir.wire import words_of


def encode(program: TaskGraph) -> bytes:
    """``program`` in the format of :mod:`graphwright.low_ir.wire`. Raises OverflowError for a number beyond
    int64.
    """
    return words_of(to_plain(program))
