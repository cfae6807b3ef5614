"""What the pages say is so: snippets run, commands work, links lead somewhere, lists are complete."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterable
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
from tests.docs.pages import FENCED, ROOT
from tests.plugins.support import MODELS as PLUGIN_MODELS
from tests.plugins.support import isolated, node_model
from tests.runtime.recurrent import recurrent

MARKDOWN = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "benchmarks" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def snippets(page: Path, language: str) -> list[str]:
    return [text for kind, text in FENCED.findall(page.read_text()) if kind == language]


def commands_of(program: str, pages: Iterable[Path] = MARKDOWN) -> list[tuple[str, ...]]:
    """The commands of ``pages`` that start ``program``, each once."""
    lines = (line for page in pages for snippet in snippets(page, "sh") for line in snippet.splitlines())
    commands = (tuple(shlex.split(line, comments=True)) for line in lines)
    return list(dict.fromkeys(command for command in commands if command[:1] == (program,)))


def pages_with_commands() -> list[Path]:
    """The pages with commands of graphwright but the tutorials, which have tests of their own."""
    return [p for p in MARKDOWN if p.parent.name != "tutorials" and commands_of("graphwright", [p])]


@pytest.fixture(scope="module")
def example_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``model.onnx`` (a small model), ``model.om``, examples of plugins, and their models."""
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


@pytest.fixture
def folder(example_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example models for one test, as the current folder."""
    shutil.copytree(example_models, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
@pytest.mark.usefixtures("folder")
def test_the_readmes_snippets_run() -> None:
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


def test_modules_that_are_named_exist() -> None:
    texts = "".join(page.read_text() for page in [*MARKDOWN, ROOT / "Makefile"])
    named = set(re.findall(r"-m ((?:benchmarks|docs|tests)[\w.]*)", texts))
    assert "benchmarks.peers" in named
    assert [name for name in named if find_spec(name) is None] == []


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


def executed(page: str) -> dict[str, object]:
    """The names that the snippets of a page define, one after the other."""
    names: dict[str, object] = {}
    with isolated():
        for snippet in snippets(ROOT / "docs" / page, "python"):
            exec(compile(snippet, page, "exec"), names)
    return names


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", ["dynamic_shapes.md", "fusion.md", "gears.md"])
def test_the_snippets_of_a_page_run(page: str) -> None:
    assert executed(page)


@pytest.mark.usefixtures("folder")
def test_the_page_about_python_runs() -> None:
    names = executed("python.md")
    small, worker, twin = (names[name] for name in ("small", "worker", "twin"))
    assert all(isinstance(each, gw.Model) for each in (small, worker, twin))
    assert isinstance(small, gw.Model) and small.inputs[0].shape == (1, 3, 48, "W")
