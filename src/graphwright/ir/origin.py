"""The ops that nodes were decomposed from."""

from __future__ import annotations

from collections.abc import Iterator

from graphwright.ir.op import Op
from graphwright.records import dataclass


@dataclass(frozen=True, eq=False)
class Origin:
    """The op of a node that was decomposed. The nodes that replace it refer to the same Origin object, which
    is only equal to itself.

    ``outer``: the origin of the decomposed node, if it came from a decomposition itself.
    """

    op: type[Op]
    outer: Origin | None = None

    def __iter__(self) -> Iterator[Origin]:
        """All origins, from the outermost one to this one."""
        if self.outer is not None:
            yield from self.outer
        yield self
