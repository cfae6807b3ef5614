"""The commands in the pages work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import pytest

from tests.docs.commands import run
from tests.docs.pages import MARKDOWN, ROOT, commands_of, page_id

READ_ONLY: Final = {"bench", "explain", "inspect", "memory"}
"""Commands that write no file unless they are asked to: the same one has the same effect on every page."""


def commands_by_page() -> dict[Path, list[tuple[str, ...]]]:
    """The commands of graphwright on each page but the tutorials, which have tests of their own. What only
    reads a model is on the first page that has it.
    """
    found: dict[Path, list[tuple[str, ...]]] = {}
    seen = set[tuple[str, ...]]()
    for page in (page for page in MARKDOWN if page.parent.name != "tutorials"):
        commands = [each for each in commands_of("graphwright", [page]) if each not in seen]
        seen |= {each for each in commands if each[1] in READ_ONLY}
        if commands:
            found[page] = commands
    return found


COMMANDS: Final = commands_by_page()


@pytest.mark.long
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", COMMANDS, ids=page_id)
def test_the_commands_of_a_page_work(page: Path) -> None:
    for command in COMMANDS[page]:
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
