"""``graphwright explain --passes``, ``--layouts``, ``--shapes`` and ``--kernels`` on a small model with known
results: as text and as JSON, for a package and for an ONNX model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw
from graphwright.compiler.remark_text import decode_remarks, encode_remarks
from graphwright.kernels.kernel_choice import WhyNot
from tests.tools.support import graphwright

HOSTILE = "\x1b[31m<script>\n[red]"
SECTIONS = ("passes", "layouts", "shapes", "kernels")
SHAPE = ("N", 3, 32, 32)


def model(relu: str = "relu", shape: tuple[int | str, ...] = SHAPE) -> onnx.ModelProto:
    """A convolution with its normalization and activation, a second one, a flattened mean, a product.

    The convolutions are worth channel blocks; a Flatten has none.
    """
    rng = np.random.default_rng(0)
    weights = {
        "w1": rng.normal(size=(32, 3, 3, 3)),
        **{name: rng.uniform(1, 2, 32) for name in ("gain", "shift", "mean", "variance")},
        "w2": rng.normal(size=(32, 32, 3, 3)),
        "w3": rng.normal(size=(32, 4)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], "stem", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c1", "gain", "shift", "mean", "variance"], ["b"], "norm"),
        helper.make_node("Relu", ["b"], ["r"], relu),
        helper.make_node("Conv", ["r", "w2"], ["c2"], "second", pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c2"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "w3"], ["y"], "head"),
    ]
    tensors = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [shape[0], 4])
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("sections")
    onnx.save(model(), made / "m.onnx")
    onnx.save(model(HOSTILE), made / "hostile.onnx")
    gw.compile(made / "m.onnx", options={"isa": "v3"}).save(made / "m.om")
    gw.compile(model(shape=(1, 3, 32, 32)), options={"isa": "v3"}).save(made / "static.om")
    return made


def said(*arguments: object) -> str:
    done = graphwright("explain", "--trust", *arguments)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def facts(path: Path, section: str) -> Any:
    return json.loads(said(path, f"--{section}", "--json"))[section]


def passes(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["stage"], each["pass"]): each for each in facts(path, "passes")}


def test_a_pass_names_the_nodes_that_it_removed_and_added(folder: Path) -> None:
    found = passes(folder / "m.om")
    folded = found["simplify", "fold_conv_bn"]
    assert folded["changes"] == {"BatchNormalization of a contraction": 1}
    assert folded["removed"] == {"nodes": 2, "first": ["Conv stem", "BatchNormalization norm"]}
    assert folded["added"] == {"nodes": 1, "first": ["Conv stem + norm"]}
    decomposed = found["decompose", "decompose"]
    assert decomposed["removed"] == {"nodes": 1, "first": ["GlobalAveragePool pool"]}
    assert decomposed["added"] == {"nodes": 1, "first": ["ReduceMean pool"]}
    regions = found["fuse", "fuse"]
    assert regions["removed"]["nodes"] == 0
    assert regions["added"]["nodes"] == regions["changes"]["regions"]


def test_a_pass_says_what_stopped_it(folder: Path) -> None:
    declined = passes(folder / "m.om")["fuse", "fuse"]["declined"]
    reasons = {each["code"]: each for each in declined}
    assert reasons["FUSE_PROLOGUE"]["first"] == ["relu -> second", "flat -> head"]
    assert reasons["FUSE_EPILOGUE_REDUCTION"]["first"] == ["second -> pool"]
    blocks = passes(folder / "m.om")["layouts", "assign_layouts"]["declined"]
    assert ("channel blocks", "Flatten has no kernel for blocked layouts", ["flat"]) in [
        (each["rule"], each["why"], each["first"]) for each in blocks
    ]


TIME = re.compile(r"\d+(\.\d+)? (ns|us|ms)")


@pytest.mark.parametrize("section", ["passes", "layouts", "shapes"])
def test_screens_are_as_expected(section: str, folder: Path, golden: Callable[[Path, str], None]) -> None:
    """Predicted times are those of one machine."""
    given = "".join(
        " ".join(TIME.sub("TIME", line).split()) + "\n"
        for line in said(folder / "m.om", f"--{section}").splitlines()
    )
    golden(Path(__file__).parent / "golden" / f"explain_{section}.txt", given)


def test_every_pass_of_the_pipeline_is_there_and_those_that_did_nothing_are_short(folder: Path) -> None:
    lines = said(folder / "m.om", "--passes").splitlines()
    assert len(lines) <= 50 and max(map(len, lines)) <= 110
    found = passes(folder / "m.om")
    assert {"quantized", "shapes", "simplify", "decompose", "fuse", "layouts", "select", "bands"} <= {
        stage for stage, _ in found
    }
    text = " ".join(" ".join(lines).split())
    for (_, name), each in found.items():
        assert name in text
        if not (each["changes"] or each["declined"]):
            assert f"{name}: nothing" not in text
    assert "fold_conv_bn in simplify: BatchNormalization of a contraction (1)" in lines


def test_layouts_lists_requests_and_conversions(folder: Path) -> None:
    """Both convolutions request a layout, the mean follows, and the input of the Flatten is converted back to
    rows.
    """
    found = facts(folder / "m.om", "layouts")
    blocked = found["values"]["blocks of 8 channels"]
    assert [name.partition(" of ")[2] for name in blocked] == ["stem + norm + relu", "second", "pool"]
    assert {each["node"] for each in found["requests"]} == {"stem + norm + relu", "second"}
    assert all(each["saves_ns"] > 0 for each in found["requests"])
    assert found["copies"] == [
        {
            "value": "pool",
            "layout": "rows",
            "reader": "flat",
            "why": "Flatten has no kernel for blocked layouts",
            "bytes": 0,  # images of one pixel and whole blocks are the same bytes in both
        }
    ]


def test_a_copy_states_the_bytes_that_it_moves() -> None:
    """An output of 1 x 32 x 32 x 32 f32 in blocks is read and written once."""
    b = gw.GraphBuilder()
    x = b.input("x", np.float32, (1, 32, 32, 32))
    rng = np.random.default_rng(0)
    for number in range(3):
        w = rng.normal(size=(32, 32, 3, 3)).astype(np.float32)
        x = b.conv(x, w, pads=(1, 1, 1, 1), name=f"conv{number}")
    b.output("y", x)
    remarks = decode_remarks(gw.compile(b.build(), options={"isa": "v3"}).entry.remarks)
    moved = 2 * 4 * 32**3
    assert [(c.layout, c.reader, c.why, c.moved) for c in remarks.copies] == [
        ("blocks of 8 channels", "conv0", "inputs of graphs are row-major", moved),
        ("rows", "an output", "outputs of graphs are row-major", moved),
    ]


def test_shapes_lists_sizes_and_shape_programs(folder: Path) -> None:
    found = facts(folder / "m.om", "shapes")
    assert found["sizes"] == [
        {"size": "N", "inputs": [{"input": "x", "axis": 0}], "least": 0, "most": None, "multiple": 1}
    ]
    assert found["by_data"] == [] and found["bound"] == [] and found["ranks"] == []
    (program,) = found["shape_programs"]
    assert program["instructions"] > 0 and program["buffers"] >= 3 and program["tasks"] >= 1
    assert "N  at least 0  axis 0 of x" in said(folder / "m.om", "--shapes")
    expected = "all shapes are static: nothing is computed at run time\n"
    assert said(folder / "static.om", "--shapes") == expected
    (static,) = facts(folder / "static.om", "shapes")["shape_programs"]
    assert (static["buffers"], static["tasks"], static["offsets"], static["checks"]) == (0, 0, 0, 4)


def test_shapes_that_data_decides(tmp_path: Path) -> None:
    """NonZero of x has K elements; the ranges are the requested ones."""
    b = gw.GraphBuilder()
    x = b.input("x", np.float32, ("N", 8))
    b.output("y", b.non_zero(x, name="places"))
    path = tmp_path / "data.onnx"
    gw.compile(b.build(), shapes={"x": ("N=2..64", 8)}).save(tmp_path / "data.om")
    assert not path.exists()
    found = facts(tmp_path / "data.om", "shapes")
    (size,) = found["sizes"]
    assert (size["size"], size["least"], size["most"]) == ("N", 2, 64)
    (line,) = found["by_data"]
    assert "(NonZero)" in line and "from input x" in line
    (bound,) = found["bound"]
    assert line.startswith(f"{bound['size']}: axis 1 of ")


def test_kernels_lists_candidates_with_times_and_reasons(folder: Path) -> None:
    tasks = {each["nodes"]: each for each in facts(folder / "static.om", "kernels")["tasks"]}
    second = tasks["second"]
    names = {each["kernel"] for each in second["not_taken"]}
    assert names < {"direct", "winograd 2x2", "winograd 4x4"} and len(names) == 2
    for other in second["not_taken"]:
        assert other["code"] == "KERNEL_COST" and other["predicted_ns"] > 0
    stem = tasks["stem + norm + relu"]
    assert [(each["kernel"], each["code"], each["why"]) for each in stem["not_taken"]] == [
        ("winograd", "KERNEL_ILLEGAL", "it needs a channel-blocked input and output")
    ]
    assert all(each["predicted_ns"] >= 0 for each in tasks.values())
    times = [each["predicted_ns"] for each in tasks.values()]
    first = said(folder / "static.om", "--kernels").splitlines()[1]
    slowest = max(tasks.values(), key=lambda each: each["predicted_ns"])
    assert slowest["nodes"] in first and slowest["predicted_ns"] == max(times)


def test_the_page_lists_the_codes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()
    assert re.findall(r"^\| `(KERNEL_\w+)` \| (.*) \|$", page, re.MULTILINE) == [
        (code.value, code.means) for code in WhyNot
    ]


def test_strict_numerics_are_a_reason(tmp_path: Path) -> None:
    made = gw.compile(model(shape=(1, 3, 32, 32)), options={"isa": "v3", "numerics": "strict"})
    (choice,) = [each for each in decode_remarks(made.entry.remarks).kernels if each.location == "second"]
    assert [other.code for other in choice.others] == ["KERNEL_NUMERICS"]


@pytest.mark.parametrize("section", SECTIONS)
def test_a_model_is_compiled_for_it(section: str, folder: Path) -> None:
    assert said(folder / "m.onnx", "--isa", "v3", f"--{section}") == said(folder / "m.om", f"--{section}")


def test_json_has_all_sections(folder: Path) -> None:
    whole = json.loads(said(folder / "m.om", "--json"))
    for section in SECTIONS:
        assert whole[section] == facts(folder / "m.om", section)
    assert whole["decisions"]


@pytest.mark.parametrize("section", SECTIONS)
def test_hostile_names_reach_no_terminal(section: str, folder: Path) -> None:
    done = graphwright("explain", folder / "hostile.onnx", f"--{section}")
    assert done.exit_code == 0, done.stderr
    assert all(c.isprintable() or c == "\n" for c in done.stdout + done.stderr)


def test_a_screen_holds_it(folder: Path) -> None:
    for section in SECTIONS:
        assert len(said(folder / "m.om", f"--{section}").splitlines()) <= 50


def test_tasks_of_an_untrusted_package_are_not_read(folder: Path) -> None:
    done = graphwright("explain", folder / "static.om", "--kernels")
    assert "second" in done.stdout and "use --trust" in done.stderr
    assert "flat" in graphwright("explain", folder / "static.om", "--layouts").stdout


def test_only_one_section_can_be_requested(folder: Path) -> None:
    for arguments in (
        ["--passes", "--kernels"],
        ["--shapes", "--measure"],
        ["--layouts", "--why-not", "a", "b"],
        ["--passes", "--html", folder / "x.html"],
    ):
        assert graphwright("explain", folder / "m.om", *arguments).exit_code == 2
    assert not (folder / "x.html").exists()


def test_packages_keep_remarks_with_the_same_bytes(folder: Path) -> None:
    text = gw.load(folder / "m.om", trust=True).entry.remarks
    assert gw.compile(folder / "m.onnx", options={"isa": "v3"}).entry.remarks == text
    assert encode_remarks(decode_remarks(text)) == text
