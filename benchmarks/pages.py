"""Writes generated parts of Markdown pages, and tables in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """A part of a page between two marks, of which the first names the command that writes it."""

    name: str
    command: str

    @property
    def begin(self) -> str:
        """The mark before the part."""
        return f"<!-- {self.name}: written by {self.command} -->"

    @property
    def end(self) -> str:
        """The mark after the part."""
        return f"<!-- end of {self.name} -->"

    def filled(self, page: str, text: str) -> str:
        """``page`` with ``text`` in the part; a ValueError if it has none."""
        before, begin, rest = page.partition(self.begin)
        _, end, after = rest.partition(self.end)
        if not begin or not end:
            raise ValueError(f"no {self.begin} and {self.end}")
        return f"{before}{begin}\n\n{text}\n{end}{after}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], texts: Sequence[int] = (0,)) -> str:
    """A table; columns are numbers, but for those in ``texts``."""
    rule = ["---" if k in texts else "---:" for k in range(len(head))]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rows))


def threads_text(threads: int) -> str:
    """The number of threads as text: ``2 threads``."""
    return f"{threads} thread{'s' * (threads > 1)}"
