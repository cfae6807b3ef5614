"""Each tutorial runs from top to bottom in an empty folder, as a reader runs it. Its commands print what the
page shows, except for numbers, units and the order of lines.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.docs.commands import run
from tests.docs.pages import FENCED, ROOT
from tests.plugins.support import isolated

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
NUMBER = re.compile(r"-?\d[\d.,]*(e[+-]\d+)?( (ns|us|ms|s|B|KiB|MiB|GiB)\b)?")
STATUS = re.compile(r"# exit status (\d+)$")


@pytest.mark.long
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = FENCED.findall(page.read_text())
    assert any(kind == "python" for kind, _ in blocks)
    names: dict[str, object] = {}
    printed = ""
    with isolated():
        for kind, text in blocks:
            if kind == "python":
                exec(compile(text, page.name, "exec"), names)
            elif kind == "sh":
                printed = printed_by(text)
            elif kind == "text":
                assert shown(printed) == shown(text), printed


def printed_by(lines: str) -> str:
    """The output of the last of ``lines``."""
    printed = ""
    for line in lines.splitlines():
        done = run(*shlex.split(line, comments=True))
        status = STATUS.search(line)
        assert done.status == (int(status[1]) if status else 0), f"{line}\n{done.stderr}"
        printed = done.stdout
    return printed


def shown(text: str) -> list[str]:
    """The lines of ``text`` without their numbers and spaces."""
    lines = (" ".join(NUMBER.sub("#", line).split()) for line in text.splitlines())
    return sorted(line for line in lines if line)
