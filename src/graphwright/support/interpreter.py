"""The command that starts another process of this Python."""

from __future__ import annotations

import sys


def interpreter() -> str | None:
    """The path of Python; None in an application that contains Python, such as those made by PyInstaller:
    ``sys.executable`` would start the application once more.
    """
    return None if getattr(sys, "frozen", False) else sys.executable or None
