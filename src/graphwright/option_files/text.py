"""Reads the text files that options name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

MOST_BYTES: Final = 1 << 20


def option_text(path: Path) -> str:
    """The text of a file. Raises OSError, and ValueError for a file that cannot be one of an option: a model
    given by mistake, or a device without an end.
    """
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"has more than {MOST_BYTES >> 20} MiB")
    return data.decode("utf-8-sig")  # editors on Windows write a byte order mark
