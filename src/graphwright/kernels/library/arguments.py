"""Argument records that extend others, which NamedTuple cannot do."""

from __future__ import annotations

from collections.abc import Iterator

from graphwright.ir.symbols import Dim
from graphwright.records import dataclass, fields


@dataclass(frozen=True)
class Arguments:
    """The base class of arguments in the order of the call: those of the base class come first."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of all arguments."""
        return tuple(field.name for field in fields(cls))

    def __iter__(self) -> Iterator[Dim]:
        return (getattr(self, name) for name in self.names())

    def __len__(self) -> int:
        return len(self.names())
