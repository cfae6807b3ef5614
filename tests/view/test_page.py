"""The page as text: it runs no script but its own, and its bytes depend on the model alone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import onnx.parser
import pytest

import graphwright as gw
from graphwright.support.escaping import script_json
from graphwright.view.document import Compilation, document_of
from graphwright.view.page import FOLDER, bundle, page_of
from graphwright.view.picture import GraphPicture, Group, PictureEdge, PictureNode
from graphwright.view.stages import NAMES
from tests.tools.support import graphwright
from tests.view.support import HOSTILE, hostile, layers


class Elements(HTMLParser):
    """The elements of a page, and the texts of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts[-1] += data


def written(model: onnx.ModelProto, folder: Path, *arguments: str) -> tuple[str, Any]:
    """The page of ``model``, and the document in it."""
    onnx.save(model, folder / "m.onnx")
    done = graphwright("view", folder / "m.onnx", "-o", folder / "m.html", *arguments)
    assert done.exit_code == 0, done.stderr
    text = (folder / "m.html").read_text("utf-8")
    return text, json.loads(Elements(text).scripts[0])


@pytest.mark.parametrize("make", [hostile, lambda: layers(3)], ids=["hostile", "layers"])
def test_its_own_script_alone_may_run(make: Any, tmp_path: Path) -> None:
    text, document = written(make(), tmp_path)
    page = Elements(text)
    assert [attributes.get("type") for tag, attributes in page.tags if tag == "script"] == [
        "application/json",
        None,
    ]
    assert not [
        name
        for _, attributes in page.tags
        for name in attributes
        if name.startswith("on") or name in ("src", "href")
    ]
    policy = next(
        a["content"] for tag, a in page.tags if tag == "meta" and "content" in a and a.get("http-equiv")
    )
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert page.scripts[1] == bundle()
    assert "\x1b" not in text and "\u202e" not in text
    assert all(each.isprintable() for shown in document["texts"] for each in shown.split("\n"))


def test_hostile_names_are_shown_without_controls(tmp_path: Path) -> None:
    _, document = written(hostile(), tmp_path)
    clean = HOSTILE.replace("\x1b", "\N{REPLACEMENT CHARACTER}").replace(
        "\u202e", "\N{REPLACEMENT CHARACTER}"
    )
    assert clean in document["sources"] and f"/{clean}/{clean}" in document["sources"]


def test_json_in_a_script_reads_back() -> None:
    value = {"a": [HOSTILE, "\u2028", "\ud800", 1.5, None], "<": "&"}
    text = script_json(value)
    assert json.loads(text) == value and text.isascii() and not re.search("[<>&]", text)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    assert written(layers(3), tmp_path)[0] == written(layers(3), tmp_path)[0]


def test_equal_levels_are_drawn_once(tmp_path: Path) -> None:
    """The drawing of a layer and that of its inner scope are the same for 3 layers and for 12."""
    few, many = (written(layers(count), tmp_path, "--stage", "imported")[1] for count in (3, 9))
    assert [stage["name"] for stage in many["stages"]] == ["imported"]
    assert len(many["stages"][0]["groups"]) == 2 + 2 * 9
    assert len(few["drawings"]) == len(many["drawings"]) == 4


def test_measured_times_are_those_of_tasks(tmp_path: Path) -> None:
    _, document = written(layers(3), tmp_path, "--measure")
    tasks = document["stages"][-1]
    figures = [node[4] for node in tasks["nodes"] if node[6]]
    assert [stage["name"] for stage in document["stages"]] == list(NAMES)
    assert len(figures) == 3 and all(each["measured_ns"] > 0 and each["predicted_ns"] > 0 for each in figures)


def test_errors_are_those_against_f64(tmp_path: Path) -> None:
    """Sums of 8 f32 products have some rounding errors; each layer increases the error."""
    _, document = written(layers(3), tmp_path, "--check")
    fused = next(stage for stage in document["stages"] if stage["name"] == "fused")
    errors = [group["node"][4]["error"] for group in fused["groups"] if group["node"]]
    assert len(errors) == 3 and all(0 < error < 1e-6 for error in errors)
    final = [node for node in document["stages"][0]["nodes"] if document["texts"][node[1]].endswith("2/Relu")]
    assert [node[4]["error"] for node in final] == errors[-1:]


def test_errors_of_values_in_functions_are_shown(tmp_path: Path) -> None:
    """Both results come from inside of a function: the calls are no nodes of the graph."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17, "f": 1]>
        g (float[4] x) => (float[4] y, float[4] z) { y = f.P (x) z = f.P (y) }
        <domain: "f", opset_import: ["": 17]> P (a) => (b) { b = Exp (a) }""")
    _, document = written(model, tmp_path, "--check")
    nodes = document["stages"][0]["nodes"]
    assert sum(node[4].get("error") is not None for node in nodes) == 2


def test_decisions_name_their_codes_and_sources(tmp_path: Path) -> None:
    _, document = written(layers(3), tmp_path)
    texts, sources = document["texts"], document["sources"]
    taken = [each for each in document["compilations"][0]["decisions"] if each["verdict"] == "taken"]
    assert len(taken) == 6 and {each["code"] for each in taken} == {"FUSE_MERGED"}
    for each in document["compilations"][0]["decisions"]:
        assert document["codes"][each["code"]][0] and texts[each["why"]]
        assert [texts[name] for name in each["nodes"]] == [
            " + ".join(sources[k] for k in side) for side in each["sources"]
        ]


