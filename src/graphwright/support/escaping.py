"""Escapes untrusted text, such as names in a model, for C code, paths, terminals and HTML."""

from __future__ import annotations

import json
import re
from typing import Any

MAX_IDENTIFIER = 60
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
