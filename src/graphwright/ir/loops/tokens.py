"""Tokens of the text of kernels, and the base class of its parsers."""

from __future__ import annotations

import re

from graphwright.ir.symbols import Dim, parse_dim
from graphwright.ir.text.tokens import TokenStream


class KernelTokens(TokenStream):
    """The tokens of a kernel's text."""

    pattern = re.compile(
        r"""(?P<space>\s+|\#[^\n]*)
        |(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
        |(?P<name>[A-Za-z_]\w*)
        |(?P<mark>==|!=|<=|>=|\+=|//|\S)""",
        re.VERBOSE,
    )

    def peek(self, ahead: int = 0) -> str:
        """The text of the current token, or of one after it; empty at the end."""
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)].text

    def dims(self, end: str) -> tuple[Dim, ...]:
        """Parses dims separated by commas, up to and including ``end``."""
        return tuple(self.listed(lambda: self.dim(",", end), end))

    def dim(self, *ends: str) -> Dim:
        """Parses a dim that ends before the first of ``ends``."""
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
