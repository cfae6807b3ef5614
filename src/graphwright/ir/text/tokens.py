"""Tokens of a text, and the base class of the parsers of modules and of kernels."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, NamedTuple, NoReturn, TypeVar

from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.text.quoting import unquote
from graphwright.support.escaping import terminal

_STRING = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
T = TypeVar("T")


class Token(NamedTuple):
    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class TokenStream:
    """The tokens of a text, and a position in them. Methods that do not find what they expect raise
    ModelError with the line and a caret.
    """

    pattern: ClassVar[re.Pattern[str]] = re.compile(
        rf"""(?P<space>\s+|//[^\n]*)
        |(?P<value>%(?:{_STRING}|[A-Za-z0-9_/.\-]+)(?:~\d+)?)
        |(?P<constant>\#[0-9A-Za-z_]+)
        |(?P<string>b?{_STRING})
        |(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?j?)
        |(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
        |(?P<mark>\.\.\.|==|<=|!=|[()\[\]{{}},:=*+\-/])""",
        re.VERBOSE,
    )
    """Matches one token; the name of the group is its kind. The kind ``space`` is skipped."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        """The index of the current token."""
        self.tokens = self._scan()

    def _scan(self) -> list[Token]:
        tokens, position = [], 0
        while position < len(self.text):
            match = self.pattern.match(self.text, position)
            if match is None:
                self.tokens, self.at = [Token("mark", self.text[position], position)], 0
                self.fail("this character is not allowed here")
            if match.lastgroup != "space":
                tokens.append(Token(match.lastgroup or "", match[0], position))
            position = match.end()
        tokens.append(Token("end", "", len(self.text)))
        return tokens

    @property
    def now(self) -> Token:
        return self.tokens[self.at]

    def fail(self, message: str) -> NoReturn:
        """Raises a ModelError that points to the current token."""
        start = self.now.start
        line_number = self.text.count("\n", 0, start) + 1
        line_start = self.text.rfind("\n", 0, start) + 1
        line = self.text[line_start:].split("\n", 1)[0]
        column = start - line_start
        shown = terminal(line[max(0, column - 80) : column + 40])
        caret = " " * min(column, 80) + "^"
        raise ModelError(
            Diagnostic("text", f"{terminal(message)}\n    {shown}\n    {caret}", f"line {line_number}")
        ) from None

    def take(self) -> Token:
        """Returns the current token and moves to the next one."""
        token = self.now
        if token.kind == "end":
            self.fail("the text ends too early")
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        """Moves past the current token if it is ``text``. Returns whether it was."""
        if self.now.text != text or self.now.kind in ("string", "end"):
            return False
        self.at += 1
        return True

    def expect(self, *texts: str) -> None:
        """Moves past ``texts``, which must be the next tokens."""
        for text in texts:
            if not self.accept(text):
                self.fail(f"expected {text!r}")

    def token_of(self, kind: str, what: str) -> str:
        """Moves past a token of ``kind``, and returns its text. ``what`` describes it in the error
        message.
        """
        if self.now.kind != kind:
            self.fail(f"expected {what}")
        return self.take().text

    def string(self) -> str:
        return unquote(self.token_of("string", "a text in double quotes"))

    def name(self) -> str:
        """A bare or quoted name."""
        return self.string() if self.now.kind == "string" else self.token_of("name", "a name")

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        if not self.now.text.isdigit():
            self.fail("expected an integer")
        return sign * int(self.take().text)

    def listed(self, item: Callable[[], T], close: str) -> list[T]:
        """Parses items separated by commas, up to and including ``close``. A trailing comma is allowed."""
        items: list[T] = []
        while not self.accept(close):
            items.append(item())
            if not self.accept(","):
                self.expect(close)
                break
        return items
