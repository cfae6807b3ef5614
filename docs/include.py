"""Copies files of the repository into the pages that show them. A test checks that the pages are
up to date.

``python -m docs.include`` changes the pages: a block of code after ``<!-- file PATH -->`` becomes the file.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"<!-- file (\S+) -->\n```(\w*)\n(.*?)```\n", re.DOTALL)


def filled(page: str) -> str:
    """``page`` with the files that it names in its blocks. Raises OSError for one that is not there."""
    return BLOCK.sub(lambda m: f"<!-- file {m[1]} -->\n```{m[2]}\n{(ROOT / m[1]).read_text()}```\n", page)


def main() -> None:
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text()
        if filled(text) != text:
            page.write_text(filled(text))


if __name__ == "__main__":
    main()
