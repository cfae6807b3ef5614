"""The pages for a browser: all are there, and their links lead to pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import graphwright as gw
from docs.site import command_page, relinked
from graphwright.tools.cli import COMMANDS
from tests.docs.pages import ROOT


@pytest.mark.parametrize(
    ("page", "link", "in_the_site"),
    [
        ("index.md", "[a](docs/python.md)", "[a](python.md)"),
        ("index.md", "[a](docs/python.md#feeds)", "[a](python.md#feeds)"),
        ("index.md", "[a](#use)", "[a](#use)"),
        ("benchmarks.md", "[a](../docs/fusion.md)", "[a](fusion.md)"),
        ("tutorials/onnx.md", "[a](deploy.md)", "[a](deploy.md)"),
        ("tutorials/onnx.md", "[a](../gears.md)", "[a](../gears.md)"),
        ("tutorials/onnx.md", "[a](../../README.md)", "[a](../index.md)"),
        ("performance.md", "[a](../src/graphwright/cost/machine.py)", "a"),
        ("performance.md", "[a](https://example.org/x.md)", "[a](https://example.org/x.md)"),
        ("performance.md", "![a](picture.png)", "![a](picture.png)"),
        ("performance.md", "```text\n[a](../src)\n```", "```text\n[a](../src)\n```"),
    ],
)
def test_links_lead_to_pages_of_the_site(page: str, link: str, in_the_site: str) -> None:
    assert relinked(link, page) == in_the_site


def test_files_are_linked_if_the_repository_is_known() -> None:
    linked = relinked("[a](../src/x.py)", "fusion.md", "https://example.org/gw/")
    assert linked == "[a](https://example.org/gw/blob/main/src/x.py)"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_of_a_command_has_its_options(command: str) -> None:
    page = command_page(command)
    assert page.startswith(f"# graphwright {command}\n")
    assert "| `-" in page and "[bold]" not in page and "\b" not in page


@pytest.mark.long
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "reference.html").read_text()
    assert [name for name in gw.__all__ if name not in reference] == []
    assert all((tmp_path / "commands" / f"{command}.html").exists() for command in COMMANDS)
    assert "fonts.googleapis.com" not in (tmp_path / "index.html").read_text()
