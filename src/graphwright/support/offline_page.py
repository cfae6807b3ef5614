"""Pages of HTML that load nothing, in the browser's light or dark theme: those of ``profile``, ``memory`` and
``explain``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

COLORS: Final = (
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#ff9da7", "#9c755f",
    "#86bcb6", "#d37295", "#a0cbe8",
)  # fmt: skip
"""The colors that distinguish things in a picture."""
OTHERS: Final = "all others"
"""What is drawn in :data:`OTHER_COLOR` where there are more things than colors."""
OTHER_COLOR: Final = "#79706e"
_STYLE: Final = """
:root {
  color-scheme: light dark;
  --text: #1c2126; --line: #d5dae0; --page: #ffffff; --picture: #f5f7f9; --mark: #c92a2a;
}
@media (prefers-color-scheme: dark) {
  :root { --text: #e6eaee; --line: #333c46; --page: #14181d; --picture: #1b2026; --mark: #ff6b6b }
}
@media print {
  :root { --text: #000000; --line: #bbbbbb; --page: #ffffff; --picture: #ffffff; --mark: #c92a2a }
}
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em; color: var(--text); background: var(--page) }
h1 { font-size: 22px }
h2 { font-size: 17px; margin: 1.6em 0 0.4em }
table { border-collapse: collapse; margin: 1em 0 }
th, td { border-bottom: 1px solid var(--line); padding: 2px 10px; text-align: left; vertical-align: top }
td { overflow-wrap: break-word }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
svg text { fill: var(--text) }
.legend span { display: inline-block; margin-right: 1.2em }
.legend i { display: inline-block; width: 1em; height: 1em; margin-right: 0.4em; vertical-align: -0.1em }
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def offline_page(title: str, parts: Iterable[str], style: str) -> str:
    """The page; all texts are escaped already."""
    return "\n".join([
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}{style}</style></head><body>",
        *parts,
        "</body></html>\n",
    ])  # fmt: skip


def legend(colors: Iterable[tuple[str, str]]) -> str:
    """Names, which are escaped already, each with its color."""
    shown = "".join(f'<span><i style="background: {color}"></i>{name}</span>' for name, color in colors)
    return f'<p class="legend">{shown}</p>'
