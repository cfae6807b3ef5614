"""``graphwright explain`` on a small model, as text, JSON and HTML, and errors for its arguments."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import graphwright as gw
from graphwright.compiler.recompile import unpacked_module
from graphwright.ir.builtin.fused import Fused
from graphwright.runtime.devices.cpu import Cpu
from graphwright.tools.measuring.predictions import region_model
from tests.onnx_models import model_proto
from tests.tools.support import graphwright

PREDICTED = re.compile(r"predicted 0\.\d\d of the time")
HOSTILE = '<script>alert("\x1b[31m")</script>'


def model(name: str = "relu") -> onnx.ModelProto:
    """A product, an activation called ``name``, a sum over rows, another product."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], "product"),
        helper.make_node("Relu", ["m"], ["r"], name),
        helper.make_node("ReduceSum", ["r", "axes"], ["s"], "sum"),
        helper.make_node("Div", ["r", "s"], ["d"], "div"),
        helper.make_node("MatMul", ["d", "w"], ["y"], "last"),
    ]
    weights = {"w": np.ones((16, 16), np.float32), "axes": np.array([1])}
    return model_proto(nodes, {"x": [8, 16]}, {"y": [8, 16]}, weights)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("explain")
    onnx.save(model(), made / "m.onnx")
    onnx.save(model(HOSTILE), made / "hostile.onnx")
    gw.compile(made / "m.onnx").save(made / "m.om")
    gw.compile(made / "m.onnx", options={"fusion_rules": "none"}).save(made / "none.om")
    return made


def said(*arguments: object) -> str:
    done = graphwright("explain", *arguments)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_the_summary_counts_the_bytes_of_kernels_and_of_ops(folder: Path) -> None:
    """x, m, r, d and y have 512 bytes each, s has 32. The kernels are matmul with relu, sum with div, and the
    last op.
    """
    text = said(folder / "m.om")
    head, columns, rows = text.partition("bytes  edits")
    first, lines = " ".join(head.split()), (columns + rows).splitlines()
    kernels = 2 * 512 + 2 * 512 + 2 * 512
    ops = 2 * 512 + 2 * 512 + 512 + 32 + (512 + 32 + 512) + 2 * 512
    assert first == (
        f"5 ops in 3 kernels, not counting views: a run reads and writes {kernels / 1024:.1f} KiB, "
        f"{100 - 100 * kernels / ops:.0f} % less than with a kernel for each op ({ops / 1024:.1f} KiB)"
    )
    assert [PREDICTED.sub("predicted ?", " ".join(line.split())) for line in lines] == [
        "bytes edits rule or code the largest",
        "saved 1.0 KiB 1 rule epilogue product -> relu, 1.0 KiB, predicted ?",
        "saved 576 B 1 rule row sum -> div, 576 B, predicted ?",
        "missed 1.5 KiB 2 FUSE_EPILOGUE_REDUCTION relu -> div, 1.0 KiB: a reduction needs whole rows; the "
        "contraction stores tiles",
        "missed 1.0 KiB 1 FUSE_PROLOGUE div -> last, 1.0 KiB: MatMul reads its operands from memory",
    ]
    assert said(folder / "m.onnx") == text


def test_why_not_gives_the_first_refusal_between_two_nodes(folder: Path) -> None:
    package = folder / "m.om"
    assert said(package, "--why-not", "product", "relu") == "one kernel computes both: product + relu\n"
    reduction = said(package, "--why-not", "relu", "sum")
    assert reduction.splitlines() == [
        "relu -> sum: a reduction needs whole rows; the contraction stores tiles [FUSE_EPILOGUE_REDUCTION]",
        "  a merge would save 512 B in a run",
    ]
    assert said(package, "--why-not", "sum", "relu") == reduction
    assert said(package, "--why-not", "product", "sum") == reduction
    assert "[FUSE_RULE_OFF]" in said(folder / "none.om", "--why-not", "product", "relu")


def test_sizes_do_not_change_a_package(folder: Path) -> None:
    done = graphwright("explain", folder / "m.om", "--shape", "x:8,16")
    assert done.exit_code == 2 and "--shape" in done.stderr and ".onnx" in done.stderr


