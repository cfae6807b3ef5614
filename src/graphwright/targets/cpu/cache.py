"""The on-disk cache of compiled kernels, keyed by a hash of everything that affects the code.

The folder is private to its user and contains plain files named by content, so it can be moved. Its size is
limited by dropping the least recently used entries. The key is saved with each entry, to explain cache
misses.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from graphwright.config import Options
from graphwright.log import debug
from graphwright.records import dataclass, fields
from graphwright.support.event_sink import now, record_cache
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.private_folder import PrivateFolder
from graphwright.targets.cpu.toolchain import Compilers, Toolchain, compile_all

_FORMAT: Final = "1"


@dataclass(frozen=True)
class Key:
    """Everything that affects the code, as text; ``source`` is the hash of the source."""

    source: str
    isa: str
    flags: str
    compiler: str
    options: str
    format: str = _FORMAT

    @property
    def digest(self) -> str:
        """Its name in the cache."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def key_of(source: str, isa: Isa, toolchain: Toolchain, options: Options) -> Key:
    """The key of one translation unit. It has the version text of the compiler, not its path."""
    return Key(
        _hash(source),
        isa.name,
        " ".join(toolchain.flags(isa)),
        toolchain.identity,
        json.dumps(options.key(), sort_keys=True),
    )


@dataclass(frozen=True)
class Stats:
    """``hits`` and ``misses`` of this cache object, and the number and bytes of entries in the folder."""

    hits: int
    misses: int
    entries: int
    bytes: int


class KernelCache:
    """The cache of one user's compiled kernels, which several processes can use at the same time."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._files = PrivateFolder(self.options.cache_folder / "kernels")
        self._hits = self._misses = 0

    @property
    def folder(self) -> Path:
        """The folder of the cache."""
        return self._files.path

    def compile(
        self, sources: Sequence[str], isa: Isa, toolchain: Toolchain, compilers: Compilers | None = None
    ) -> list[bytes]:
        """Shared objects of ``sources``, from the cache or else compiled in parallel and stored."""
        keys = [key_of(source, isa, toolchain, self.options) for source in sources]
        found = [self.load(key) for key in keys]
        missing = list(dict.fromkeys(s for s, code in zip(sources, found, strict=True) if code is None))
        debug("compiling %d of %d translation units, the others are in the cache", len(missing), len(keys))
        objects = compile_all(missing, isa, toolchain, compilers=compilers) if missing else []
        compiled = dict(zip(missing, objects, strict=True))
        result = []
        for source, key, code in zip(sources, keys, found, strict=True):
            if code is None:
                code = compiled[source]
                self.store(key, code)
            result.append(code)
        return result

    def kept(self, sources: Sequence[str], isa: Isa) -> list[bytes] | None:
        """Cached shared objects of ``sources``, whichever compiler made them; None if one is missing."""
        options = json.dumps(self.options.key(), sort_keys=True)
        keys = {
            key.source: key
            for path in self._files.entries(".json")
            if (key := self._key(path)) is not None
            and (key.isa, key.options, key.format) == (isa.name, options, _FORMAT)
        }
        found = [self.load(keys[source]) if source in keys else None for source in map(_hash, sources)]
        objects = [code for code in found if code is not None]
        return objects if len(objects) == len(found) else None

    def load(self, key: Key) -> bytes | None:
        """The shared object of ``key``; None if there is none, or it is damaged."""
        start = now()
        data = self._files.read(f"{key.digest}.so")
        is_whole = data is not None and hashlib.sha256(data[32:]).digest() == data[:32]
        record_cache("kernels", start, is_whole)
        if data is None or not is_whole:
            self._misses += 1
            return None
        self._files.touch(f"{key.digest}.so")
        self._hits += 1
        return data[32:]

    def store(self, key: Key, code: bytes) -> None:
        """Stores ``code`` under ``key``. If the cache cannot be written, or other users can access it, it
        only warns once.
        """
        if not self._files.usable():
            return
        try:
            self._files.write(f"{key.digest}.json", json.dumps(asdict(key)).encode())
            self._files.write(f"{key.digest}.so", hashlib.sha256(code).digest() + code)
            self._files.shrink(".so", self.options.cache_limit << 20, len(code))
        except OSError as error:
            self._files.warn(error)

    def explain_miss(self, key: Key) -> str:
        """Why ``key`` is not in the cache: how it differs from the most similar entry."""
        if self._files.read(f"{key.digest}.so") is not None:
            return "not a miss: it is in the cache"
        known = [other for path in self._files.entries(".json") if (other := self._key(path)) is not None]
        if not known:
            return "the cache is empty"
        names = [field.name for field in fields(Key)]
        nearest = min(known, key=lambda other: sum(getattr(other, n) != getattr(key, n) for n in names))
        changed = [n for n in names if getattr(nearest, n) != getattr(key, n)]
        if not changed:
            return "the entry was dropped for space, or is damaged"
        if len(changed) == len(names) - 1 or (
            "source" in changed and not any(o.source == key.source for o in known)
        ):
            return f"the source is new; nearest entry differs in {', '.join(changed)}"
        return "; ".join(f"{n} changed from {getattr(nearest, n)!r} to {getattr(key, n)!r}" for n in changed)

    def clear(self) -> int:
        """Removes all entries; returns their number."""
        return self._files.clear(".so")

    def stats(self) -> Stats:
        """The statistics of this object and of the folder."""
        entries = self._files.entries(".so")
        return Stats(self._hits, self._misses, len(entries), self._files.bytes(".so"))

    def _key(self, path: Path) -> Key | None:
        data = self._files.read(path.name)
        try:
            return Key(**json.loads(data)) if data is not None else None
        except (ValueError, TypeError):
            return None


def _hash(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()
