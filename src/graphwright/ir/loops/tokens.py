"""Tokens of the text of kernels, and the base class of its parsers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.symbols import Dim, parse_dim
from graphwright.records import dataclass

_TOKEN: Final = re.compile(
    r"\s*(?:#[^\n]*\s*)*((?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|==|!=|<=|>=|\+=|//|\S)"
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
T = TypeVar("T")


@dataclass(frozen=True)
class _Token:
    text: str
    start: int


class KernelTokens:
    """The tokens of a kernel's text, and a position in them. Methods that do not find what they expect raise
    ModelError with line and column.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [_Token(m[1], m.start(1)) for m in _TOKEN.finditer(text)]
        self.at = 0
        """The index of the current token."""

    def peek(self, ahead: int = 0) -> str:
        """The text of the current token, or of one after it; empty at the end."""
        at = self.at + ahead
        return self.tokens[at].text if at < len(self.tokens) else ""

    def take(self) -> str:
        """Return the current token and move to the next one."""
        text = self.peek()
        self.at += 1
        return text

    def accept(self, text: str) -> bool:
        """Move past the current token if it is ``text``. Returns whether it was."""
        if self.peek() != text:
            return False
        self.at += 1
        return True

    def expect(self, *texts: str) -> None:
        """Move past ``texts``, which must be the next tokens."""
        for text in texts:
            if not self.accept(text):
                self.fail(f"expected {text!r}, found {self.peek() or 'the end'!r}")

    def name(self) -> str:
        """Move past an identifier, and return it."""
        if not _NAME.fullmatch(self.peek()):
            self.fail(f"expected a name, found {self.peek() or 'the end'!r}")
        return self.take()

    def fail(self, message: str) -> NoReturn:
        """Raise a ModelError that points to the current token."""
        start = self.tokens[self.at].start if self.at < len(self.tokens) else len(self.text)
        line = self.text.count("\n", 0, start) + 1
        column = start - (self.text.rfind("\n", 0, start) + 1)
        source = self.text.splitlines()[line - 1] if line <= len(self.text.splitlines()) else ""
        where = f"line {line}, column {column + 1}"
        raise ModelError(Diagnostic("loop-syntax", message, where, f"{source}\n    {' ' * column}^"))

    def listed(self, item: Callable[[], T], end: str) -> list[T]:
        """Parse items separated by commas, up to and including ``end``. A trailing comma is allowed."""
        items: list[T] = []
        while not self.accept(end):
            items.append(item())
            if self.peek() != end:
                self.expect(",")
        return items

    def dims(self, end: str) -> tuple[Dim, ...]:
        """Parse dims separated by commas, up to and including ``end``."""
        return tuple(self.listed(lambda: self.dim(",", end), end))

    def dim(self, *ends: str) -> Dim:
        """Parse a dim that ends before the first of ``ends``."""
        stop = self.stop(*ends)
        text = " ".join(token.text for token in self.tokens[self.at : stop])
        dim = parse_dim(text.replace("/ /", "//"))
        self.at = stop
        return dim

    def stop(self, *ends: str) -> int:
        """The index of the first token in ``ends`` that is outside brackets."""
        depth = 0
        for at in range(self.at, len(self.tokens)):
            text = self.tokens[at].text
            if depth == 0 and text in ends:
                return at
            depth += (text in ("(", "[")) - (text in (")", "]"))
        self.fail(f"expected one of {' '.join(ends)}")
