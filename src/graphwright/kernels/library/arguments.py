"""Records of arguments that share their first fields with others: what NamedTuple cannot inherit."""

from __future__ import annotations

from collections.abc import Iterator

from graphwright.ir.symbols import Dim
from graphwright.records import fields


class Arguments:
    """The base of a dataclass of arguments in the order of the call, those of its base first."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Of all arguments."""
        return tuple(field.name for field in fields(cls))  # type: ignore[arg-type]  # subclasses are dataclasses

    def __iter__(self) -> Iterator[Dim]:
        return (getattr(self, name) for name in self.names())

    def __len__(self) -> int:
        return len(self.names())
