"""Numbers of threads that users give: those of the process, of a model and of a run."""

from __future__ import annotations

from typing import Any

from graphwright import _native
from graphwright.config import Options


def set_threads(threads: int) -> None:
    """Sets the number of threads of runs that do not set it; 0, the initial value, is one per usable core.
    Raises OptionError.
    """
    _native.set_threads(thread_count(threads))


def thread_count(threads: Any) -> int:
    """``threads`` as the option of that name stores it. Raises OptionError."""
    return Options(threads=threads).threads
