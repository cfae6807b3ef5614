"""Records the source files from which a native library was generated. An editable build stores their digests
in the library, and loading it warns if the files have changed since.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def record_of(root: Path, files: Iterable[Path]) -> str:
    """A line for each of ``files`` below ``root``: its path and a digest."""
    return "".join(f"{file.relative_to(root)} {_digest(file)}\n" for file in sorted(set(files)))


def changed_sources(library: Path, record: str, root: Path) -> list[str]:
    """The recorded files that have changed since the build of ``library``, or are gone. Only files that are
    newer than the library are read.
    """
    built = library.stat().st_mtime
    changed = []
    for line in record.splitlines():
        name, _, digest = line.rpartition(" ")
        path = os.path.join(root, name)
        try:
            if os.stat(path).st_mtime > built and _digest(Path(path)) != digest:
                changed.append(name)
        except FileNotFoundError:
            changed.append(name)
    return changed


def _digest(file: Path) -> str:
    import hashlib  # takes longer to import than loading a model

    return hashlib.blake2b(file.read_bytes(), digest_size=8).hexdigest()
