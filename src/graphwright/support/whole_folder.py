"""Writes folders atomically."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def new_folder_fault(path: Path) -> str | None:
    """Why no folder can be made at ``path``; None if one can. An empty folder may exist there."""
    parent = Path(os.path.realpath(path)).parent
    if path.is_dir():
        try:
            if any(path.iterdir()):
                return f"the folder {str(path)!r} is not empty"
        except OSError as error:
            return f"the folder {str(path)!r} cannot be read: {error.strerror}"
    elif path.exists() or path.is_symlink():
        return f"{str(path)!r} exists and is not a folder"
    elif not parent.is_dir():
        return f"there is no folder {str(path.parent)!r}"
    if not os.access(parent, os.W_OK | os.X_OK):
        return f"the folder {str(path.parent)!r} cannot be written"
    return None


def write_folder(path: Path, contents: Mapping[str, str | bytes | memoryview]) -> None:
    """Writes the files ``contents`` (by name, which may contain subfolders) to a new folder at ``path``, or
    in place of an empty one, atomically. Raises OSError, which names ``path``.
    """
    with whole_folder(path, contents):
        pass


@contextmanager
def whole_folder(path: Path, contents: Mapping[str, str | bytes | memoryview]) -> Iterator[None]:
    """As :func:`write_folder`, but the folder is moved to ``path`` at the end of the block, and deleted if
    the block raises.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.urandom(8).hex()}")
    try:
        temporary.mkdir()
        for name, content in contents.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            (temporary / name).write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    try:
        yield
        try:
            os.rename(temporary, target)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
