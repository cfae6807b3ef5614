"""The tasks of a target as they are kept: enough to run them; all that is known of them where one asks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from graphwright.lower.wire import words_of
from graphwright.records import dataclass

if TYPE_CHECKING:
    from graphwright.lower.tasks import HostFunction, TaskGraph


Ports = tuple[list[tuple[str, str]], list[tuple[str, str]]]


@dataclass(frozen=True)
class _Contents:
    words: bytes
    kernels: tuple[tuple[str, str], ...]
    ports: Ports
    has_hosts: bool


@dataclass(frozen=True)
class StoredTasks:
    """``data`` is JSON: what ``lower/serialize.py`` makes of a program."""

    data: bytes

    @staticmethod
    def of(tasks: TaskGraph) -> StoredTasks:
        """Keep ``tasks``."""
        from graphwright.lower.serialize import to_plain  # running stored tasks does without

        plain = to_plain(tasks)
        made = StoredTasks(json.dumps(plain, separators=(",", ":"), sort_keys=True).encode())
        with suppress(OverflowError):  # raised where the tasks are loaded
            vars(made)["_contents"] = _contents(plain)  # as reading the data would find it
        return made

    def task_graph(self) -> TaskGraph:
        """All of it. Raises KeyError, TypeError, ValueError or IndexError where it is malformed."""
        from graphwright.lower.serialize import from_plain

        return from_plain(json.loads(self.data))

    def check(self) -> None:
        """Raise KeyError, TypeError, ValueError, IndexError or OverflowError where it cannot be run."""
        _ = self._contents, self.hosts

    @property
    def words(self) -> bytes:
        """What the native runtime reads. Raises as :meth:`program` does, and OverflowError."""
        return self._contents.words

    @property
    def kernels(self) -> Sequence[tuple[str, str]]:
        """Symbol and module of each kernel."""
        return self._contents.kernels

    @property
    def ports(self) -> Ports:
        """Names and dtypes of the inputs, and of the outputs."""
        return self._contents.ports

    @cached_property
    def hosts(self) -> tuple[HostFunction, ...]:
        """What runs in Python: nothing, mostly."""
        return self.task_graph().hosts if self._contents.has_hosts else ()

    @cached_property
    def _contents(self) -> _Contents:
        return _contents(json.loads(self.data))


def _contents(plain: dict[str, Any]) -> _Contents:
    """What runs of a program; its lists, which are many, are not kept."""
    inputs, outputs = plain["inputs"], plain["outputs"]
    return _Contents(
        words_of(plain),
        tuple((str(symbol), str(module)) for symbol, module in plain["kernels"]),
        ([(name, dtype) for name, dtype, _ in inputs], [(name, dtype) for name, dtype, _ in outputs]),
        bool(plain["hosts"]),
    )
