"""Checks that a graph can be lowered: all ranks are known, and no tensor holds strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.graph import Graph, Value
from graphwright.ir.types import STRING

LISTED: Final = 20
"""The most values that an error lists."""


def refuse_unknown_ranks(graph: Graph) -> None:
    """Raises ModelError if the rank of a value is unknown, though the shapes of the inputs are known."""
    values = [*(v for n in graph.walk() for v in n.outputs), *graph.inputs]
    _refuse("unknown-rank", "the rank of {} is unknown", [v for v in values if v.type.shape is None])


def refuse_strings(graph: Graph) -> None:
    """Raises ModelError if tensors hold strings: their arrays hold Python objects, which native code cannot
    read.
    """
    values = [*graph.inputs, *(v for n in graph.walk() for v in n.outputs)]
    hint = "the reference device runs it: CompileOptions(device='reference')"
    _refuse("text", "{} holds strings", [v for v in values if v.type.dtype is STRING], hint)


def _refuse(code: str, message: str, values: Sequence[Value], hint: str = "") -> None:
    """Raises ModelError with ``message`` for each of ``values``, if there are any."""
    faults = [
        Diagnostic(code, message.format(v.name or "?"), v.producer.location if v.producer else "", hint)
        for v in values[:LISTED]
    ]
    if faults:
        raise ModelError(*faults)
