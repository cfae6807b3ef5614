"""Profiles of sessions with ``enable_profiling``: a file of Chrome's trace events, as ONNX Runtime writes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TextIO

from graphwright.runtime.events.task_calls import TaskTime
from graphwright.support.fork_lock import ForkLock


class Profile:
    """The tasks of all runs since a session began to be created."""

    def __init__(self, prefix: str) -> None:
        self.start = time.monotonic_ns()
        self._prefix = prefix
        self._events: list[dict[str, Any]] = []
        self._lock = ForkLock()

    def initialized(self) -> None:
        """Adds the time since the beginning: reading, compiling and loading the model."""
        self._events.append(
            self._event("session_initialization", "Session", self.start, time.monotonic_ns(), 0, {})
        )

    def add(self, begin: int, times: Sequence[TaskTime]) -> None:
        """Adds one run, which began at ``begin`` nanoseconds of the monotonic clock."""
        end = time.monotonic_ns()
        names = ("model_run", "SequentialExecutor::Execute")
        runs = [self._event(name, "Session", begin, end, 0, {}) for name in names]
        with self._lock:
            self._events += [*runs, *map(self._task, times)]

    def write(self) -> str:
        """Writes a new file and returns its path. Raises OSError."""
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S_%f")[:-3]
        with self._lock, _new_file(f"{self._prefix}_{stamp}") as file:
            json.dump(self._events, file)
        return file.name

    def _task(self, task: TaskTime) -> dict[str, Any]:
        """The event of a task, with the keys of ONNX Runtime that scripts use; the key ``kernel`` is an
        addition.

        The types and shapes are empty: a kernel reads and writes memory.
        """
        details = {
            "op_name": task.ops or task.kernel,
            "provider": "CPUExecutionProvider",
            "kernel": task.kernel,
            "node_index": str(task.task),
            "parameter_size": str(task.read_weights),
            "activation_size": str(task.read),
            "output_size": str(task.written),
            "input_type_shape": [],
            "output_type_shape": [],
        }
        return self._event(f"{task.name}_kernel_time", "Node", task.start, task.end, task.thread, details)

    def _event(
        self, name: str, kind: str, begin: int, end: int, thread: int, details: dict[str, Any]
    ) -> dict[str, Any]:
        """An event; times are in whole microseconds since the session began, which scripts format as such."""
        return {
            "cat": kind,
            "pid": os.getpid(),
            "tid": thread,
            "dur": (end - begin) // 1000,
            "ts": (begin - self.start) // 1000,
            "ph": "X",
            "name": name,
            "args": details,
        }


def _new_file(path: str, number: int = 0) -> TextIO:
    """``path.json``, or a name with a number if another session ended in the same millisecond."""
    try:
        return open(f"{path}{f'_{number}' * bool(number)}.json", "x", encoding="utf-8")
    except FileExistsError:
        return _new_file(path, number + 1)
