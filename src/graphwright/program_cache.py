"""The on-disk cache of compiled programs, keyed by everything that a compilation depends on: the graph, the
contents of its constants, the options, the version of graphwright, and the ISA of the CPU.

An entry is an ``.om`` file with its key. The folder is private to its user. It can be moved, also to another
machine with the same ISA, which then needs no compiler. The option ``cache_limit`` limits its size.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Final
from weakref import WeakSet

import graphwright
from graphwright.config import Options
from graphwright.errors import GraphwrightError
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.graph import Module
from graphwright.ir.text.printer import print_module
from graphwright.loading import load
from graphwright.log import debug
from graphwright.records import dataclass, fields, replace
from graphwright.runtime.devices.kernel_library import library_digest
from graphwright.runtime.devices.this_cpu import for_this_cpu
from graphwright.runtime.model import Model
from graphwright.support.background import started
from graphwright.support.event_sink import now, record_cache
from graphwright.targets.cpu.private_folder import PrivateFolder
from graphwright.tuning.store import with_record

_FORMAT: Final = "1"
_SUFFIX: Final = ".om"
MOST_WEIGHTS = 64 << 20
"""The most bytes of weights of a cached program; packing more again takes no longer than reading them."""
_WRITERS: Final[WeakSet[Thread]] = WeakSet()


@dataclass(frozen=True)
class ProgramKey:
    """Everything that a compilation depends on, as hashes or text."""

    graph: str
    constants: str
    options: str
    isa: str
    version: str
    format: str = _FORMAT

    @property
    def digest(self) -> str:
        """Its name in the cache, which ends with that of the graph."""
        return f"{_hash(json.dumps(asdict(self), sort_keys=True))}-{self.graph}"


@dataclass(frozen=True)
class ProgramEntry:
    """An entry of the cache: its name, key, size in bytes, and the time of its last use, in seconds since
    1970.
    """

    name: str
    key: ProgramKey
    bytes: int
    used: float


def program_key(graph: Module, module: Module, options: Options) -> ProgramKey:
    """The key of ``module``, which is ``graph`` with some inputs replaced by constants."""
    here = with_record(for_this_cpu(options))
    held = " ".join(node.op.value.digest for node in module.walk() if isinstance(node.op, Constant))
    return ProgramKey(
        _hash(print_module(graph, constants="short")),
        _hash(held),
        json.dumps(
            {**here.key(), "specialize": options.specialize, "tuning": _hash(here.tuning)}, sort_keys=True
        ),
        here.isa,
        f"{graphwright.__version__} {_sources()} {library_digest(here.isa)}",
    )


class ProgramCache:
    """The cache of one user's compiled programs, which several processes can use at the same time."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._files = PrivateFolder(options.cache_folder / "programs")

    @property
    def folder(self) -> Path:
        """The folder of the cache."""
        return self._files.path

    def is_used(self) -> bool:
        """Whether the cache is used. It is not with plugins, which change what a graph means, or on other
        devices.
        """
        options = self._options
        return (
            options.cache_limit > 0
            and options.device == "cpu"
            and not options.plugins
            and self._files.usable()
        )

    def load(self, key: ProgramKey) -> Model | None:
        """The model of ``key``; None if there is none, or it is damaged."""
        start = now()
        model = self._loaded(key)
        record_cache("programs", start, model is not None)
        return model

    def _loaded(self, key: ProgramKey) -> Model | None:
        path = self.folder / f"{key.digest}{_SUFFIX}"
        if not os.path.isfile(path) or path.is_symlink():
            return None
        try:
            model = load(path, trust=True, options=replace(self._options, targets=()))
        except (GraphwrightError, OSError) as error:
            debug("a program of the cache is not used: %s", error)
            return None
        self._files.touch(path.name)
        return model

    def store(self, key: ProgramKey, model: Model) -> None:
        """Stores ``model`` under ``key`` in the background, unless it is too large. The process waits for
        this when it ends. If the cache cannot be written, it only warns once.
        """
        if len(model.package.weights.data) > min(MOST_WEIGHTS, self._limit // 2):
            return
        writer = Thread(target=self._write, args=(key, model), name="graphwright program cache")
        _WRITERS.update(started([writer]))
        if writer not in _WRITERS:
            self._write(key, model)

    @property
    def _limit(self) -> int:
        return self._options.cache_limit << 20

    def _write(self, key: ProgramKey, model: Model) -> None:
        try:
            self._files.write(f"{key.digest}.json", json.dumps(asdict(key)).encode())
            path = self.folder / f"{key.digest}{_SUFFIX}"
            model.save(path)
            self._files.shrink(_SUFFIX, self._limit, path.stat().st_size)
        except OSError as error:
            self._files.warn(error)

    @staticmethod
    def wait() -> None:
        """Waits until all pending entries are stored."""
        for writer in tuple(_WRITERS):
            writer.join()

    def entries(self) -> list[ProgramEntry]:
        """All entries, most recently used first."""
        found = []
        for path in self._files.entries(_SUFFIX):
            key = self._key(path.with_suffix(".json"))
            with suppress(FileNotFoundError):  # another process may drop it meanwhile
                seen = path.lstat()
                if key is not None:
                    found.append(ProgramEntry(path.stem, key, seen.st_size, seen.st_mtime))
        return sorted(found, key=lambda entry: -entry.used)

    def explain_miss(self, key: ProgramKey) -> str:
        """Why ``key`` is not in the cache: how it differs from the most similar entry."""
        known = self._files.entries(_SUFFIX)
        of_graph = [path for path in known if path.stem.endswith(key.graph)]  # reads only their keys
        same = [other for path in of_graph if (other := self._key(path.with_suffix(".json"))) is not None]
        if key in same:
            return "not a miss: it is in the cache"
        if not same:
            return "the graph is new" if known else "the cache is empty"
        names = [field.name for field in fields(ProgramKey)]
        changed = [tuple(n for n in names if getattr(other, n) != getattr(key, n)) for other in same]
        fewest = min(map(len, changed))
        nearest = next(each for each in changed if len(each) == fewest)
        return f"the graph is known, with other {' and '.join(nearest)}"

    def clear(self) -> int:
        """Removes all entries; returns their number."""
        return self._files.clear(_SUFFIX)

    def bytes(self) -> int:
        """The total size of the entries."""
        return self._files.bytes(_SUFFIX)

    def _key(self, path: Path) -> ProgramKey | None:
        data = self._files.read(path.name)
        try:
            return None if data is None else ProgramKey(**json.loads(data))
        except (ValueError, TypeError):
            return None


def age_text(used: float) -> str:
    """The time since ``used``, as text."""
    seconds = max(0, int(time.time() - used))
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit} {name} ago"
    return f"{seconds} s ago"


@cache
def _sources() -> str:
    """A hash of graphwright's own sources, which change during development while the version stays
    the same.
    """
    state, root = hashlib.blake2b(digest_size=10), Path(graphwright.__file__).parent
    for path in sorted((*root.rglob("*.py"), *root.rglob("*.json"))):
        state.update(str(path.relative_to(root)).encode())
        state.update(path.read_bytes())
    return state.hexdigest()


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
