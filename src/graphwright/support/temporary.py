"""A folder for files of a moment: in memory where the usual disk is full or cannot be written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOM: Final = 32 << 20
"""Bytes that are free in a folder that is used: a compiler's own files are larger than what it makes."""
_IN_MEMORY: Final = "/dev/shm"


def temporary_folder() -> Path:
    """A new folder that its user alone may read and write. Raises OSError where none can be made."""
    return Path(tempfile.mkdtemp(prefix="graphwright-", dir=next(_roomy(), None)))


def _roomy() -> Iterator[str]:
    """Folders for temporary files that have room."""
    for find in (tempfile.gettempdir, lambda: _IN_MEMORY):
        try:
            folder = find()
            seen = os.statvfs(folder)
        except OSError:
            continue
        if seen.f_bavail * seen.f_frsize >= _ROOM and os.access(folder, os.W_OK):
            yield folder
