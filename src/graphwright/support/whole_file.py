"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A new binary file, which takes the place of ``path`` at the end of the block and goes if that raises.

    A link stays, and what it points to is replaced. A device or a pipe is written as the block goes on: there
    is nothing to replace. Raises OSError, which names ``path``.
    """
    try:
        if _is_stream(path):
            with open(path, "wb") as file:
                yield file
            return
        with _replacing(Path(os.path.realpath(path))) as file:
            yield file
    except OSError as error:
        if error.errno is None or error.filename == str(path):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    temporary = target.with_name(f".{target.name}.{os.urandom(8).hex()}")
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
    """Whether ``path`` is there, and neither a regular file nor a folder."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
