"""Serializes remarks for packages: JSON in which each text, and each choice of kernels, is stored once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from graphwright.compiler.remarks import Declined, NodeCount, PassRemark, Remarks
from graphwright.errors import Diagnostic, PackageError
from graphwright.ir.algebra.parse import parse_dim
from graphwright.ir.symbols import Dim, SymbolError
from graphwright.kernels.kernel_choice import KernelChoice, NotTaken, WhyNot
from graphwright.layout.remarks import LayoutCopy, LayoutRequest

_CODES: Final = {code.value: code for code in WhyNot}
_MOST: Final = 1 << 63


def encode_remarks(remarks: Remarks) -> str:
    """``remarks`` as text, deterministic; empty if there are none."""
    return "" if remarks == Remarks() else _Encoder().encode(remarks)


class _Encoder:
    """Numbers texts in order of first use."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._choices: dict[tuple[Any, ...], int] = {}

    def encode(self, remarks: Remarks) -> str:
        held: dict[str, list[Any]] = {
            "passes": list(map(self._pass, remarks.passes)),
            "requests": [[*self._all((r.location, r.layout)), r.saves] for r in remarks.requests],
            "copies": [
                [*self._all((c.value, c.layout, c.reader, c.why)), _number(c.moved)] for c in remarks.copies
            ],
            "kernels": [[self._text(each.location), self._choice(each)] for each in remarks.kernels],
        }
        held["choices"] = list(map(self._kernels, self._choices))
        held["texts"] = list(self._texts)  # last: encoding the other members adds texts
        text = json.dumps(held, ensure_ascii=False, separators=(",", ":"))
        return text.replace('],"', '],\n"') + "\n"

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def _all(self, texts: Iterable[str]) -> list[int]:
        return list(map(self._text, texts))

    def _nodes(self, nodes: NodeCount) -> list[Any]:
        return [nodes.count, *self._all(nodes.first)]

    def _pass(self, each: PassRemark) -> list[Any]:
        return [
            *self._all((each.stage, each.name)),
            each.runs,
            [[self._text(kind), count] for kind, count in each.changes.items()],
            self._nodes(each.removed),
            self._nodes(each.added),
            [[*self._all((d.code, d.rule, d.why)), self._nodes(d.nodes)] for d in each.declined],
        ]

    def _choice(self, each: KernelChoice) -> int:
        return self._choices.setdefault((each.taken, each.ns, each.others), len(self._choices))

    def _kernels(self, choice: tuple[tuple[str, ...], int | None, tuple[NotTaken, ...]]) -> list[Any]:
        taken, ns, others = choice
        rows = [[*self._all((o.name, o.code.value, o.why)), o.ns] for o in others]
        return [self._all(taken), ns, rows]


def _number(size: Dim) -> int | str:
    return size if isinstance(size, int) else str(size)


def decode_remarks(text: str) -> Remarks:
    """The remarks in ``text``. Raises PackageError if it is malformed."""
    if not text:
        return Remarks()
    try:
        return _Decoder(json.loads(text)).remarks()
    except (ValueError, TypeError, LookupError, RecursionError, SymbolError) as error:
        message = f"its remarks cannot be read: {type(error).__name__}: {error}"
        raise PackageError(Diagnostic("damaged-package", message, hint="compile the model again")) from error


class _Decoder:
    def __init__(self, held: Any) -> None:
        self._held = held
        self._texts = list(map(str, held["texts"]))
        self._choices = list(map(self._kernels, held["choices"]))

    def remarks(self) -> Remarks:
        held = self._held
        return Remarks(
            tuple(map(self._pass, held["passes"])),
            tuple(map(self._request, held["requests"])),
            tuple(map(self._copy, held["copies"])),
            tuple(KernelChoice(self._texts[k], *self._choices[choice]) for k, choice in held["kernels"]),
        )

    def _all(self, numbers: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._texts[k] for k in numbers)

    def _nodes(self, row: list[int]) -> NodeCount:
        return NodeCount(_count(row[0]), self._all(row[1:]))

    def _pass(self, row: list[Any]) -> PassRemark:
        stage, name, runs, changes, removed, added, declined = row
        return PassRemark(
            self._texts[stage],
            self._texts[name],
            _count(runs),
            {self._texts[kind]: _count(count) for kind, count in changes},
            self._nodes(removed),
            self._nodes(added),
            tuple(map(self._declined, declined)),
        )

    def _declined(self, row: list[Any]) -> Declined:
        code, rule, why, nodes = row
        return Declined(self._texts[code], self._texts[rule], self._texts[why], self._nodes(nodes))

    def _request(self, row: list[Any]) -> LayoutRequest:
        location, layout, saves = row
        return LayoutRequest(self._texts[location], self._texts[layout], _optional(saves))

    def _copy(self, row: list[Any]) -> LayoutCopy:
        *texts, moved = row
        value, layout, reader, why = self._all(texts)
        return LayoutCopy(value, layout, reader, why, _size(moved))

    def _kernels(self, row: list[Any]) -> tuple[tuple[str, ...], int | None, tuple[NotTaken, ...]]:
        taken, ns, others = row
        return self._all(taken), _optional(ns), tuple(map(self._not_taken, others))

    def _not_taken(self, row: list[Any]) -> NotTaken:
        name, code, why = self._all(row[:3])
        return NotTaken(name, _CODES[code], why, _optional(row[3]))


def _count(held: Any) -> int:
    """A count. Raises ValueError for anything else."""
    if type(held) is not int or not 0 <= held < _MOST:
        raise ValueError(f"{held!r} is not a count")
    return held


def _optional(held: Any) -> int | None:
    return None if held is None else _count(held)


def _size(held: Any) -> Dim:
    return parse_dim(held) if isinstance(held, str) else _count(held)
