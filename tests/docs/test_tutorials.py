"""Each tutorial runs from top to bottom in an empty folder, as a reader runs it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_pages import FENCED, ROOT
from tests.plugins.support import isolated

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PROGRAMS = {"python": [], "graphwright": ["-m", "graphwright"]}


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = [(kind, text) for kind, text in FENCED.findall(page.read_text()) if kind in ("python", "sh")]
    assert any(kind == "python" for kind, _ in blocks)
    names: dict[str, object] = {}
    with isolated():
        for kind, text in blocks:
            if kind == "python":
                exec(compile(text, page.name, "exec"), names)
            else:
                run(text)


def run(lines: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for line in lines.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        command = [sys.executable, *PROGRAMS[program], *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
