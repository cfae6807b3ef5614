"""Lines of C code under construction, and the names in scope."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from graphwright.ir.symbols import Dim
from graphwright.targets.cpu.c.dims import dim_text, factor_text
from graphwright.targets.cpu.c.dtypes import C_TYPES, lane_dtype
from graphwright.targets.cpu.c.prelude import Prelude
from graphwright.targets.cpu.c.scope import Lanes, Scope, Value
from graphwright.targets.cpu.c.storage import Storage


class Lines:
    """A function under construction: its lines so far, the names in scope, and the enclosing vector loop.

    ``scalar`` emits no vectors at all, for a naive version to compare with.
    """

    def __init__(self, prelude: Prelude, scalar: bool = False) -> None:
        self.prelude, self.storage = prelude, Storage(prelude)
        self.scalar = scalar
        self.lines: list[str] = []
        self.depth = 1
        self.scope = Scope()
        self.lanes: Lanes | None = None
        self._counts: dict[str, int] = {}
        self.shared: dict[int, Value] = {}
        """Values that the current statement uses several times and that have names, by identity."""

    def line(self, text: str) -> None:
        """Appends one line with the current indentation."""
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Emits ``head { ... }`` with a scope of its own."""
        self.line(f"{head} {{".strip())
        outer = self.scope
        self.scope = Scope(dict(outer.names), dict(outer.variables), dict(outer.values), dict(outer.partials))
        self.depth += 1
        yield
        self.depth -= 1
        self.scope = outer
        self.line("}")

    def fresh(self, stem: str) -> str:
        """A unique local name; its two underscores distinguish it from names of :func:`c_name`."""
        self._counts[stem] = self._counts.get(stem, 0) + 1
        return f"{stem}_{self._counts[stem]}_"

    def dim(self, dim: Dim) -> str:
        """A size or an index as a C expression of type int64_t."""
        return self.prelude.dim(dim_text(dim, self.scope.names))

    def factor(self, dim: Dim) -> str:
        """The same, as an operand of a C operator."""
        return self.prelude.dim(factor_text(dim, self.scope.names))

    def value_type(self, value: Value) -> str:
        """The C type of a variable that holds ``value``."""
        lane = lane_dtype(value.dtype)
        if value.vector:
            return self.prelude.vector(lane, self.count)
        return C_TYPES[lane.name]

    @property
    def count(self) -> int:
        """The lanes of the enclosing vector loop."""
        assert self.lanes is not None
        return self.lanes.count


def operand(text: str) -> str:
    """``text``, in parentheses if a prefix or infix operator could not stand next to it."""
    return (
        text
        if re.fullmatch(
            r"\w+|\w+\[[\w +]+\]|[\w.]+|\w+\((?:[^()]|\([^()]*\))*\)"
            r"|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)",
            text,
        )
        else f"({text})"
    )
