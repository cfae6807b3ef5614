"""The pages quote the example plugins without changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.include import BLOCK, ROOT, filled

PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_pages_show_are_those_of_the_repository(page: Path) -> None:
    text = page.read_text()
    assert filled(text) == text, "make docs"


def test_the_pages_show_every_example() -> None:
    shown = {match[1] for page in PAGES for match in BLOCK.finditer(page.read_text())}
    files = (ROOT / "examples" / "plugins").iterdir()
    assert shown >= {str(file.relative_to(ROOT)) for file in files if file.suffix in (".py", ".c")}
