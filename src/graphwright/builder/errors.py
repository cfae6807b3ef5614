"""Errors of GraphBuilder, with the line of the user's file that made the call."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import graphwright
from graphwright.errors import Diagnostic, GraphwrightError, ModelError
from graphwright.records import replace

_PACKAGE: Final = f"{Path(graphwright.__file__).parent}{os.sep}"
_LOCATED: Final = "_located"
"""Set on errors that already have a location, as calls can be nested in bodies of branches."""


def fault(code: str, message: str, hint: str = "") -> ModelError:
    """An error in one call."""
    return ModelError(Diagnostic(code, message, hint=hint))


@contextmanager
def located(name: str = "", call: str = "") -> Iterator[None]:
    """Adds the caller's line and the node ``name`` to errors raised in the block. ``call``: the hint of
    errors that have none.
    """
    try:
        yield
    except GraphwrightError as error:
        if hasattr(error, _LOCATED):
            raise
        where = ": ".join(filter(None, [_line(), name]))
        found = type(error)(*(replace(d, where=where, hint=d.hint or call) for d in error.diagnostics))
        setattr(found, _LOCATED, True)
        raise found from None


def _line() -> str:
    """``file.py:12``: the line outside this package that made the call."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


def _is_internal(file: str) -> bool:
    return file.startswith(_PACKAGE) or Path(file).name == "contextlib.py"
