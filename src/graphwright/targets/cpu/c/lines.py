"""Lines of C, and what names stand for where they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from graphwright.ir.symbols import Dim
from graphwright.targets.cpu.c.dims import dim_text, factor_text
from graphwright.targets.cpu.c.scope import Lanes, Scope, Value
from graphwright.targets.cpu.c.support import C_TYPES, Support, lane_dtype


class Lines:
    """A function while it is written: the lines so far, the names in force, the vector loop around.

    ``scalar``: no vectors at all, a naive version to check against.
    """

    def __init__(self, support: Support, scalar: bool = False) -> None:
        self.support = support
        self.scalar = scalar
        self.lines: list[str] = []
        self.depth = 1
        self.scope = Scope()
        self.lanes: Lanes | None = None
        self._counts: dict[str, int] = {}
        self.shared: dict[int, Value] = {}
        """Values that the statement at hand uses several times, by identity: they have names."""

    def line(self, text: str) -> None:
        """Append one line at the depth at hand."""
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """``head { ... }`` with a scope of its own."""
        self.line(f"{head} {{".strip())
        outer = self.scope
        self.scope = Scope(dict(outer.names), dict(outer.variables), dict(outer.values), dict(outer.partials))
        self.depth += 1
        yield
        self.depth -= 1
        self.scope = outer
        self.line("}")

    def fresh(self, stem: str) -> str:
        """A local name: two underscores keep it apart from c_name's."""
        self._counts[stem] = self._counts.get(stem, 0) + 1
        return f"{stem}_{self._counts[stem]}_"

    def dim(self, dim: Dim) -> str:
        """A size or an index, as C of type int64_t."""
        return self.support.dim(dim_text(dim, self.scope.names))

    def factor(self, dim: Dim) -> str:
        """The same, as an operand of a C operator."""
        return self.support.dim(factor_text(dim, self.scope.names))

    def value_type(self, value: Value) -> str:
        """The C type of a variable that holds ``value``."""
        lane = lane_dtype(value.dtype)
        if value.vector:
            return self.support.vector(lane, self.count)
        return C_TYPES[lane.name]

    @property
    def count(self) -> int:
        """Lanes of the vector loop around."""
        assert self.lanes is not None
        return self.lanes.count


def operand(text: str) -> str:
    """``text`` so that a prefix or infix operator may stand beside it."""
    return (
        text
        if re.fullmatch(
            r"\w+|\w+\[[\w +]+\]|[\w.]+|\w+\((?:[^()]|\([^()]*\))*\)"
            r"|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)",
            text,
        )
        else f"({text})"
    )
