"""What the pages say is so: snippets run, commands work, links lead somewhere, lists are complete."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest

import graphwright as gw
from benchmarks.models import MODELS
from benchmarks.report import PAGES, PART, read_results
from graphwright import _native, ops
from graphwright.frontends.onnx.opsets import Mappings, has_body
from tests.docs.commands import run
from tests.plugins.support import MODELS as PLUGIN_MODELS
from tests.plugins.support import isolated, node_model
from tests.runtime.test_onnx_states import recurrent

ROOT = Path(__file__).parents[2]
MARKDOWN = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "benchmarks" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGE_IDS = [str(page.relative_to(ROOT)) for page in MARKDOWN]


def snippets(page: Path, language: str) -> list[str]:
    return [text for kind, text in FENCED.findall(page.read_text()) if kind == language]


def commands() -> Iterator[list[str]]:
    """Of all pages but the tutorials, which have tests of their own."""
    for page in (page for page in MARKDOWN if page.parent.name != "tutorials"):
        for snippet in snippets(page, "sh"):
            yield from (shlex.split(line, comments=True) for line in snippet.splitlines())


def commands_of(program: str) -> list[list[str]]:
    unique = dict.fromkeys(tuple(command) for command in commands() if command[:1] == [program])
    return [list(command) for command in unique]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where ``model.onnx``, a small one, and ``model.om`` are, examples of plugins, and a model for each."""
    made = tmp_path_factory.mktemp("pages")
    shutil.copytree(ROOT / "examples", made / "examples")
    for name, nodes in PLUGIN_MODELS.items():
        onnx.save(node_model(*nodes), made / f"{name}.onnx")
    with isolated():
        for name in ("median", "l2_normalize"):
            gw.plugins.load(made / "examples" / "plugins" / f"{name}.py")
            gw.compile(made / f"{name}.onnx").save(made / f"{name}.om")
    (made / "recurrent.onnx").write_bytes(recurrent())
    shutil.copy(MODELS["ppocr_cls"].path(), made / "model.onnx")
    gw.compile(made / "model.onnx").save(made / "model.om")
    return made


@pytest.mark.long
def test_the_readmes_snippets_run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(folder / "model.onnx", tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    threads = _native.threads()
    names: dict[str, object] = {}
    for snippet in snippets(ROOT / "README.md", "python"):
        exec(compile(snippet, "README.md", "exec"), names)
    gw.set_threads(threads)
    result, small, classes = names["result"], names["small"], names["classes"]
    assert isinstance(result, dict) and isinstance(small, gw.Model) and isinstance(classes, gw.Model)
    assert [array.shape for array in result.values()] == [(1, 2)]
    assert small.inputs[0].shape == (1, 3, 48, 320)
    assert classes.outputs[0].shape == ("N", 10)


@pytest.mark.parametrize("command", commands_of("graphwright"), ids=" ".join)
def test_commands_work(command: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = run(*command)
    assert done.status == 0, done.stderr
    assert done.stdout or done.stderr


def test_make_has_the_targets() -> None:
    named = {command[1] for command in commands_of("make")}
    named |= set(re.findall(r"`make ([a-z-]+)", "".join(page.read_text() for page in MARKDOWN)))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named <= targets
    assert {"demo", "test", "bench"} <= named
    described = set(re.findall(r"^#   make ([a-z-]+)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert described == targets - {"help"}


def test_modules_that_are_named_exist() -> None:
    texts = "".join(page.read_text() for page in [*MARKDOWN, ROOT / "Makefile"])
    named = set(re.findall(r"-m ((?:benchmarks|docs|tests)[\w.]*)", texts))
    assert "benchmarks.peers" in named
    assert [name for name in named if find_spec(name) is None] == []


@pytest.mark.parametrize("page", MARKDOWN, ids=PAGE_IDS)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", FENCED.sub("", page.read_text()))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
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


def executed(page: str) -> dict[str, object]:
    """The names that the snippets of a page define, one after the other."""
    names: dict[str, object] = {}
    with isolated():
        for snippet in snippets(ROOT / "docs" / page, "python"):
            exec(compile(snippet, page, "exec"), names)
    return names


@pytest.mark.parametrize("page", ["dynamic_shapes.md", "fusion.md", "gears.md"])
def test_the_snippets_of_a_page_run(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert executed(page)


def test_the_page_about_python_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names = executed("python.md")
    small, worker, twin = (names[name] for name in ("small", "worker", "twin"))
    assert all(isinstance(each, gw.Model) for each in (small, worker, twin))
    assert isinstance(small, gw.Model) and small.inputs[0].shape == (1, 3, 48, "W")
