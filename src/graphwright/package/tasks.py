"""The tasks of a target as they are kept: enough to run them; all that is known of them where one asks."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from graphwright.lower.words import words_of
from graphwright.records import dataclass

if TYPE_CHECKING:
    from graphwright.lower.tasks import HostFunction, Program

_SERIALIZE = "graphwright.lower.serialize"
"""Imported where a program is wanted, or was made: running one does without."""


@dataclass(frozen=True)
class StoredProgram:
    """``data`` is JSON: what ``lower/serialize.py`` makes of a program."""

    data: bytes

    @staticmethod
    def of(program: Program) -> StoredProgram:
        """Keep ``program``."""
        plain = importlib.import_module(_SERIALIZE).to_plain(program)
        return StoredProgram(json.dumps(plain, separators=(",", ":"), sort_keys=True).encode())

    def program(self) -> Program:
        """All of it. Raises KeyError, TypeError, ValueError or IndexError where it is malformed."""
        made: Program = importlib.import_module(_SERIALIZE).from_plain(self._plain)
        return made

    def check(self) -> None:
        """Raise KeyError, TypeError, ValueError, IndexError or OverflowError where it cannot be run."""
        _ = self.words, self.kernels, self.ports, self.hosts

    @cached_property
    def words(self) -> bytes:
        """What the native runtime reads. Raises as :meth:`program` does, and OverflowError."""
        return words_of(self._plain)

    @cached_property
    def kernels(self) -> Sequence[tuple[str, str]]:
        """Symbol and module of each kernel."""
        return [(str(symbol), str(module)) for symbol, module in self._plain["kernels"]]

    @cached_property
    def ports(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Names and dtypes of the inputs, and of the outputs."""
        inputs, outputs = self._plain["inputs"], self._plain["outputs"]
        return [(name, dtype) for name, dtype, _ in inputs], [(name, dtype) for name, dtype, _ in outputs]

    @cached_property
    def hosts(self) -> tuple[HostFunction, ...]:
        """What runs in Python: nothing, mostly."""
        return self.program().hosts if self._plain["hosts"] else ()

    @cached_property
    def _plain(self) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(self.data)
        return made
