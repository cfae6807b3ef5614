"""Ends commands: converts any exception to lines on stderr and an exit status."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from graphwright import log
from graphwright.errors import Diagnostic, GraphwrightError, OptionError
from graphwright.tools.console import report


def end_with(command: Callable[[], Any]) -> NoReturn:
    """Runs ``command`` and ends the process with the exit status: 0 for success, 1 for a fault, 2 for an
    invalid option.
    """
    try:
        command()
    except Exception as error:
        report(_faults(error))
        sys.exit(2 if isinstance(error, OptionError) else 1)
    sys.exit(0)


def _faults(error: Exception) -> Sequence[Diagnostic]:
    """The diagnostics of ``error``; the traceback of an unexpected exception is logged."""
    if isinstance(error, GraphwrightError):
        return error.diagnostics
    if isinstance(error, OSError):
        return [Diagnostic("file", error.strerror or str(error), str(error.filename or ""))]
    if isinstance(error, MemoryError):
        return [Diagnostic("memory", f"not enough memory: {error}".rstrip(": "))]
    log.debug("%s", "".join(traceback.format_exception(error)))
    hint = "this is a defect of graphwright or of a plugin: -vv shows the traceback, for a report"
    return [Diagnostic("internal", f"{type(error).__name__}: {error}", hint=hint)]
