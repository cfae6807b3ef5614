"""What users of ``torch.compile`` choose for this backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphwright.config import Options
from graphwright.errors import Diagnostic, OptionError
from graphwright.records import dataclass

MODES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": {"specialize": "hot"},
}
"""Options that each ``mode`` of ``torch.compile`` stands for."""


@dataclass(frozen=True)
class Settings:
    """``options`` of the compiler; ``strict``: operators that graphwright does not have are an error."""

    options: Options
    strict: bool = False

    @classmethod
    def of(cls, mode: str | None, options: Mapping[str, Any] | None) -> Settings:
        """The arguments of ``torch.compile``. Raises OptionError."""
        given = dict(options or {})
        if mode not in (None, *MODES):
            message = f"mode={mode!r} is no mode"
            raise OptionError(Diagnostic("option", message, hint=f"the modes are {', '.join(MODES)}"))
        strict = given.pop("strict", False)
        if not isinstance(strict, bool):
            raise OptionError(Diagnostic("option", f"strict={strict!r} is neither True nor False"))
        return cls(Options.of({**MODES[mode or "default"], **given}), strict)
