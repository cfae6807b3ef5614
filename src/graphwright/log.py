"""The logger ``graphwright``.

WARNING: something costs time or is ignored, and what to do about it. INFO: what was compiled or loaded, and
how long it took. DEBUG: each stage of a compilation. The library sets no level and adds no handler; the
command line does, with ``-v`` and ``-q``.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

NAME: Final = "graphwright"


def warn(message: str, *values: object) -> None:
    """Logs a warning; without handlers, Python prints it on stderr."""
    importlib.import_module("logging").getLogger(NAME).warning(message, *values)


_WARNED: Final[set[str]] = set()


def warn_once(about: str, message: str, *values: object) -> None:
    """As :func:`warn`, but only once per process for each ``about``."""
    if about not in _WARNED:
        _WARNED.add(about)
        warn(message, *values)


def info(message: str, *values: object) -> None:
    """Logs what was done."""
    logger = _logger()
    if logger is not None:
        logger.info(message, *values)


def is_debugged() -> bool:
    """Whether debug messages are enabled."""
    logger = _logger()
    return logger is not None and bool(logger.isEnabledFor(sys.modules["logging"].DEBUG))


def debug(message: str, *values: object) -> None:
    """Logs a detail."""
    logger = _logger()
    if logger is not None:
        logger.debug(message, *values)


def _logger() -> Any:
    """The logger; None if nothing has imported ``logging``, as there can be no handler then, and the import
    takes longer than loading a model.
    """
    logging = sys.modules.get("logging")
    return logging.getLogger(NAME) if logging is not None else None
