"""What a model asks of a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from graphwright.errors import GraphwrightError

Array = np.ndarray[Any, Any]
REFERENCE_FAULTS: Final = (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
"""What references raise for data that they cannot take: what NumPy does."""


class RunError(GraphwrightError):
    """A run that began could not end: a kernel refused its data, or a branch was taken that cannot run."""


@dataclass(frozen=True)
class TaskTime:
    """One task of a traced run; times in nanoseconds on the monotonic clock."""

    task: int
    name: str
    kernel: str
    start: int
    end: int
    thread: int


class Device(Protocol):
    """A loaded model. Arrays come in the order of its inputs, of the right dtypes, C-contiguous."""

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        """One run; outputs not given are new arrays. Raises FeedError if shapes do not fit, and RunError."""

    def trace(self, arrays: Sequence[Array], threads: int) -> list[TaskTime]:
        """One run with time stamps."""

    def stats(self) -> dict[str, int]:
        """Counters: ``runs``, ``host_calls`` (entries into Python), plans and their cache."""
