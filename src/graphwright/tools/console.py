"""Text for people: no line that leaves here has control characters, whoever wrote the names in it."""

from __future__ import annotations

import logging
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import typer
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.spinner import Spinner
from rich.text import Text

from graphwright.errors import Diagnostic
from graphwright.ir.names import terminal
from graphwright.log import NAME
from graphwright.runtime.description import bytes_text as bytes_text
from graphwright.runtime.description import duration_text as duration_text
from graphwright.support.terminal_width import terminal_width

_LINE = 1_000_000
"""Characters of one line that are shown."""
_CELL = 100
_SHORT_CELL = 12
"""Characters of a text that are shown on the narrowest terminal."""
_LINE_WIDTH = 110
_NUMBER = re.compile(r"([-+]?[0-9.]+(e[-+]?[0-9]+)?( [A-Za-z%]+)?|inf|nan|)")

_progress_console = Console(stderr=True, markup=False, highlight=False, emoji=False)


_quiet = False
"""Whether only results and errors are written."""


class _Handler(logging.Handler):
    """Writes what the library logs to stderr, below the command's own lines."""

    def emit(self, record: logging.LogRecord) -> None:
        _write(f"{record.levelname.lower()}: {record.getMessage()}", err=True)


_handler = _Handler()


def set_verbosity(verbose: int, quiet: bool) -> None:
    """Show what the library logs: warnings; with ``verbose`` 1 what was done, with 2 each detail; nothing but
    errors if ``quiet``, nor notes and progress.
    """
    global _quiet
    _quiet = quiet
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logger = logging.getLogger(NAME)
    logger.removeHandler(_handler)
    logger.addHandler(_handler)
    logger.setLevel(logging.ERROR if quiet else level)


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner with a text on stderr, where that is a terminal; what it yields changes the text."""
    if not _progress_console.is_terminal or _quiet:
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


@contextmanager
def progress_bar(steps: int) -> Iterator[Callable[[str, int], None]]:
    """A bar of ``steps`` on stderr, where that is a terminal; what it yields sets the text and the steps that
    are done.
    """
    if not _progress_console.is_terminal or _quiet:
        yield lambda text, done: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns,
        console=_progress_console,
        transient=True,
        redirect_stdout=False,  # stdout may be a file, which is not where progress goes
        redirect_stderr=False,
    ) as bar:
        task = bar.add_task("", total=steps)
        yield lambda text, done: bar.update(task, description=terminal(text), completed=done)


def say(text: str = "") -> None:
    """Lines on stdout: what was asked for."""
    _write(text, err=False)


def note(text: str) -> None:
    """Lines on stderr: what goes on."""
    if not _quiet:
        _write(text, err=True)


def _write(text: str, err: bool) -> None:
    stream: TextIO | None = sys.stderr if err else sys.stdout
    if stream is None:  # the caller closed it
        return
    lines = [terminal(line, _LINE) for line in text.split("\n")]
    encoding = stream.encoding or "utf-8"
    typer.echo("\n".join(lines).encode(encoding, "replace").decode(encoding), err=err)


def report(diagnostics: Sequence[Diagnostic]) -> None:
    """All faults on stderr, each with where it is and what to do."""
    for fault in diagnostics:
        place = f"{terminal(fault.where)}: " if fault.where else ""
        _write(f"error: {place}{fault.message} [{fault.code}]", err=True)
        if fault.hint:
            _write(f"    {fault.hint}", err=True)


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = (), indent: str = "  ") -> None:
    """Columns on stdout, below ``head`` if there is one; those that hold only numbers stand to the right.
    On a narrow terminal texts are cut, and the last one goes on below.
    """
    cells = [[terminal(cell, _CELL) for cell in row] for row in rows]
    right = [all(map(_NUMBER.fullmatch, column)) for column in zip(*cells, strict=True)]
    cells = [list(head), *cells] if head else cells
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    widths = _fitting(widths, right, terminal_width(), len(indent))
    for *first, last in cells:
        parts = textwrap.wrap(last, widths[-1]) if len(last) > widths[-1] else [last]
        for row in ([*first, parts[0]], *([""] * len(first) + [part] for part in parts[1:])):
            padded = zip(row, widths, right or [False] * len(widths), strict=True)
            fields = (c.rjust(w) if r else terminal(c, w).ljust(w) for c, w, r in padded)
            say(indent + "  ".join(fields).rstrip())


def _fitting(widths: list[int], are_numbers: Sequence[bool], width: int | None, indent: int) -> list[int]:
    """``widths`` of columns, those of the widest texts lowered until lines have ``width`` characters."""
    over = 0 if width is None else indent + sum(widths) + 2 * (len(widths) - 1) - width
    for _ in range(over):
        texts = [k for k, is_number in enumerate(are_numbers) if not is_number and widths[k] > _SHORT_CELL]
        if texts:
            widths[max(texts, key=widths.__getitem__)] -= 1
    return widths


def paragraph(text: str, most_lines: int = 2) -> str:
    """``text`` as a line of a report, and below it, further to the right, what does not fit; of more lines
    the end is cut.
    """
    indent = text[: len(text) - len(text.lstrip())]
    wrapped = textwrap.wrap(
        text.lstrip(),
        line_width(),
        initial_indent=indent,
        subsequent_indent=indent + "    ",
        break_on_hyphens=False,
        max_lines=most_lines,
        placeholder=" …",
    )
    return "\n".join(wrapped)


def line_width(most: int = _LINE_WIDTH) -> int:
    """Characters that a line of a report may have: ``most``, or fewer where the terminal is narrower."""
    return min(most, terminal_width() or most)
