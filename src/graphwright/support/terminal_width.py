"""How wide the terminal is that text is written to."""

from __future__ import annotations

import shutil


def terminal_width() -> int | None:
    """Columns of the terminal, or of ``COLUMNS`` in the environment; None where output goes to a file or a
    pipe, whose lines may be of any length.
    """
    return shutil.get_terminal_size((0, 0)).columns or None
