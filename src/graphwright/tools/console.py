"""Text for people: no line that leaves here has control characters, whoever wrote the names in it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from graphwright.errors import Diagnostic
from graphwright.ir.names import terminal
from graphwright.runtime.description import bytes_text as bytes_text

_LINE = 1_000_000
"""Characters of one line that are shown."""
_CELL = 100
_NUMBER = re.compile(r"([-+]?[0-9.]+(e[-+]?[0-9]+)?( [A-Za-z%]+)?|inf|nan|)")

_progress_console = Console(stderr=True, markup=False, highlight=False, emoji=False)


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner with a text on stderr, where that is a terminal; what it yields changes the text."""
    if not _progress_console.is_terminal:
        yield lambda changed: None
        return
    spinner = Spinner("dots", Text(text))
    with Live(
        spinner,
        console=_progress_console,
        transient=True,
        redirect_stdout=False,  # stdout may be a file, which is not where progress goes
        redirect_stderr=False,
    ):
        yield lambda changed: spinner.update(text=Text(terminal(changed)))


def say(text: str = "") -> None:
    """Lines on stdout: what was asked for."""
    _write(text, err=False)


def note(text: str) -> None:
    """Lines on stderr: what goes on."""
    _write(text, err=True)


def _write(text: str, err: bool) -> None:
    lines = [terminal(line, _LINE) for line in text.split("\n")]
    encoding = (sys.stderr if err else sys.stdout).encoding or "utf-8"
    typer.echo("\n".join(lines).encode(encoding, "replace").decode(encoding), err=err)


def report(diagnostics: Sequence[Diagnostic]) -> None:
    """All faults on stderr, each with where it is and what to do."""
    for fault in diagnostics:
        place = f"{terminal(fault.where)}: " if fault.where else ""
        note(f"error: {place}{fault.message} [{fault.code}]")
        if fault.hint:
            note(f"    {fault.hint}")


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = (), indent: str = "  ") -> None:
    """Columns on stdout, below ``head`` if there is one; those that hold only numbers stand to the right."""
    cells = [[terminal(cell, _CELL) for cell in row] for row in rows]
    right = [all(map(_NUMBER.fullmatch, column)) for column in zip(*cells, strict=True)]
    cells = [list(head), *cells] if head else cells
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = zip(row, widths, right or [False] * len(widths), strict=True)
        say(indent + "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in padded).rstrip())


def duration_text(nanoseconds: float) -> str:
    """``1.23 ms``."""
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3f} {unit}"
    return f"{nanoseconds / 1e3:.1f} us"
