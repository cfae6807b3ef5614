"""The page in a real browser: drawing, keyboard, pointer and search."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from graphwright.view.document import Compilation, document_of
from graphwright.view.page import page_of
from graphwright.view.picture import GraphPicture, Group, PictureEdge, PictureNode
from graphwright.view.stages import NAMES
from tests.tools.support import graphwright
from tests.view.browser import NAMES as BROWSERS
from tests.view.browser import Browser, browser, browser_path
from tests.view.support import hostile, layers

pytestmark = pytest.mark.skipif(browser_path() is None, reason=f"none of {', '.join(BROWSERS)} is installed")

PAGE = "graphwright.page"
VIEW = f"{PAGE}.view"
COLORS = f"""(() => {{
  const {{canvas, context}} = {VIEW};
  const pixels = new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  return new Set(pixels).size;
}})()"""
"""How many colors the canvas has."""


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as found:
        found.size(1200, 800)
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("view")
    for name, model in (("layers", layers(4)), ("hostile", hostile())):
        onnx.save(model, made / f"{name}.onnx")
        done = graphwright("view", made / f"{name}.onnx", "-o", made / f"{name}.html")
        assert done.exit_code == 0, done.stderr
    return made


@pytest.fixture
def page(tab: Browser, folder: Path) -> Browser:
    tab.complaints.clear()
    tab.open(folder / "layers.html")
    assert tab.complaints == []
    return tab


def shown(tab: Browser) -> list[str]:
    """The boxes of nodes and groups: what is written in them."""
    return json.loads(
        tab.run(
            f"JSON.stringify({VIEW}.scene.boxes.filter((box) => box.kind < 2).map("
            f"(box) => graphwright.words({VIEW}.stage, box).title))"
        )
    )


def check_scene(tab: Browser) -> None:
    """No two boxes overlap but frames and what they hold, and edges that are drawn go down."""
    boxes = json.loads(tab.run(f"JSON.stringify({VIEW}.scene.boxes)"))
    for k, a in enumerate(boxes):
        for b in boxes[:k]:
            if not inside(a, b):
                assert any(
                    one[at] + one[size] <= other[at] + 1e-6
                    for at, size in (("x", "width"), ("y", "height"))
                    for one, other in ((a, b), (b, a))
                ), (a, b)
    for edge in json.loads(tab.run(f"JSON.stringify({VIEW}.scene.edges)")):
        assert not edge["drawn"] or edge["points"][1] < edge["points"][-1]


def inside(inner: dict[str, Any], frame: dict[str, Any]) -> bool:
    return bool(
        frame["open"]
        and all(
            frame[at] <= inner[at] and inner[at] + inner[size] <= frame[at] + frame[size]
            for at, size in (("x", "width"), ("y", "height"))
        )
    )


def test_the_page_is_drawn_without_requests(page: Browser) -> None:
    assert page.run(COLORS) > 4
    assert page.run(
        "[...document.querySelectorAll('#stages button')].map((each) => each.textContent)"
    ) == list(NAMES)
    assert page.complaints == []


def test_groups_open_and_close(page: Browser) -> None:
    page.key("c")
    assert sorted(shown(page)) == ["+ encoder", "input", "output"]
    page.key("e")
    check_scene(page)
    titles = shown(page)
    assert titles.count("MatMul") == 4 and titles.count("Relu") == 4
    page.key("c")
    page.key("0")
    box = f"{VIEW}.scene.boxes[{VIEW}.scene.box_of(~1)]"
    x, y = (
        page.run(
            f"({box}.{at} + {box}.{size} / 2 - {VIEW}.camera.{at}) * {VIEW}.camera.scale"
            f" + {VIEW}.canvas.getBoundingClientRect().{at}"
        )
        for at, size in (("x", "width"), ("y", "height"))
    )
    page.click(x, y, count=2)
    assert shown(page).count("+ layer.0") == 1
    check_scene(page)
    assert page.run("document.querySelector('#details h2').textContent") == "encoder"
    assert "4 equal groups" in page.run("document.querySelector('#details').textContent")


def test_search_shows_what_became_of_a_node(page: Browser) -> None:
    page.key("/")
    page.call("Input.insertText", text="layer.2/dense/MatMul")
    page.key("Enter", "\r")
    details = page.run("document.querySelector('#details').textContent")
    assert "layer.2/dense/MatMul" in details and "FUSE_MERGED" in details and "gw_gemm_f32" in details
    for stage in NAMES[1:]:
        assert f"{stage} (1)" in details
    head = "[...document.querySelectorAll('#details h3')].find((each) => each.textContent === 'fused (1)')"
    page.run(f"{head}.nextSibling.click()")
    assert page.run(f"{VIEW}.stage.name") == "fused"
    assert page.run("document.querySelector('#details h2').textContent") == "MatMul + Add + Relu"


def test_a_selection_is_marked_at_other_stages(page: Browser) -> None:
    page.run(f"{PAGE}.search('layer.1/relu')")
    page.key("]")
    page.key("]")
    assert page.run(f"{VIEW}.stage.name") == "fused"
    assert page.run(f"{VIEW}.linked.map((each) => {VIEW}.stage.title(each))") == ["MatMul + Add + Relu"]
    page.key("Escape")
    page.key("[")
    assert page.run(f"[{VIEW}.stage.name, {VIEW}.linked.length]") == ["simplified", 0]


def test_arrows_go_from_box_to_box(page: Browser) -> None:
    page.key("e")
    page.run(f"{PAGE}.search('layer.0/dense/MatMul')")
    for key, expected in (("ArrowDown", "Add"), ("ArrowUp", "MatMul")):
        page.key(key)
        assert page.run(f"{VIEW}.stage.title({VIEW}.selected)") == expected


def test_two_stages_side_by_side(page: Browser) -> None:
    page.run(f"{PAGE}.compare(2)")
    page.run(f"{PAGE}.search('layer.3/dense/Add')")
    linked = page.run(f"{PAGE}.other.linked.map((each) => {PAGE}.other.stage.title(each))")
    assert linked == ["MatMul + Add + Relu"]
    assert page.run("document.getElementById('other').clientWidth > 100")


def test_colors_by_number(page: Browser) -> None:
    for overlay in ("bytes", "predicted_ns"):
        page.run(f"{VIEW}.recolor('{overlay}')")
        page.run(f"{VIEW}.paint()")
        assert page.run(COLORS) > 3
        assert "darkest" in page.run("document.querySelector('.legend').textContent")


def test_dark_pages_are_dark(page: Browser) -> None:
    def corner() -> list[int]:
        page.run(f"{VIEW}.paint()")
        return list(page.run(f"[...{VIEW}.context.getImageData(1, 1, 1, 1).data]"))

    assert corner()[:3] == [255, 255, 255]
    page.media(prefers_color_scheme="dark")
    page.wait(f"{VIEW}.colors.page === '#14181d'")
    assert corner()[:3] == [0x14, 0x18, 0x1D]
    page.media(prefers_color_scheme="light")


def test_a_second_stage_keeps_the_center_of_the_view(page: Browser) -> None:
    middle = f"{VIEW}.camera.x + {VIEW}.size.width / 2 / {VIEW}.camera.scale"
    before, whole = page.run(middle), page.run(f"{VIEW}.size.width")
    page.run(f"{PAGE}.compare(2)")
    page.wait(f"{VIEW}.size.width < {whole}")
    assert abs(page.run(middle) - before) < 1
    page.run(f"{PAGE}.compare(-1)")
    page.wait(f"{VIEW}.size.width === {whole}")
    assert abs(page.run(middle) - before) < 1


def test_a_page_prints_as_pdf(page: Browser) -> None:
    page.run(f"{VIEW}.print(true)")
    assert page.run(COLORS) > 4 and page.run(f"{VIEW}.canvas.width") == 1600
    page.run(f"{VIEW}.print(false)")
    assert page.pdf().startswith(b"%PDF")


def test_a_long_graph_is_printed_on_several_sheets(tab: Browser, tmp_path: Path) -> None:
    """The sheets are in columns, at a scale at which names can be read; afterwards there is one canvas
    again.
    """
    nodes = tuple(PictureNode("Op", f"n{k}") for k in range(300))
    edges = tuple(PictureEdge(k, k + 1) for k in range(299))
    picture = GraphPicture("chain", nodes, edges, (Group(""),))
    (tmp_path / "m.html").write_text(page_of("m", document_of([Compilation("m", [picture])])))
    tab.open(tmp_path / "m.html")
    tab.run(f"{VIEW}.print(true)")
    sheets = tab.run("document.querySelectorAll('#view canvas').length")

    assert 1 < sheets <= 8
    tab.run(f"{VIEW}.print(false)")
    assert tab.run("document.querySelectorAll('#view canvas').length") == 1
    assert tab.pdf().count(b"/Type /Page\n") >= sheets


def test_hostile_names_are_texts(tab: Browser, folder: Path) -> None:
    tab.complaints.clear()
    tab.open(folder / "hostile.html")
    tab.run(f"{PAGE}.search('script')")
    assert "<script>" in tab.run("document.querySelector('#details').textContent")
    assert tab.run("document.querySelectorAll('aside script, header script').length") == 0
    tab.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'ran = 1'}))")
    assert tab.run("typeof ran") == "undefined"
    assert all("Content Security Policy" in complaint for complaint in tab.complaints)


def test_pictures_of_no_node_one_node_and_a_cycle(tab: Browser, tmp_path: Path) -> None:
    nodes = tuple(PictureNode("Op", f"n{k}") for k in range(3))
    circle = (PictureEdge(0, 1), PictureEdge(1, 2), PictureEdge(2, 0))
    pictures = [GraphPicture(f"{k}", nodes[:k], circle if k == 3 else (), (Group(""),)) for k in (0, 1, 3)]
    (tmp_path / "m.html").write_text(page_of("m", document_of([Compilation("m", pictures)])))
    tab.complaints.clear()
    tab.open(tmp_path / "m.html")
    for k in range(3):
        tab.run(f"{PAGE}.switch({k})")
        tab.run(f"{VIEW}.paint()")
        check_scene(tab)
        for key in ("ArrowDown", "Enter", "e", "c", "0", "Escape"):
            tab.key(key)
    assert tab.complaints == []
