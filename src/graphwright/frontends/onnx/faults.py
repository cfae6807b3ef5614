"""Faults met while a model is read: gathered, so that one error lists all of them."""

from __future__ import annotations

from collections.abc import Iterable

from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.names import terminal
from graphwright.records import dataclass, field
from graphwright.support.spelling import counted

NAMED_NODES = 3
"""How many nodes an unsupported op's message names."""


class Fault(Exception):
    """One fault at one place of the source model; import goes on after it."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint

    def at(self, where: str) -> Diagnostic:
        return Diagnostic(self.code, terminal(self.message, 2000), terminal(where), terminal(self.hint, 2000))


class Poisoned(Exception):
    """A value is missing because of a fault that was reported already."""


def text(value: str | bytes) -> str:
    """A protobuf string, which the parser hands out as bytes where it is not UTF-8."""
    if isinstance(value, str):
        return value
    raise Fault("text", f"{value!r} is not UTF-8", "the file is damaged, or its writer does not follow ONNX")


@dataclass
class Report:
    """All faults of one import; unsupported ops are gathered by op."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    cause: Exception | None = None
    """The first exception that was not raised as a fault: for whoever debugs an import function."""
    _unsupported: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def add(self, fault: Fault, where: str = "") -> None:
        self.diagnostics.append(fault.at(where))

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics.extend(diagnostics)

    def unsupported(self, op: str, hint: str, node: str) -> None:
        """Count one more node of an op that is not supported."""
        self._unsupported.setdefault((op, hint), []).append(node)

    def raise_if_any(self) -> None:
        """A ModelError with all faults, unsupported ops first, the most frequent one leading."""
        ranked = sorted(self._unsupported.items(), key=lambda item: -len(item[1]))
        found = [_unsupported(op, hint, nodes) for (op, hint), nodes in ranked]
        if found or self.diagnostics:
            raise ModelError(*found, *self.diagnostics) from self.cause


def _unsupported(op: str, hint: str, nodes: list[str]) -> Diagnostic:
    shown = ", ".join(nodes[:NAMED_NODES]) + (", ..." if len(nodes) > NAMED_NODES else "")
    message = f"{op} is not supported ({counted(len(nodes), 'node')})"
    return Fault("unsupported-op", message, hint).at(shown)