def test_a_package_has_its_last_stages(tmp_path: Path) -> None:
    gw.compile(layers(3)).save(tmp_path / "m.om")
    done = graphwright("view", tmp_path / "m.om", "-o", tmp_path / "m.html")
    assert done.exit_code == 0, done.stderr
    document = json.loads(Elements((tmp_path / "m.html").read_text()).scripts[0])
    assert [stage["name"] for stage in document["stages"]] == ["laid-out", "tasks"] and document[
        "compilations"
    ][0]["decisions"]


def test_a_page_compares_two_compilations(tmp_path: Path) -> None:
    """The second compilation fuses nothing; both link to the same source nodes."""
    for name, rules in (("old", "all"), ("new", "none")):
        gw.compile(layers(3), options={"fusion_rules": rules}).save(tmp_path / f"{name}.om")
    done = graphwright("view", tmp_path / "old.om", tmp_path / "new.om", "--diff", "-o", tmp_path / "m.html")
    assert done.exit_code == 0, done.stderr
    document = json.loads(Elements((tmp_path / "m.html").read_text()).scripts[0])
    assert [each["title"] for each in document["compilations"]] == ["old.om", "new.om"]
    stages = [(stage["compilation"], stage["name"]) for stage in document["stages"]]
    assert stages == [(0, "laid-out"), (0, "tasks"), (1, "laid-out"), (1, "tasks")]
    assert document["starts"] == [0, 2]
    launches = [sum(bool(node[6]) for node in stage["nodes"]) for stage in document["stages"]]
    assert launches == [0, 3, 0, 9]
    for k in (1, 3):
        sources = {source for node in document["stages"][k]["nodes"] for source in node[2]}
        assert {document["sources"][source] for source in sources} == {n.name for n in layers(3).graph.node}


def test_before_and_after_a_pass(tmp_path: Path) -> None:
    _, document = written(layers(3), tmp_path, "--pass", "fuse", "--stage", "tasks")
    before, after, _ = document["stages"]
    assert [stage["name"] for stage in document["stages"]] == ["before fuse", "after fuse", "tasks"]
    assert document["starts"] == [0, 1]
    regions = [sum(group["node"] is not None for group in stage["groups"]) for stage in (before, after)]
    assert regions == [0, 3] and len(before["nodes"]) == len(after["nodes"])


def test_an_empty_graph_and_one_node() -> None:
    nothing = GraphPicture("imported", (), (), (Group(""),))
    one = GraphPicture("fused", (PictureNode("Relu", "r"),), (), (Group(""),))
    document = document_of([Compilation("m", [nothing, one])])
    assert [len(stage["groups"][0]["items"]) for stage in document["stages"]] == [0, 1]
    assert "<title>m</title>" in page_of("m", document)


def test_ten_thousand_nodes_without_scopes() -> None:
    """The size of the document depends on the number of nodes, not on what edges pass."""
    count = 10_000
    nodes = tuple(PictureNode("Add", f"Add_{k}", sources=(f"Add_{k}",)) for k in range(count))
    edges = [PictureEdge(k, k + 1) for k in range(count - 1)]
    edges += [PictureEdge(k, min(count - 1, k + 50 + k % 400)) for k in range(0, count - 60, 3)]
    document = document_of([Compilation("m", [GraphPicture("imported", nodes, tuple(edges), (Group(""),))])])
    assert len(script_json(document)) < 300 * count


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("missing.onnx",), "there is no such file"),
        (("m.onnx", "--stage", "fusd"), "there is no stage 'fusd'"),
        (("m.onnx", "-o", "missing/a.html"), "there is no folder"),
        (("m.onnx", "-o", "m.onnx"), "is the model itself"),
        (("m.onnx", "--input", "x=1"), "it needs --measure or --check"),
        (("m.onnx", "--entry", "mian"), "there is no entry 'mian'"),
        (("m.onnx", "--diff"), "needs two models"),
        (("m.om", "--check"), "it needs .onnx models"),
        (("m.om", "--stage", "imported"), "it has 'laid-out', 'tasks'"),
        (("m.onnx", "m.onnx"), "needs two models"),
        (("m.onnx", "--pass", "fold_conv_bn"), "no pass 'fold_conv_bn' ran that changed the graph"),
    ],
)
def test_misuse_is_an_error_and_changes_no_file(
    arguments: tuple[str, ...], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(layers(1), "m.onnx")
    gw.compile(layers(1)).save("m.om")
    before = Path("m.onnx").read_bytes()
    done = graphwright("view", *arguments)
    assert done.exit_code != 0
    assert found in " ".join(done.stderr.replace("│", " ").split())
    assert Path("m.onnx").read_bytes() == before and not list(tmp_path.glob("*.html"))


def test_names_of_modules_are_names_of_files() -> None:
    """The bundle then has all of them, each after its imports."""
    text = bundle()
    found = re.findall(r"^const module_(\w+) = ", text, re.MULTILINE)
    assert sorted(found) == sorted(path.stem for path in FOLDER.glob("*.js")) and found[-1] == "main"
    assert not re.search(r"^(import|export) ", text, re.MULTILINE)


def test_notebooks_show_the_page_in_a_frame(tmp_path: Path) -> None:
    page = gw.draw(layers(3), "layers")
    (frame,) = Elements(page._repr_html_()).tags
    assert frame[0] == "iframe" and frame[1]["sandbox"] == "allow-scripts" and frame[1]["srcdoc"] == page.html
    page.save(tmp_path / "m.html")
    assert (tmp_path / "m.html").read_text("utf-8") == page.html
    stages = [
        json.loads(Elements(each.html).scripts[0])["stages"]
        for each in (page, gw.draw(gw.compile(layers(3))))
    ]
    assert [[stage["name"] for stage in each] for each in stages] == [list(NAMES), ["laid-out", "tasks"]]
