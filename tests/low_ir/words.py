"""Programs in the wire format of the native runtime."""

from __future__ import annotations

from graphwright.low_ir.serialize import to_plain
from graphwright.low_ir.tasks import TaskGraph
from graphwright.low_ir.wire import words_of


def encode(program: TaskGraph) -> bytes:
    """``program`` as words of the wire format."""
    return words_of(to_plain(program))
