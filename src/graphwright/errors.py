"""Errors: what is wrong, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphwright.records import dataclass, replace

LONGEST = 2000
"""Characters of a message that are shown, as texts in a model can have any length."""


@dataclass(frozen=True)
class Diagnostic:
    """One fault. ``code`` is stable; ``where`` names the node or file in the user's terms; ``hint`` says what
    to do.
    """

    code: str
    message: str
    where: str = ""
    hint: str = ""

    def __str__(self) -> str:
        place = f"{_clipped(self.where)}: " if self.where else ""
        hint = f"\n    {_clipped(self.hint)}" if self.hint else ""
        return f"{place}{_clipped(self.message)} [{self.code}]{hint}"


def with_each_hint_once(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """``diagnostics`` to be shown as a list: of successive ones with the same hint, only the last has it."""
    following = [*(each.hint for each in diagnostics[1:]), None]
    return [
        replace(each, hint="") if each.hint == hint else each
        for each, hint in zip(diagnostics, following, strict=True)
    ]


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text)} characters)"


class GraphwrightError(Exception):
    """Base class of all errors that graphwright raises on purpose. It lists all faults of a kind, each once,
    as one node of a model can become several ops that all report it.
    """

    def __init__(self, *diagnostics: Diagnostic) -> None:
        self.diagnostics = tuple(dict.fromkeys(diagnostics))
        super().__init__("\n".join(map(str, with_each_hint_once(self.diagnostics))))

    def __reduce__(self) -> tuple[object, ...]:
        """Keeps diagnostics when errors are sent between processes."""
        return type(self), self.diagnostics


class ModelError(GraphwrightError):
    """The model cannot be read or is invalid: malformed file, unknown op, conflicting shapes."""


class UnknownRankError(ModelError):
    """The types of an op cannot be inferred, as the rank of an operand is unknown.

    The error names the node. It is raised where ``UnknownRank`` of :mod:`graphwright.ir.types` was caught,
    which names no node: most callers catch that exception and continue without the rank.
    """


class UnknownOpError(ModelError):
    """A text contains an op that is not registered, as its plugin is not loaded."""

    def __init__(self, name: str, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.name = name

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, *self.diagnostics)


class VerifyError(GraphwrightError):
    """An IR violates its invariants: a bug in a pass, or an invalid hand-written graph."""


class FeedError(GraphwrightError):
    """The arrays given to a model do not fit its inputs."""


class ToolchainError(GraphwrightError):
    """There is no usable C compiler, or it rejected a generated source."""


class PackageError(GraphwrightError):
    """An ``.om`` file is damaged, has an unknown version, or is not trusted."""


class PluginError(GraphwrightError):
    """A user's file, op, kernel or rule is faulty or missing."""


class ReferenceFault(ValueError):
    """A user's reference raised, or returned a result that contradicts ``infer``. It does not know the node:
    a run names it in its own error.
    """

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(f"{diagnostic.message} ({diagnostic.where})")
        self.diagnostic = diagnostic


class OptionError(GraphwrightError):
    """An option has a value outside its type or range."""


@dataclass
class Collector:
    """Collects diagnostics, so that one error lists all faults of a kind."""

    error: type[GraphwrightError]

    def __post_init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []

    def add(self, code: str, message: str, where: str = "", hint: str = "") -> None:
        """Adds a diagnostic."""
        self.diagnostics.append(Diagnostic(code, message, where, hint))

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Adds ``diagnostics``."""
        self.diagnostics.extend(diagnostics)

    def raise_if_any(self) -> None:
        """Raises one error with all diagnostics, if there are any."""
        if self.diagnostics:
            raise self.error(*self.diagnostics)
