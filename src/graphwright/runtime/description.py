"""Describes a model in a few lines of text or HTML: its inputs, outputs, weights and memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from graphwright import _native
from graphwright.errors import GraphwrightError
from graphwright.executable.nodes import buckets_of
from graphwright.executable.specs import TensorSpec, static_shapes
from graphwright.ir.sizes import span_text
from graphwright.package.package import Entry
from graphwright.runtime.devices.cpu import Cpu
from graphwright.support.escaping import html_text, terminal
from graphwright.support.message_text import counted
from graphwright.support.units import bytes_text

if TYPE_CHECKING:
    from graphwright.runtime.model import Model

MOST_ROWS = 20
"""The most inputs or outputs that are listed; the rest are only counted."""
_RANGE = re.compile(r"  symbol (?P<name>\S+) in \[(?P<low>\d+), (?P<high>\d+|inf)\]")


def text(model: Model) -> str:
    """The description as text, for terminals."""
    found = _rows(model)
    width = max(len(title) for title, _ in found)
    lines = [f"  {title:{width}}  {terminal(shown)}" for title, shown in found]
    return "\n".join(["graphwright.Model", *lines])


def html(model: Model) -> str:
    """The description as an HTML table, for notebooks; names are escaped."""
    left = 'style="text-align:left"'
    rows = "".join(
        f"<tr><th {left}>{title}</th><td {left}>{html_text(shown)}</td></tr>" for title, shown in _rows(model)
    )
    return f"<table><caption>graphwright.Model</caption>{rows}</table>"


def _rows(model: Model) -> list[tuple[str, str]]:
    tensors, entry = model.package.weights.tensors.values(), model.entry
    count = counted(len(tensors), "tensor")
    rows = [] if len(model.entries) == 1 else [("entries", ", ".join(model.entries))]
    rows += [*_tensor_rows("inputs", entry.feeds), *_tensor_rows("outputs", entry.outputs)]
    if entry.states:
        rows += _tensor_rows("states", entry.states)
    if sizes := _dynamic_sizes(entry):
        rows.append(("dynamic dimensions", ", ".join(sizes)))
    if gears := buckets_of(entry.executable):
        rows.append(("gears", f"{len(gears)} shapes with static programs"))
    rows.append(("weights", f"{bytes_text(sum(tensor.size for tensor in tensors))} in {count}"))
    return [*rows, ("arena", _arena(model))]


def _tensor_rows(title: str, specs: Sequence[TensorSpec]) -> list[tuple[str, str]]:
    shown = [str(spec) for spec in specs[:MOST_ROWS]] or ["none"]
    more = [f"and {len(specs) - MOST_ROWS} more"] if len(specs) > MOST_ROWS else []
    return list(zip([title, *[""] * (len(shown) + len(more) - 1)], shown + more, strict=True))


def _dynamic_sizes(entry: Entry) -> list[str]:
    """The dynamic dimensions of the inputs, with the bounds that the header of the graph's text declares."""
    dims = dict.fromkeys(d for spec in entry.inputs for d in spec.shape or () if isinstance(d, str))
    bounds = {}
    for line in entry.graph.splitlines()[1:]:
        if not line.startswith("  symbol "):
            break
        if match := _RANGE.match(line):
            low, high = int(match["low"]), match["high"]
            bounds[match["name"]] = span_text(low, None if high == "inf" else int(high))
    ranks = [f"rank of {spec.name}" for spec in entry.inputs if spec.shape is None]
    return [f"{dim} ({bounds[dim]})" if dim in bounds else dim for dim in dims] + ranks


def _arena(model: Model) -> str:
    """The memory that one run needs besides weights, inputs and outputs."""
    shapes, executor = static_shapes(model.entry.inputs), model.executor
    if isinstance(executor, Cpu) and shapes is not None:
        with suppress(GraphwrightError):  # the model rejects its own sizes: a run reports why
            return f"{bytes_text(executor.plan(shapes, model.threads or _native.threads())['arena'])} a run"
    held = bytes_text(executor.stats().get("arena_bytes", 0))
    return f"depends on the sizes of a run; {held} held now"
