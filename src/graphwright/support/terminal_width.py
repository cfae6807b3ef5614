"""The width of the terminal."""

from __future__ import annotations

import shutil


def terminal_width() -> int | None:
    """The columns of the terminal, or the variable ``COLUMNS``; None if output goes to a file or a pipe,
    whose lines may have any length.
    """
    return shutil.get_terminal_size((0, 0)).columns or None
