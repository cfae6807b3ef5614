"""The only way for foreign text (names in a model) into C, paths, the terminal or HTML."""

from __future__ import annotations

import json
import re
from typing import Any

MAX_IDENTIFIER = 60
_SHORT_NAME = 8
"""Characters of a longer name that tell more than none."""
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def identifier(text: str, fallback: str = "v") -> str:
    """``text`` as an identifier ``[A-Za-z0-9_]{1,60}`` that does not start with a digit. Not unique: add a
    counter.
    """
    cleaned = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")[:MAX_IDENTIFIER]
    if not cleaned:
        return fallback
    return cleaned if not cleaned[0].isdigit() else f"_{cleaned}"[:MAX_IDENTIFIER]


def c_comment(text: str, limit: int = 200) -> str:
    """``text`` fit for the inside of a C comment: printable ASCII, no ``*/``, no trigraph, no backslash, no
    line break.
    """
    ascii_only = "".join(c if " " <= c <= "~" and c not in "\\?" else "_" for c in text)
    return ascii_only.replace("*/", "*_").replace("/*", "/_")[:limit]


def terminal(text: str, limit: int = 200) -> str:
    """``text`` without control characters (escape sequences, bidi marks). Print it with rich's markup off."""
    shown = text
    if not text.isprintable():
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def sources_text(label: str, limit: int) -> str:
    """The label of a task, its source nodes with `` + `` and ``, `` between them, in ``limit`` characters: as
    it is where that fits, else the first node and how many others there are.
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
    """``text`` as it is, escaped for quoted attributes: a whole page in a frame."""
    return text.translate(_ENTITIES)


def script_json(value: Any) -> str:
    """``value`` as JSON in ASCII that can end no ``<script>`` element. Its texts are as they were: a page
    shows them as text alone.
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


class UniqueNames:
    """Hands out names, adding ``_1``, ``_2``, ... to those already taken."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def take(self, name: str) -> str:
        """``name``, or ``name_N`` if it was taken before."""
        if name not in self._counts:
            self._counts[name] = 0
            return name
        while True:
            self._counts[name] += 1
            candidate = f"{name}_{self._counts[name]}"
            if candidate not in self._counts:
                self._counts[candidate] = 0
                return candidate
