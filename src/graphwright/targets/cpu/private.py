"""A folder of small files that its user alone may read and write."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from graphwright.errors import Diagnostic, ToolchainError
from graphwright.log import warn_once


class PrivateFolder:
    """Made when it is first used; safe for several processes at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def usable(self) -> bool:
        """Make the folder; False, and a warning, if it cannot be; ToolchainError if others may use it."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
            seen = self.path.lstat()
        except OSError as error:
            self.warn(error)
            return False
        private = stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.getuid() and not seen.st_mode & 0o077
        if not private:
            message = f"{self.path} is not a folder that this user alone may read and write"
            hint = f"chmod 700 {self.path}, or choose another with GRAPHWRIGHT_CACHE_DIR"
            raise ToolchainError(Diagnostic("cache-unsafe", message, hint=hint))
        return True

    def warn(self, error: OSError) -> None:
        """Say once that nothing is kept in the cache."""
        folder = self.path.parent
        warn_once(
            f"cache {folder}",
            "compiled kernels are not kept, each start compiles them again: %s cannot be written (%s); "
            "name another folder with cache_dir (--cache-dir, GRAPHWRIGHT_CACHE_DIR)",
            folder,
            error.strerror or error,
        )

    def read(self, name: str) -> bytes | None:
        """A plain file of this user's; None if it is absent or anything else."""
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
        """All of it or nothing: a temporary file (mode 0600), then a rename. Raises OSError."""
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
        return sorted(p for p in self.path.iterdir() if p.suffix == suffix and not p.name.startswith("."))

    def bytes(self, suffix: str) -> int:
        """What its files whose names end in ``suffix`` take."""
        return sum(map(_size, self.entries(suffix)))

    def touch(self, name: str) -> None:
        """Note that a file was used."""
        with contextlib.suppress(OSError):
            os.utime(self.path / name)

    def drop(self, entry: Path) -> None:
        """Remove a file and the key beside it."""
        entry.unlink(missing_ok=True)
        entry.with_suffix(".json").unlink(missing_ok=True)

    def shrink(self, suffix: str, limit: int) -> None:
        """Drop the files used longest ago until the rest fits; an eighth of room is made at once."""
        entries = self.entries(suffix)
        total = sum(map(_size, entries))
        if total <= limit:
            return
        for path in sorted(entries, key=_used):
            if total <= limit - limit // 8:
                break
            total -= _size(path)
            self.drop(path)

    def clear(self, suffix: str) -> int:
        """Drop all files whose names end in ``suffix``, and all keys; how many files there were."""
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
