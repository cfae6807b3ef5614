"""Escapes untrusted text, such as names in a model, for C code, paths, terminals and HTML."""

from __future__ import annotations

import json
import re
from typing import Any

MAX_IDENTIFIER = 60
_SHORT_NAME = 8
"""The fewest characters of a longer name that are worth showing."""
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def identifier(text: str, fallback: str = "v") -> str:
    """``text`` as an identifier of at most 60 letters, digits and underscores that does not start with a
    digit.

    Different texts can have the same identifier.
    """
    cleaned = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")[:MAX_IDENTIFIER]
    if not cleaned:
        return fallback
    return cleaned if not cleaned[0].isdigit() else f"_{cleaned}"[:MAX_IDENTIFIER]


def c_comment(text: str, limit: int = 200) -> str:
    """``text`` for a C comment: printable ASCII without ``*/``, trigraphs, backslashes and line breaks."""
    ascii_only = "".join(c if " " <= c <= "~" and c not in "\\?" else "_" for c in text)
    return ascii_only.replace("*/", "*_").replace("/*", "/_")[:limit]


def terminal(text: str, limit: int = 200) -> str:
    """``text`` without control characters (escape sequences, bidi marks). Print it without rich markup."""
    shown = text
    if not text.isprintable():
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def sources_text(label: str, limit: int) -> str:
    """The label of a task, shortened to ``limit`` characters: its first source node and the number of others.

    A label is the names of source nodes, separated by `` + `` and ``, ``.
    """
    shown = terminal(label, limit)
    sources = list(dict.fromkeys(source for part in label.split(", ") for source in part.split(" + ")))
    if len(label) <= limit or len(sources) == 1:
        return shown
    others = f" and {len(sources) - 1} other{'s' if len(sources) > 2 else ''}"
    room = limit - len(others)
    return terminal(sources[0], room) + others if room >= min(len(sources[0]), _SHORT_NAME) else shown


def html_text(text: str) -> str:
    """``text`` escaped for HTML bodies and quoted attributes."""
    return terminal(text, limit=10_000).translate(_ENTITIES)


def html_attribute(text: str) -> str:
    """``text`` escaped for a quoted HTML attribute, but otherwise unchanged, such as the page in a frame."""
    return text.translate(_ENTITIES)


def script_json(value: Any) -> str:
    """``value`` as JSON in ASCII that cannot end a ``<script>`` element. Strings in it are not escaped for
    HTML: a page must insert them as text.
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


class UniqueNames:
    """Makes names unique by adding ``_1``, ``_2``, ... to names that were used before."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def take(self, name: str) -> str:
        """``name``, or ``name_N`` if it was used before."""
        if name not in self._counts:
            self._counts[name] = 0
            return name
        while True:
            self._counts[name] += 1
            candidate = f"{name}_{self._counts[name]}"
            if candidate not in self._counts:
                self._counts[candidate] = 0
                return candidate
