"""The dumps on the page about the path of a model are those of the compiler."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import graphwright
from docs.make_path import PAGE, TIME, blocks, dumps, filled

PARTS = (
    "onnx", "imported", "simplified", "decomposed", "fused", "layouts", "schedule", "records",
    "loops", "c", "tasks", "repeated", "plan", "members", "run", "pipeline", "host_program",
)  # fmt: skip


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return dumps()


def test_the_page_has_every_part_once() -> None:
    text = PAGE.read_text()
    assert sorted(blocks(text)) == sorted(PARTS)
    assert text.count("<!-- dump") == len(PARTS)


def test_the_page_names_every_folder_and_module() -> None:
    paths = [p for p in Path(graphwright.__file__).parent.iterdir() if not p.name.startswith("_")]
    names = [p.name for p in paths if p.suffix == ".py" or (p / "__init__.py").is_file()]
    assert [name for name in sorted(names) if f"`{name}`" not in PAGE.read_text()] == []


@pytest.mark.parametrize("part", PARTS)
def test_the_page_is_up_to_date(part: str, made: dict[str, str]) -> None:
    shown, now = (re.sub(TIME, " TIME", texts[part]) for texts in (blocks(PAGE.read_text()), made))
    assert shown == now, "make docs"


def test_the_dumps_are_what_the_page_says(made: dict[str, str]) -> None:
    assert "BatchNormalization" in made["imported"]
    assert "BatchNormalization" not in made["simplified"]
    assert "Softmax" in made["simplified"]
    assert "Softmax" not in made["decomposed"]
    assert made["fused"].count("Fused(") == made["tasks"].count(" launch ")
    assert "function conv_" in made["tasks"]


def test_filling_replaces_only_marked_blocks() -> None:
    page = "a\n<!-- dump one -->\n```c\nold\nold\n```\nb\n"
    assert filled(page, {"one": "new\n"}) == "a\n<!-- dump one -->\n```c\nnew\n```\nb\n"
    with pytest.raises(KeyError):
        filled(page, {})
