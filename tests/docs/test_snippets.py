"""The Python snippets in the pages run."""

from __future__ import annotations

import pytest

import graphwright as gw
from graphwright import _native
from tests.docs.pages import ROOT, snippets
from tests.plugins.support import isolated


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
