"""CITATION.cff agrees with the package, and has the fields that its format asks for."""

from __future__ import annotations

import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
REQUIRED = {"cff-version", "message", "title", "authors"}
"""https://github.com/citation-file-format/citation-file-format/blob/1.2.0/schema-guide.md"""


def test_the_citation_is_that_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation.keys() >= REQUIRED
    assert citation["cff-version"] == "1.2.0"
    assert (citation["title"], citation["version"]) == (project["name"], project["version"])
    assert citation["license"] == project["license"]
    assert citation["authors"] == project["authors"]
    assert citation["keywords"] == project["keywords"]
