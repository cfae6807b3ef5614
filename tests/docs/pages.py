"""The pages of the documentation, and the snippets and commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
MARKDOWN: Final = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "benchmarks" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
FENCED: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def snippets(page: Path, language: str) -> list[str]:
    return [text for kind, text in FENCED.findall(page.read_text()) if kind == language]


def commands_of(program: str, pages: Iterable[Path] = MARKDOWN) -> list[tuple[str, ...]]:
    """The commands of ``pages`` that start ``program``, each once."""
    lines = (line for page in pages for snippet in snippets(page, "sh") for line in snippet.splitlines())
    commands = (tuple(shlex.split(line, comments=True)) for line in lines)
    return list(dict.fromkeys(command for command in commands if command[:1] == (program,)))
