"""The ops that nodes were decomposed from."""

from __future__ import annotations

from collections.abc import Iterator

from graphwright.ir.op import Op
from graphwright.records import dataclass


@dataclass(frozen=True, eq=False)
class Origin:
    """One node that was decomposed, which its parts remember: the kind of its op, and what the node itself
    was a part of. An origin is equal to itself alone.
    """

    op: type[Op]
    outer: Origin | None = None

    def __iter__(self) -> Iterator[Origin]:
        """The outermost one first, this one last."""
        if self.outer is not None:
            yield from self.outer
        yield self
