"""The arguments of a kernel as a record: Python builds launches from it, and :class:`Abi` the C struct."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from graphwright.ir.symbols import Dim, symbol
from graphwright.records import dataclass, fields


@dataclass(frozen=True)
class Arguments:
    """The base class of arguments in the order of the call: those of the base class come first."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of all arguments."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def symbols(cls) -> Self:
        """Each argument as the symbol of its name, for formulas in terms of the arguments."""
        arguments: Any = map(symbol, cls.names())
        return cls(*arguments)

    def __iter__(self) -> Iterator[Dim]:
        return (getattr(self, name) for name in self.names())

    def __len__(self) -> int:
        return len(self.names())
