"""Collects the faults of a model while it is read, so that one error lists all of them."""

from __future__ import annotations

from collections.abc import Iterable

from graphwright.errors import Diagnostic, ModelError
from graphwright.records import dataclass, field
from graphwright.support.escaping import terminal
from graphwright.support.message_text import counted

NAMED_NODES = 3
"""Nodes that the message about an unsupported op names."""


class Fault(Exception):
    """A fault of the source model. Reading continues after it, to find further faults."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint

    def at(self, where: str) -> Diagnostic:
        """The fault as a diagnostic at ``where``."""
        return Diagnostic(self.code, terminal(self.message, 2000), terminal(where), terminal(self.hint, 2000))


class Poisoned(Exception):
    """A value is missing because of a fault that was already reported."""


def text(value: str | bytes) -> str:
    """A protobuf string as str. Raises Fault if it is not UTF-8; the parser returns such strings as bytes."""
    if isinstance(value, str):
        return value
    raise Fault(
        "text",
        f"{value!r} is not UTF-8",
        "the file is damaged, or its exporter violates the ONNX specification",
    )


@dataclass
class Report:
    """All faults of one import; unsupported ops are grouped by op."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    cause: Exception | None = None
    """The first exception that is not a Fault, to debug import functions."""
    _unsupported: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def add(self, fault: Fault, where: str = "") -> None:
        """Adds ``fault`` at ``where``."""
        self.diagnostics.append(fault.at(where))

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Adds diagnostics."""
        self.diagnostics.extend(diagnostics)

    def drop(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Drops diagnostics that were added."""
        dropped = set(map(id, diagnostics))
        self.diagnostics = [each for each in self.diagnostics if id(each) not in dropped]

    def unsupported(self, op: str, hint: str, node: str) -> None:
        """Adds a node whose op is not supported."""
        self._unsupported.setdefault((op, hint), []).append(node)

    def raise_if_any(self) -> None:
        """Raises ModelError with all faults. Unsupported ops come first, in order of frequency."""
        ranked = sorted(self._unsupported.items(), key=lambda item: -len(item[1]))
        found = [_unsupported(op, hint, nodes) for (op, hint), nodes in ranked]
        if found or self.diagnostics:
            raise ModelError(*found, *self.diagnostics) from self.cause


def _unsupported(op: str, hint: str, nodes: list[str]) -> Diagnostic:
    shown = ", ".join(nodes[:NAMED_NODES]) + (", ..." if len(nodes) > NAMED_NODES else "")
    message = f"{op} is not supported ({counted(len(nodes), 'node')})"
    return Fault("unsupported-op", message, hint).at(shown)
