"""Temporary folders, in memory if the usual disk is full or cannot be written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MIN_FREE: Final = 32 << 20
"""The free bytes that a folder must have: a compiler's temporary files are larger than its output."""
_IN_MEMORY: Final = "/dev/shm"


def temporary_folder() -> Path:
    """A new folder that only its user may read and write. Raises OSError if none can be made."""
    return Path(tempfile.mkdtemp(prefix="graphwright-", dir=next(_folders_with_space(), None)))


def _folders_with_space() -> Iterator[str]:
    """The folders for temporary files that have enough free space."""
    for find in (tempfile.gettempdir, lambda: _IN_MEMORY):
        try:
            folder = find()
            seen = os.statvfs(folder)
        except OSError:
            continue
        if seen.f_bavail * seen.f_frsize >= _MIN_FREE and os.access(folder, os.W_OK):
            yield folder
