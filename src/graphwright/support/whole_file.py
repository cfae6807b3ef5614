"""Writes files atomically."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A new binary file that replaces ``path`` at the end of the block, or is removed if the block raises.
    Nested blocks write several files, all or none, if each flushes its own.

    If ``path`` is a link, its target is replaced. A device or a pipe is written directly. Raises OSError,
    which names ``path``.
    """
    temporary: Path | None = None
    try:
        target = Path(os.path.realpath(path))  # fails if the working folder was deleted
        temporary = target.with_name(f".{target.name}.{os.urandom(8).hex()}")
        if _is_stream(path):
            with open(path, "wb") as file:
                yield file
            return
        with _replacing(target, temporary) as file:
            yield file
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(temporary)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def _replacing(target: Path, temporary: Path) -> Iterator[BinaryIO]:
    if target.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _is_stream(path: Path) -> bool:
    """Whether ``path`` exists and is neither a regular file nor a folder."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
