"""The pages are consistent with the repository: links have targets, lists are complete."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest

from benchmarks.report import PAGES, PART, read_results
from graphwright import ops
from graphwright.frontends.onnx.opsets import Mappings, has_body
from tests.docs.pages import FENCED, MARKDOWN, ROOT, page_id


def test_modules_that_are_named_exist() -> None:
    texts = "".join(page.read_text() for page in [*MARKDOWN, ROOT / "Makefile"])
    named = set(re.findall(r"-m ((?:benchmarks|docs|tests)[\w.]*)", texts))
    assert "benchmarks.peers" in named
    assert [name for name in named if find_spec(name) is None] == []


def test_the_page_about_benchmarks_lists_all_programs() -> None:
    guarded = (path for path in (ROOT / "benchmarks").rglob("*.py") if "__main__" in path.read_text())
    programs = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in guarded}
    programs |= {
        ".".join(path.parent.relative_to(ROOT).parts) for path in ROOT.glob("benchmarks/*/__main__.py")
    }
    listed = set(re.findall(r"-m (benchmarks[\w.]*)", (ROOT / "benchmarks" / "README.md").read_text()))
    missing = {name for name in programs if name.removesuffix(".__main__") not in listed}
    assert missing == {
        "benchmarks.build",
        "benchmarks.neighbor",
        "benchmarks.models.export",
    }  # others run them


@pytest.mark.parametrize("page", MARKDOWN, ids=page_id)
def test_all_links_have_targets(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", FENCED.sub("", page.read_text()))  # code may have ](
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_result_tables_are_those_of_the_results(page: Path) -> None:
    text = page.read_text()
    assert PART.filled(text, PAGES[page](read_results())) == text, "python -m benchmarks.report"


@pytest.mark.parametrize("domain", ["", "ai.onnx.ml"])
def test_all_operators_are_supported(domain: str) -> None:
    ops.load()
    mappings = Mappings.collect()

    def is_supported(schema: onnx.defs.OpSchema) -> bool:
        body = not domain and has_body(schema, onnx.defs.onnx_opset_version())
        return body or mappings.find(domain, schema.name, schema.since_version) is not None

    schemas = [schema for schema in onnx.defs.get_all_schemas() if schema.domain == domain]
    assert len(schemas) > 15
    assert [schema.name for schema in schemas if not is_supported(schema)] == []


def test_the_path_lists_all_directories() -> None:
    text = (ROOT / "docs" / "path_of_a_model.md").read_text()
    source = ROOT / "src" / "graphwright"
    folders = {path.parent.name for path in source.glob("*/__init__.py")}
    assert [name for name in folders if f"`{name}`" not in text] == []


def test_the_glossary_is_sorted() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)[1:]
    terms = [row.strip("`.").lower() for row in rows if not row.startswith("---")]
    assert terms == sorted(terms)
