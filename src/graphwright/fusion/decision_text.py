"""Serializes decisions for packages: JSON in which each node and each reason is stored once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from graphwright.errors import Diagnostic, PackageError
from graphwright.fusion.decisions import MOST_DECISIONS, Decision, Edit, Kind, Verdict
from graphwright.ir.algebra.parse import parse_dim
from graphwright.ir.refusal import Code
from graphwright.ir.symbols import Dim, SymbolError

_LAST: Final[tuple[Any, ...]] = (None, None, None)
"""Default values of the trailing columns of a row: bytes_saved, predicted, measured."""

_MOST_BYTES: Final = 1 << 63

_CODES: Final = {code.value: code for code in Code}


def encode_decisions(decisions: Sequence[Decision]) -> str:
    """``decisions`` as text, deterministic; empty if there are none."""
    if not decisions:
        return ""
    nodes: dict[object, int] = {}
    reasons: dict[tuple[str, ...], int] = {}
    rows = []
    for each in decisions[:MOST_DECISIONS]:
        members = [
            nodes.setdefault(sources or name, len(nodes))
            for name, sources in zip(each.edit.nodes, each.sources, strict=True)
        ]
        reason = (each.edit.kind.value, each.verdict.value, each.code.value, each.why)
        last = [_number(each.bytes_saved), each.predicted, each.measured]
        while last and last[-1] is None:
            last.pop()
        rows.append([members, reasons.setdefault(reason, len(reasons)), *last])
    held = {"nodes": list(nodes), "reasons": list(reasons), "decisions": rows}
    return json.dumps(held, ensure_ascii=False, separators=(",", ":")).replace("],[[", "],\n[[") + "\n"


def _number(size: Dim | None) -> int | str | None:
    return size if size is None or isinstance(size, int) else str(size)


def decode_decisions(text: str) -> list[Decision]:
    """The decisions in ``text``. Raises PackageError if it is malformed."""
    if not text:
        return []
    try:
        held = json.loads(text)
        nodes = list(map(_node, held["nodes"]))
        return [_decision(row, nodes, held["reasons"]) for row in held["decisions"][:MOST_DECISIONS]]
    except (ValueError, TypeError, LookupError, RecursionError, SymbolError) as error:
        message = f"its decisions cannot be read: {type(error).__name__}: {error}"
        raise PackageError(Diagnostic("damaged-package", message, hint="compile the model again")) from error


def _node(held: Any) -> tuple[str, tuple[str, ...]]:
    """The name of a node, and its source nodes."""
    if isinstance(held, str):
        return held, ()
    sources = tuple(map(str, held))
    return " + ".join(sources), sources


def _decision(row: list[Any], nodes: list[tuple[str, tuple[str, ...]]], reasons: list[list[str]]) -> Decision:
    members, reason, *last = row
    saved, predicted, measured = [*last, *_LAST[len(last) :]]
    kind, verdict, code, why = reasons[reason]
    names, sources = zip(*(nodes[k] for k in members), strict=True)  # at least one node
    edit = Edit(Kind(kind), names)
    ratios = _ratio(predicted), _ratio(measured)
    return Decision(edit, Verdict(verdict), _CODES[code], str(why), _size(saved), *ratios, sources)


def _ratio(held: Any) -> float | None:
    return None if held is None else float(held)


def _size(held: Any) -> Dim | None:
    """A number of bytes, or None if unknown. Raises ValueError for anything else."""
    if isinstance(held, str):
        return parse_dim(held)
    if held is None or (type(held) is int and abs(held) < _MOST_BYTES):
        return held
    raise ValueError(f"{held!r} is not a number of bytes")
