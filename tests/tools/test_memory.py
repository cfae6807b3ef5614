"""``graphwright memory``: text, JSON, and the picture, whose rectangles are those of the plan."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import graphwright as gw
from graphwright.memory.timeline import PlacedBuffer
from graphwright.tools.reports.memory_advice import short_sources
from graphwright.tools.reports.memory_html import scopes_of

from .support import HOSTILE, graphwright, write_model

PAGE = Path(__file__).parents[2] / "docs" / "memory.md"


@pytest.fixture
def package() -> Path:
    """``y = (x @ w) @ v + x`` with ``x: f32[N, 64]``, N at most 256."""
    b, rng = gw.GraphBuilder(), np.random.default_rng(0)
    x = b.input("x", "f32", ("N", 64))
    h = b.matmul(x, rng.standard_normal((64, 512), np.float32))
    b.output("y", b.add(b.matmul(h, rng.standard_normal((512, 64), np.float32)), x))
    b.compile(shapes={"x": ("N=1..256", 64)}).save("m.om")
    return Path("m.om")


def facts(*arguments: object) -> Any:
    result = graphwright("memory", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_the_text_has_the_numbers(package: Path) -> None:
    found = facts(package, "--shape", "x:32,64", "--threads", "2")
    shown = graphwright("memory", package, "--shape", "x:32,64", "--threads", "2").stdout
    for title in ("weights", "packed", "arena", "scratch in it", "plan", "outputs", "predicted peak"):
        assert re.search(rf"^ *{title} ", shown, re.MULTILINE), title
    assert f"{found['arena']} bytes in whole pages" in shown
    assert "live at the peak: task " in shown and "not counted:\n" in shown
    assert "one thread: --threads 1" in shown and "half of N: 16 instead of 32" in shown


def test_without_shapes_the_memory_of_a_run_is_not_shown(package: Path) -> None:
    shown = graphwright("memory", package).stdout
    assert "of a process that loads the model" in shown and "--shape sets those of inputs" in shown
    assert not re.search(r"^ *(arena|plan|outputs|predicted peak) ", shown, re.MULTILINE)


def test_the_command_prints_the_facts_of_the_model(package: Path) -> None:
    found = facts(package, "--shape", "x:32,64", "--threads", "1")
    used = gw.load(package).memory([32, 64], threads=1)
    assert {key: found[key] for key in used.facts()} == json.loads(json.dumps(used.facts()))
    assert found["measured"] is None


def test_inspect_has_the_same_arena(package: Path) -> None:
    found = facts(package, "--shape", "x:32,64", "--threads", "2")
    result = graphwright("inspect", package, "--shape", "x:32,64", "--threads", "2", "--json")
    memory = json.loads(result.stdout)["memory"]
    assert (memory["arena_bytes"], memory["live_bytes"]) == (found["arena"], found["live"])


def test_the_largest_size_of_a_range_counts(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    found = facts("m.onnx", "--shape", "x:N=1..256,4")
    assert found["programs"][0]["shapes"] == {"x": [256, 4]}


def test_dynamic_sizes_are_asked_for(model: Path) -> None:
    result = graphwright("memory", model)
    assert result.exit_code == 0 and "dynamic dimensions: --shape sets those of inputs" in result.stdout
    assert facts(model)["is_known"] is False


def test_the_picture_has_a_rectangle_for_each_buffer(package: Path) -> None:
    found = facts(package, "--shape", "x:32,64", "--threads", "2")
    (program,) = found["programs"]
    result = graphwright("memory", package, "--shape", "x:32,64", "--threads", "2", "--html", "arena.html")
    assert result.exit_code == 0, result.stderr
    svg = picture(Path("arena.html").read_text())
    shapes = [rect.attrib for rect in svg.iter("rect")]
    assert len(shapes) == len(program["buffers"])
    places = {(each["x"], each["y"], each["width"], each["height"]) for each in shapes}
    assert len(places) == len(shapes)
    tall = max(float(each["height"]) for each in shapes)
    largest = max(buffer["bytes"] for buffer in program["buffers"])
    assert tall == pytest.approx(420 * largest / program["arena"], abs=0.02)
    texts = ["".join(text.itertext()) for text in svg.iter("text")]
    assert any(text.startswith(f"peak: task {program['peak']}, ") for text in texts)


def picture(page: str) -> ElementTree.Element:
    """The SVG, which is well-formed XML."""
    assert "<script" not in page and "src=" not in page and "href=" not in page
    return ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + len("</svg>")])


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", f"<script>alert(1)</script>{HOSTILE}")
    name = gw.compile("m.onnx").inputs[0].name
    result = graphwright("memory", "m.onnx", "--shape", f"{name}:3,4", "--html", "arena.html")
    assert result.exit_code == 0, result.stderr
    page = Path("arena.html").read_text()
    picture(page)
    assert "&lt;script&gt;" in page and "\x1b" not in page and "\u202e" not in page


def test_a_run_is_measured_in_a_process_of_its_own(package: Path) -> None:
    found = facts(package, "--shape", "x:32,64", "--threads", "1", "--measure")
    assert found["measured"] > found["weights"] + found["packed"]
    shown = graphwright("memory", package, "--shape", "x:32,64", "--measure").stdout
    assert re.search(r"measured peak .* the prediction is [+-]\d+\.\d % off", shown)


def test_options_that_do_not_go_together(package: Path) -> None:
    assert graphwright("memory", package, "--json", "--html", "a.html").exit_code == 2
    assert graphwright("memory", package, "--html", "nowhere/a.html").exit_code == 2


@pytest.mark.parametrize(
    ("names", "scopes"),
    [
        (["/enc/0/conv", "/enc/1/conv", "/dec/conv"], ["enc.0.conv", "enc.1.conv", "dec.conv"]),
        ([f"/a/{k}/conv" for k in range(20)], ["a"] * 20),
        ([f"n{k}" for k in range(20)], [f"n{k}" if k < 12 else "all others" for k in range(20)]),
        (["a.b + c.d, e.f", ""], ["a.b", ""]),
    ],
)
def test_scopes_are_as_fine_as_colors_allow(names: list[str], scopes: list[str]) -> None:
    buffers = [
        PlacedBuffer(k, "", (name,), is_scratch=False, offset=0, bytes=64, first=0, last=0)
        for k, name in enumerate(names)
    ]
    assert list(scopes_of(buffers).values()) == scopes


def test_source_nodes_in_few_words() -> None:
    assert short_sources(["Conv_0 + Relu_1, Conv_2"]) == "Conv_0 and 2 others"
    assert short_sources(["Conv_0", "Conv_0"]) == "Conv_0" and short_sources([]) == ""


def test_the_page_has_all_keys(package: Path) -> None:
    documented = set(re.findall(r"`(\w+)`", PAGE.read_text()))
    found = facts(package, "--shape", "x:32,64")
    (program,) = found["programs"]
    assert {*found, *program, *program["buffers"][0]} <= documented
