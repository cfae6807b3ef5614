"""Prints text for users. Control characters are removed from all lines, as names may come from untrusted
files.
"""

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

from graphwright.errors import Diagnostic, with_each_hint_once
from graphwright.log import NAME
from graphwright.support.escaping import terminal
from graphwright.support.terminal_width import terminal_width

_LINE = 1_000_000
"""The most characters of one line that are shown."""
_CELL = 100
_LAST_CELL = 400
"""The most characters of a cell of a table, and of one in the last column, which is wrapped."""
_SHORT_CELL = 12
"""The characters of a text that are shown even on a narrow terminal."""
_LINE_WIDTH = 110
_NUMBER = re.compile(r"([-+]?[0-9.]+(e[-+]?[0-9]+)?( [A-Za-z%]+)?|inf|nan|)")

_progress_console = Console(stderr=True, markup=False, highlight=False, emoji=False)


_quiet = False
"""Whether only results and errors are written."""


class _Handler(logging.Handler):
    """Writes log messages of the library to stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        _write(f"{record.levelname.lower()}: {record.getMessage()}", err=True)


_handler = _Handler()


def set_verbosity(verbose: int, quiet: bool) -> None:
    """Sets the level of log messages: warnings by default, information with ``verbose`` 1, details with 2.
    ``quiet`` shows only errors, without notes and progress.
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
    """Shows a spinner with a text on stderr if this is a terminal; it yields a function that changes the
    text.
    """
    if not _progress_console.is_terminal or _quiet:
        yield lambda changed: None
        return
    spinner = Spinner("dots", Text(text))
    with Live(
        spinner,
        console=_progress_console,
        transient=True,
        redirect_stdout=False,  # stdout may be a file
        redirect_stderr=False,
    ):
        yield lambda changed: spinner.update(text=Text(terminal(changed)))


@contextmanager
def progress_bar(steps: int) -> Iterator[Callable[[str, int], None]]:
    """Shows a bar of ``steps`` on stderr if this is a terminal; it yields a function that sets the text and
    the number of completed steps.
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
        redirect_stdout=False,  # stdout may be a file
        redirect_stderr=False,
    ) as bar:
        task = bar.add_task("", total=steps)
        yield lambda text, done: bar.update(task, description=terminal(text), completed=done)


def say(text: str = "") -> None:
    """Prints results to stdout."""
    _write(text, err=False)


def note(text: str) -> None:
    """Prints notes about the progress to stderr."""
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
    """Prints all faults to stderr, each with its place and a hint."""
    for fault in with_each_hint_once(diagnostics):
        place = f"{terminal(fault.where)}: " if fault.where else ""
        _write(f"error: {place}{fault.message} [{fault.code}]", err=True)
        if fault.hint:
            _write(f"    {fault.hint}", err=True)


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = (), indent: str = "  ") -> None:
    """Prints a table to stdout, below ``head`` if given. Columns of numbers are right-aligned. On a narrow
    terminal, texts are cut, and the last column is wrapped; an only column with an indent.
    """
    cells = [[*(terminal(cell, _CELL) for cell in row[:-1]), terminal(row[-1], _LAST_CELL)] for row in rows]
    right = [all(map(_NUMBER.fullmatch, column)) for column in zip(*cells, strict=True)]
    cells = [list(head), *cells] if head else cells
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    widths = _fitting(widths, right, terminal_width(), len(indent))
    for *first, last in cells:
        deeper = "" if first else "    "  # the rows of one column would otherwise run into each other
        parts = (
            textwrap.wrap(last, widths[-1], subsequent_indent=deeper) if len(last) > widths[-1] else [last]
        )
        for row in ([*first, parts[0]], *([""] * len(first) + [part] for part in parts[1:])):
            padded = zip(row, widths, right or [False] * len(widths), strict=True)
            fields = (c.rjust(w) if r else terminal(c, w).ljust(w) for c, w, r in padded)
            say(indent + "  ".join(fields).rstrip())


def _fitting(widths: list[int], are_numbers: Sequence[bool], width: int | None, indent: int) -> list[int]:
    """``widths`` of columns, of which those of the widest texts are reduced until lines fit in ``width``
    characters.
    """
    over = 0 if width is None else indent + sum(widths) + 2 * (len(widths) - 1) - width
    for _ in range(over):
        texts = [k for k, is_number in enumerate(are_numbers) if not is_number and widths[k] > _SHORT_CELL]
        if texts:
            widths[max(texts, key=widths.__getitem__)] -= 1
    return widths


def paragraph(text: str, most_lines: int = 2) -> str:
    """``text`` as a line of a report, wrapped with an indent; it is cut after a few lines."""
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


def line_width() -> int:
    """The width of a line of a report, which is shorter on a narrow terminal."""
    return min(_LINE_WIDTH, terminal_width() or _LINE_WIDTH)
