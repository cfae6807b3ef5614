"""Diagnostics: what went wrong, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable

from graphwright.records import dataclass

LONGEST = 2000
"""Characters of a message that are shown: a model's own text may be of any length."""


@dataclass(frozen=True)
class Diagnostic:
    """One fault. ``code`` is stable; ``where`` names the node or file as its author knows it."""

    code: str
    message: str
    where: str = ""
    hint: str = ""

    def __str__(self) -> str:
        place = f"{_clipped(self.where)}: " if self.where else ""
        hint = f"\n    {_clipped(self.hint)}" if self.hint else ""
        return f"{place}{_clipped(self.message)} [{self.code}]{hint}"


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text)} characters)"


class GraphwrightError(Exception):
    """Base of every error that graphwright raises on purpose; carries all faults of a kind, each once: one
    node of a model may be several ops, which all refuse its operands.
    """

    def __init__(self, *diagnostics: Diagnostic) -> None:
        self.diagnostics = tuple(dict.fromkeys(diagnostics))
        super().__init__("\n".join(map(str, self.diagnostics)))

    def __reduce__(self) -> tuple[object, ...]:
        """Errors of other processes arrive whole."""
        return type(self), self.diagnostics


class ModelError(GraphwrightError):
    """The model cannot be read or means nothing: malformed file, unknown op, conflicting shapes."""


class UnknownOpError(ModelError):
    """A text has an op that is not registered: its plugin is not loaded."""

    def __init__(self, name: str, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.name = name

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, *self.diagnostics)


class VerifyError(GraphwrightError):
    """An IR breaks its own rules: a defect of a pass or of a hand-written graph."""


class FeedError(GraphwrightError):
    """The arrays given to a model do not fit its inputs."""


class ToolchainError(GraphwrightError):
    """No usable C compiler, or it refused a generated source."""


class PackageError(GraphwrightError):
    """An ``.om`` file is damaged, of a version not known here, or not trusted."""


class PluginError(GraphwrightError):
    """A user's own file, op, kernel or rule is at fault, or is missing."""


class OptionError(GraphwrightError):
    """An option has a value outside its type or range."""


@dataclass
class Collector:
    """Gathers diagnostics so that one error lists all faults of a kind."""

    error: type[GraphwrightError]

    def __post_init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []

    def add(self, code: str, message: str, where: str = "", hint: str = "") -> None:
        """Gather a diagnostic of these fields."""
        self.diagnostics.append(Diagnostic(code, message, where, hint))

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Gather all of ``diagnostics``."""
        self.diagnostics.extend(diagnostics)

    def raise_if_any(self) -> None:
        """Raise one error with all that was gathered; nothing happens where that is none."""
        if self.diagnostics:
            raise self.error(*self.diagnostics)
