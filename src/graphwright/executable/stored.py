"""The tasks of a target as a package stores them: decoded as far as running needs, and fully on demand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from graphwright.low_ir.wire import LAUNCH, words_of
from graphwright.records import dataclass

if TYPE_CHECKING:
    from graphwright.low_ir.tasks import HostFunction, TaskGraph


Bindings = tuple[list[tuple[str, str]], list[tuple[str, str]]]


@dataclass(frozen=True)
class _Contents:
    words: bytes
    kernels: tuple[tuple[str, str], ...]
    bindings: Bindings
    has_hosts: bool
    launches: tuple[tuple[str, int], ...]
    """Source nodes of each task, and its kernel; -1 for tasks that launch none."""
    dims: tuple[list[list[int]], list[list[int]]]
    """The registers with the sizes of the inputs, and of the outputs."""


@dataclass(frozen=True)
class StoredTasks:
    """The tasks of a program; ``data`` is the JSON of ``low_ir/serialize.py``."""

    data: bytes

    @staticmethod
    def of(tasks: TaskGraph) -> StoredTasks:
        """Stores ``tasks``."""
        from graphwright.low_ir.serialize import to_plain  # not needed to run stored tasks

        plain = to_plain(tasks)
        stored = StoredTasks(json.dumps(plain, separators=(",", ":"), sort_keys=True).encode())
        with suppress(OverflowError):  # loading the tasks raises it again
            vars(stored)["_contents"] = _contents(plain)  # saves decoding the data
        return stored

    def task_graph(self) -> TaskGraph:
        """All tasks, decoded. Raises KeyError, TypeError, ValueError or IndexError if they are malformed."""
        from graphwright.low_ir.serialize import from_plain

        return from_plain(json.loads(self.data))

    def check(self) -> None:
        """Raises KeyError, TypeError, ValueError, IndexError or OverflowError if the tasks cannot be run."""
        _ = self._contents, self.hosts

    @property
    def words(self) -> bytes:
        """The encoded program for the native runtime. Raises the errors of :meth:`check`."""
        return self._contents.words

    @property
    def kernels(self) -> Sequence[tuple[str, str]]:
        """Symbol and module of each kernel."""
        return self._contents.kernels

    @property
    def bindings(self) -> Bindings:
        """Names and dtypes of the inputs, and of the outputs."""
        return self._contents.bindings

    @property
    def launches(self) -> Sequence[tuple[str, int]]:
        """Source nodes of each task, and the number of its kernel; -1 for tasks that launch none."""
        return self._contents.launches

    @property
    def dims(self) -> tuple[list[list[int]], list[list[int]]]:
        """The registers with the sizes of the inputs, and of the outputs."""
        return self._contents.dims

    @cached_property
    def hosts(self) -> tuple[HostFunction, ...]:
        """The functions that run in Python; usually none."""
        return self.task_graph().hosts if self._contents.has_hosts else ()

    @cached_property
    def _contents(self) -> _Contents:
        return _contents(json.loads(self.data))


def _contents(plain: dict[str, Any]) -> _Contents:
    """The parts of a program that running needs."""
    inputs, outputs = plain["inputs"], plain["outputs"]
    return _Contents(
        words_of(plain),
        tuple((str(symbol), str(module)) for symbol, module in plain["kernels"]),
        ([(name, dtype) for name, dtype, _ in inputs], [(name, dtype) for name, dtype, _ in outputs]),
        bool(plain["hosts"]),
        tuple((str(task[-1]), int(task[3]) if task[0] == LAUNCH else -1) for task in plain["tasks"]),
        ([dims for _, _, dims in inputs], [dims for _, _, dims in outputs]),
    )
