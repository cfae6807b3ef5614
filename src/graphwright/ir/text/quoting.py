"""Texts in double quotes, as printed modules and kernels contain them."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(?:u\{([0-9a-f]{1,6})\}|(.))")
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\[nt"\\]|\\u\{(?:10|0?[0-9a-f])?[0-9a-f]{1,4}\})*"')


def quote(text: str) -> str:
    """``text`` in double quotes. Characters that could control a terminal are escaped as ``\\u{hex}``."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    if not plain.isprintable():
        plain = "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in plain)
    return f'"{plain}"'


def unquote(text: str) -> str:
    """The inverse of :func:`quote`. Raises ValueError for other escapes."""

    def plain(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}[match[2]]

    if not _QUOTED.fullmatch(text):
        raise ValueError(f'{text[:40]} has an escape that is not \\n, \\t, \\", \\\\ or \\u{{hex}}')
    return _ESCAPE.sub(plain, text[1:-1])