def test_layout_conversions_are_stated(tmp_path: Path) -> None:
    """They move bytes that no op of the model does: reads and writes of images of 64 channels."""
    weights = {"w": np.ones((64, 64, 3, 3), np.float32)}
    image = ["n", 64, 56, 56]
    node = helper.make_node("Conv", ["x", "w"], ["y"], "c", pads=[1, 1, 1, 1])
    onnx.save(model_proto([node], {"x": image}, {"y": image}, weights), tmp_path / "c.onnx")
    shown = " ".join(said(tmp_path / "c.onnx", "--shape", "x:1,64,56,56").split())
    moved = 4 * 64 * 56 * 56 / 2**20
    assert f"reads and writes {6 * moved:.1f} MiB ({4 * moved:.1f} MiB for layout conversions)" in shown


def test_one_error_names_all_unknown_nodes(folder: Path) -> None:
    done = graphwright("explain", folder / "m.om", "--why-not", "prodct", "nothing")
    assert done.exit_code == 1
    assert (
        "no node that runs is called 'prodct'" in done.stderr and "did you mean 'product' or" in done.stderr
    )
    assert "no node that runs is called 'nothing'" in done.stderr


def test_diff_shows_the_decisions_that_changed(folder: Path) -> None:
    lines = said(folder / "m.om", folder / "none.om", "--diff").splitlines()
    assert lines[0] == "kernels: 3, now 5"
    assert "  product -> relu: taken [FUSE_MERGED], now refused [FUSE_RULE_OFF]" in lines
    assert said(folder / "m.om", folder / "m.onnx", "--diff").splitlines()[2:] == ["decisions that differ: 0"]


def test_json_has_all_nodes_and_decisions(folder: Path) -> None:
    facts = json.loads(said(folder / "m.om", "--json"))
    assert facts["format"] == 1 and facts["ops"] == 5
    assert facts["total"]["read"] + facts["total"]["written"] == 3072
    assert [node["name"] for node in facts["nodes"]] == ["product + relu", "sum + div", "last"]
    (merged,) = [d for d in facts["decisions"] if d["nodes"] == ["sum", "div"]]
    assert merged.pop("predicted") < 0, "one kernel is faster"
    assert merged == {
        "edit": "merge", "nodes": ["sum", "div"], "sources": [["sum"], ["div"]], "verdict": "taken",
        "code": "FUSE_MERGED", "why": "rule row", "bytes_saved": 576, "measured": None,
    }  # fmt: skip


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [name for name, _ in attrs if name in ("src", "href", "onclick")]


