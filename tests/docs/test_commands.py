"""The commands in the pages work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.docs.commands import run
from tests.docs.pages import MARKDOWN, ROOT, commands_of, page_id


def pages_with_commands() -> list[Path]:
    """The pages with commands of graphwright but the tutorials, which have tests of their own."""
    return [p for p in MARKDOWN if p.parent.name != "tutorials" and commands_of("graphwright", [p])]


@pytest.mark.long
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", pages_with_commands(), ids=page_id)
def test_the_commands_of_a_page_work(page: Path) -> None:
    for command in commands_of("graphwright", [page]):
        done = run(*command)
        assert done.status == 0, f"{shlex.join(command)}: {done.stderr}"
        assert done.stdout or done.stderr, shlex.join(command)


def test_make_has_the_targets() -> None:
    named = {command[1] for command in commands_of("make")}
    named |= set(re.findall(r"`make ([a-z-]+)", "".join(page.read_text() for page in MARKDOWN)))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named <= targets
    assert {"demo", "test", "bench"} <= named
    described = set(re.findall(r"^#   make ([a-z-]+)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert described == targets - {"help"}
