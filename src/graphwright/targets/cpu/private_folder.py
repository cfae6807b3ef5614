"""A folder of small files that only its user may read and write."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from graphwright.log import warn_once

_WRITTEN: Final[dict[Path, int]] = {}
"""The bytes that this process wrote to a folder since it last read the sizes of all files there."""


class PrivateFolder:
    """A private folder, created on first use, which several processes can use at the same time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def usable(self) -> bool:
        """Creates the folder. Returns False, with a warning, if that fails or if other users may access it:
        what they wrote there would run.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
            seen = self.path.lstat()
        except OSError as error:
            self.warn(error)
            return False
        own = seen.st_uid == os.getuid()
        private = stat.S_ISDIR(seen.st_mode) and own and not seen.st_mode & 0o077
        if not private:
            chmod = f"run chmod 700 {self.path}, or " if own and stat.S_ISDIR(seen.st_mode) else ""
            self._warn(f"{self.path} is not a folder that only this user may read and write", chmod)
        return private

    def warn(self, error: OSError) -> None:
        """Warns once that compiled kernels are not cached."""
        self._warn(f"{self.path.parent} cannot be written ({error.strerror or error})")

    def _warn(self, reason: str, remedy: str = "") -> None:
        warn_once(
            f"cache {self.path.parent}",
            "compiled kernels are not cached, so each start compiles them again: %s; %sset another folder "
            "with cache_dir (--cache-dir, GRAPHWRIGHT_CACHE_DIR)",
            reason,
            remedy,
        )

    def read(self, name: str) -> bytes | None:
        """The contents of a regular file of this user; None if there is none."""
        if not self.usable():
            return None
        try:
            handle = os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(handle, "rb") as file:
            seen = os.fstat(handle)
            own = stat.S_ISREG(seen.st_mode) and seen.st_uid == os.getuid() and not seen.st_mode & 0o022
            return file.read() if own else None

    def write(self, name: str, data: bytes) -> None:
        """Writes a file atomically: a temporary file (mode 0600), then a rename. Raises OSError."""
        handle, temporary = tempfile.mkstemp(dir=self.path, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, self.path / name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def entries(self, suffix: str) -> list[Path]:
        """Its files whose names end in ``suffix``, in order."""
        if not self.usable():
            return []
        names = (name for name in os.listdir(self.path) if name.endswith(suffix) and not name.startswith("."))
        return [self.path / name for name in sorted(names)]

    def bytes(self, suffix: str) -> int:
        """The total size of its files whose names end in ``suffix``."""
        return sum(map(_size, self.entries(suffix)))

    def touch(self, name: str) -> None:
        """Marks a file as used now."""
        with contextlib.suppress(OSError):
            os.utime(self.path / name)

    def drop(self, entry: Path) -> None:
        """Removes a file and its key."""
        entry.unlink(missing_ok=True)
        entry.with_suffix(".json").unlink(missing_ok=True)

    def shrink(self, suffix: str, limit: int, added: int) -> None:
        """Removes the least recently used files until the rest is an eighth below ``limit``, if it exceeds
        that. ``added`` bytes were written: the folder is read at the first call of a process, and whenever a
        sixteenth of ``limit`` was written since.
        """
        unseen = _WRITTEN.get(self.path, limit) + added
        _WRITTEN[self.path] = unseen if unseen < limit // 16 else 0
        if unseen < limit // 16:
            return
        entries = self.entries(suffix)
        total = sum(map(_size, entries))
        if total <= limit - limit // 16:
            return
        for path in sorted(entries, key=_used):
            if total <= limit - limit // 8:
                break
            total -= _size(path)
            self.drop(path)

    def clear(self, suffix: str) -> int:
        """Removes all files whose names end in ``suffix``, and all keys; returns the number of files."""
        entries = self.entries(suffix)
        for path in (*entries, *self.entries(".json")):
            path.unlink(missing_ok=True)
        return len(entries)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _used(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