def test_html_is_one_page_without_scripts_whatever_nodes_are_called(folder: Path, tmp_path: Path) -> None:
    said(folder / "hostile.onnx", "--html", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    tags = Tags()
    tags.feed(text)
    assert not tags.tags & {"script", "link", "img", "iframe"} and not tags.links
    assert "&lt;script&gt;" in text and "\x1b" not in text
    assert "FUSE_EPILOGUE_REDUCTION" in text


def test_the_terminal_gets_no_control_characters(folder: Path) -> None:
    assert "\x1b" not in said(folder / "hostile.onnx")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("missing.om",), "there is no such file"),
        (("m.om", "--diff"), "needs two models"),
        (("m.om", "none.om"), "needs two models"),
        (("m.om", "--json", "--html", "a.html"), "use only one of"),
        (("m.om", "--html", "missing/a.html"), "there is no folder"),
        (("m.om", "--entry", "mian"), "there is no entry 'mian'"),
        (("m.onnx", "--fusion-rules", "rows"), "there is no fusion rule 'rows'"),
        (("m.onnx", "--opt-level", "4"), "must be one of 0, 1, 2, 3"),
    ],
)
def test_misuse_is_an_error_and_writes_nothing(
    arguments: tuple[str, ...], found: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    done = graphwright("explain", *arguments)
    assert done.exit_code != 0
    assert found in " ".join(done.stderr.replace("│", " ").split())
    assert not (folder / "a.html").exists()


def test_inspect_shows_the_bytes_of_kernels(folder: Path) -> None:
    done = graphwright("inspect", folder / "m.om", "--report")
    assert "product + relu  512 B    512 B" in done.stdout
    facts = json.loads(graphwright("inspect", folder / "m.om", "--json").stdout)["traffic"]
    assert (facts["read"], facts["written"], len(facts["nodes"])) == (1536, 1536, 3)


# -- measured


def test_every_task_has_its_prediction_and_its_time(folder: Path) -> None:
    facts = json.loads(said(folder / "m.om", "--measure", "--json"))
    measured = facts["measured"]
    tasks = {task["task"]: task for task in measured["tasks"]}
    compiled = gw.load(folder / "m.om")
    (program,) = compiled.package.programs()
    (target,) = program.targets.values()
    assert isinstance(compiled.executor, Cpu)
    registers = compiled.executor.plan([(8, 16)], 1)["registers"]
    assert {number: (task["nodes"], task["predicted_ns"]) for number, task in tasks.items()} == {
        number: (task.name, registers[task.work]) for number, task in enumerate(target.task_graph.tasks)
    }
    assert all(task["measured_ns"] > 0 for task in tasks.values())
    assert measured["predicted_ns"] == sum(task["predicted_ns"] for task in tasks.values())
    off = [abs(task["measured_ns"] - task["predicted_ns"]) for task in measured["tasks"]]
    assert off == sorted(off, reverse=True)
    assert facts["decisions"]


def test_the_largest_merges_are_timed_fused_and_apart(folder: Path) -> None:
    """The matmul with relu saves 1024 bytes, and the sum with div 576."""
    merges = json.loads(said(folder / "m.om", "--measure", "--json"))["measured"]["merges"]
    assert [merge["nodes"] for merge in merges] == [["product", "relu"], ["sum", "div"]]
    assert [merge["ops"] for merge in merges] == [["MatMul", "Relu"], ["ReduceSum", "Div"]]
    for merge in merges:
        assert merge["fused_ns"] > 0 and merge["apart_ns"] > 0
        assert merge["ratio_low"] <= merge["ratio"] <= merge["ratio_high"]


def test_dynamic_sizes_are_given(folder: Path) -> None:
    path = folder / "open.onnx"
    onnx.save(onnx.parser.parse_model(OPEN), path)
    assert "pass them" in graphwright("explain", path, "--measure").stderr
    text = said(path, "--measure", "--shape", "x:3,5")
    assert text.splitlines()[0].split() == ["predicted", "measured", "ratio", "kernel", "source", "nodes"]
    assert "all tasks" in text and "largest merges" in text
    np.savez(folder / "feeds.npz", x=np.ones((4, 5), np.float32))
    assert "all tasks" in said(path, "--measure", "--input", folder / "feeds.npz")


OPEN = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 5] x) => (float[n, 5] y) {
    [gate] s = Sigmoid (x)
    [product] y = Mul (s, x)
}"""


def test_arguments_that_cannot_be_combined_with_measure(folder: Path) -> None:
    package = folder / "m.om"
    for arguments in (
        ["--measure", "--html", folder / "x.html"],
        ["--measure", "--why-not", "product", "relu"],
    ):
        assert graphwright("explain", package, *arguments).exit_code == 2
    assert graphwright("explain", package, "--input", "x=1").exit_code == 2


@pytest.mark.parametrize("rules", ["all", "none"])
def test_a_region_as_a_model_gives_the_same_results(rules: str) -> None:
    """The weights of a region are its constants."""
    module = unpacked_module(gw.compile(model()).package)
    node = next(node for node in module.walk() if isinstance(node.op, Fused) and "product" in node.sources)
    alone = region_model(module, node, gw.CompileOptions(fusion_rules=rules))
    x = np.linspace(-1, 1, 128, dtype=np.float32).reshape(8, 16)
    assert [spec.name for spec in alone.inputs] == ["operand_0"]
    np.testing.assert_allclose(alone(x)[0], np.maximum(x @ np.ones((16, 16)), 0), rtol=1e-4, atol=1e-5)
