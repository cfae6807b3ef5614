"""Gears on the command line: written packages, reports, and rejected arguments."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import graphwright as gw
from tests.executables import dispatch
from tests.gears.models import FLOAT, INT64, cnn, encoder, images, node, onnx_model

from .support import graphwright

STRING = TensorProto.STRING


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "network.onnx"
    path.write_bytes(cnn())
    return path


def gears_of(path: Path) -> list[tuple[Any, ...]]:
    """Shapes of the first input."""
    return [case.inputs[0].shape or () for case in dispatch(gw.load(path).package).cases]


def test_gears_of_given_shapes_and_no_others(network: Path) -> None:
    result = graphwright("compile", network, "-o", "a.om", "--gears", "x:1,3,16,16;4,3,16,16; 2,3,24,8")
    assert result.exit_code == 0 and "3 gears" in result.stderr
    assert gears_of(Path("a.om")) == [(1, 3, 16, 16), (4, 3, 16, 16), (2, 3, 24, 8)]
    model = gw.load("a.om")
    assert model(images(2, 3, 24, 8))[0].shape == (2, 5)
    with pytest.raises(gw.FeedError, match="no gear matches"):
        model(images(2, 3, 16, 16))


def test_batches_and_images(network: Path) -> None:
    flags = ("--dynamic-batch", "1,2", "--dynamic-image", "16x16,8x24", "--between", "dynamic")
    assert graphwright("compile", network, "-o", "b.om", *flags).exit_code == 0
    assert gears_of(Path("b.om"))[:4] == [(1, 3, 16, 16), (1, 3, 8, 24), (2, 3, 16, 16), (2, 3, 8, 24)]
    assert gw.load("b.om")(images(3, 3, 9, 9))[0].shape == (3, 5)


def test_batches_between_gears_are_padded(network: Path) -> None:
    flags = ("--shape", "x:?,3,16,16", "--dynamic-batch", "2,4", "--between", "pad")
    assert graphwright("compile", network, "-o", "p.om", *flags).exit_code == 0
    assert gw.load("p.om")(images(3, 3, 16, 16))[0].shape == (3, 5)
    refused = graphwright(
        "compile", network, "--dynamic-batch", "1", "--dynamic-image", "8x8,9x9", "--between", "pad"
    )
    assert refused.exit_code == 1 and "stem" in refused.stderr and "Conv" in refused.stderr


@pytest.mark.parametrize(("combine", "count"), [("zip", 2), ("product", 4)])
def test_gears_of_several_inputs_are_combined(tmp_path: Path, combine: str, count: int) -> None:
    path = tmp_path / "encoder.onnx"
    path.write_bytes(encoder())
    flags = ["--gears", "ids:1,8;1,4", "--gears", "mask:?,8;?,4", "--combine", combine]
    result = graphwright("compile", path, "-o", "e.om", *flags)
    if combine == "product":  # ids and mask have one size: sequences of 8 do not go with masks of 4
        assert result.exit_code == 2 and "gear 1 (ids:1,8 mask:?,4)" in result.stderr
        return
    assert result.exit_code == 0 and f"{count} gears" in result.stderr
    feeds = {"ids": np.ones((1, 4), np.int64), "mask": np.ones((1, 4), np.int64)}
    assert gw.load("e.om").run(feeds)["y"].shape == (1, 4, 8)


def test_inspect_shows_gears_with_memory_and_time(network: Path) -> None:
    graphwright("compile", network, "-o", "g.om", "--gears", "x:1,3,16,16;8,3,32,32")
    shown = graphwright("inspect", "g.om", "--threads", "1").stdout
    assert "gears: 2; other shapes are an error" in shown and "BucketIndex" in shown and "Case" in shown
    rows = re.findall(r"(\d)\s+x:(\S+)\s+1\s+\d+\s+0\s+([\d.]+ \w+)", shown)
    assert [row[:2] for row in rows] == [("0", "1,3,16,16"), ("1", "8,3,32,32")]
    assert f"shared by all gears: {rows[1][2]}" in shown, "the arena of the largest"
    timed = graphwright("inspect", "g.om", "--measure", "--threads", "1").stdout
    assert len(re.findall(r"[\d.]+ ms", timed)) == 2 and "fastest run" in timed
    alone = graphwright("inspect", "g.om", "--shape", "x:8,3,32,32", "--threads", "1").stdout
    assert re.search(r"arena\s+" + re.escape(rows[1][2]), alone)
    others = graphwright(
        "inspect", network, "--dynamic-batch", "1,2", "--dynamic-image", "8x8", "--between", "dynamic"
    )
    assert others.exit_code == 0 and "run on a program for all shapes" in others.stdout
    assert "Case[branches=2" in graphwright("inspect", "g.om", "--ir", "high").stdout


def test_inspect_shows_gears_of_a_model_that_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    nodes = [node("Relu", ["x"], ["y"]), node("StringNormalizer", ["s"], ["t"], case_change_action="UPPER")]
    ports: dict[str, tuple[int, list[Any]]] = {"s": (STRING, ["N"]), "x": (FLOAT, ["N", 3])}
    path.write_bytes(onnx_model(nodes, ports, {"y": (FLOAT, ["N", 3]), "t": (STRING, ["N"])}))
    graphwright("compile", path, "-o", "cut.om", "--dynamic-batch", "2,4", "--between", "dynamic")
    shown = graphwright("inspect", "cut.om").stdout
    assert "gears: 2; other shapes run on a program for all shapes" in shown and "variant for" not in shown
    counted = [("0", "s:2 x:2,3", "1", "1", "1"), ("1", "s:4 x:4,3", "1", "1", "1")]
    assert re.findall(r"(\d)\s+(s:\S+ x:\S+)\s+(\d)\s+(\d)\s+(\d)", shown) == counted
    timed = graphwright("inspect", "cut.om", "--measure", "--threads", "1")
    assert timed.exit_code == 0 and len(re.findall(r"[\d.]+ ms", timed.stdout)) == 2
    assert re.search(r"arena, shared by all gears: [1-9]", timed.stdout)
    assert shown.count("depends on the run") == 2


def test_gears_that_random_inputs_do_not_fit_are_shown_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "reshape.onnx"
    nodes = [node("Reshape", ["x", "to"], ["r"]), node("Exp", ["r"], ["y"])]
    path.write_bytes(onnx_model(nodes, {"x": (FLOAT, ["N", 4]), "to": (INT64, [2])}, {"y": (FLOAT, None)}))
    shown = graphwright("inspect", path, "--gears", "x:6,4;2,4", "--measure")
    assert shown.exit_code == 0 and shown.stdout.count("random inputs: ") == 2, shown.stdout


def test_run_and_check_take_the_gear_of_the_feeds(network: Path) -> None:
    graphwright("compile", network, "-o", "r.om", "--gears", "x:1,3,16,16;2,3,16,16")
    assert graphwright("run", "r.om", "--shape", "x:2,3,16,16").exit_code == 0
    refused = graphwright("run", "r.om", "--shape", "x:3,3,16,16")
    assert refused.exit_code == 1 and "the gears are x:1,3,16,16; x:2,3,16,16" in refused.stderr


def test_inspect_takes_sizes_between_gears(network: Path) -> None:
    graphwright("compile", network, "-o", "p.om", "--gears", "x:1,3,16,16;4,3,16,16", "--between", "pad")
    shown = graphwright("inspect", "p.om", "--shape", "x:3,3,16,16")
    assert shown.exit_code == 0 and "x  f32[3, 3, 16, 16]" in shown.stdout, shown.stderr
    assert "memory for x: [3, 3, 16, 16]" in shown.stdout
    refused = graphwright("inspect", "p.om", "--shape", "x:5,3,16,16")
    assert "no gear accepts x:5,3,16,16" in refused.stderr
    assert "the gears are x:1,3,16,16; x:4,3,16,16" in refused.stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--gears", "1,3,8,8"), "NAME:SIZES;SIZES"),
        (("--gears", "x:1,3,8,a;2,3,8,8"), "is not a size"),
        (("--gears", "x:1,3,8,8;"), "is not a size"),
        (("--gears", "x:1,3,8,8", "--gears", "x:2,3,8,8"), "named twice"),
        (("--dynamic-batch", "1,two"), "is not a list of numbers"),
        (("--dynamic-batch", "1,,2"), "is not a list of numbers"),
        (("--dynamic-image", "8,9"), "not a height and width"),
        (("--dynamic-image", "8x9x10,1x2"), "not a height and width"),
        (("--between", "pad"), "give --gears"),
        (("--combine", "product"), "give --gears"),
        (("--between", "sideways", "--dynamic-batch", "1,2"), "sideways"),
    ],
)
def test_invalid_gear_flags_are_usage_errors(network: Path, flags: tuple[str, ...], words: str) -> None:
    result = graphwright("compile", network, *flags)
    assert result.exit_code == 2 and not Path("network.om").exists()
    assert words in re.sub(r"[\s│]+", " ", result.stderr), result.stderr


def test_gears_of_a_package_are_rejected(network: Path) -> None:
    graphwright("compile", network, "-o", "n.om")
    result = graphwright("inspect", "n.om", "--dynamic-batch", "1,2")
    assert result.exit_code == 2 and "compiled already" in re.sub(r"[\s│]+", " ", result.stderr)


def test_bad_gears_are_one_error_that_names_them(network: Path) -> None:
    result = graphwright("compile", network, "--gears", "z:1,2;3,4")
    assert result.exit_code == 2 and "no input 'z'" in result.stderr and "Traceback" not in result.stderr
    assert not Path("network.om").exists()


@pytest.mark.parametrize(("between", "rows"), [("error", 2), ("pad", 3), ("dynamic", 3)])
@pytest.mark.parametrize("command", ["check", "debug bisect", "explain --measure"])
def test_commands_evaluate_the_gear_of_a_run(tmp_path: Path, command: str, between: str, rows: int) -> None:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N", 4))
    b.output("y", b.add(b.softmax(x, axis=-1), x))
    path = tmp_path / "x.om"
    b.compile(gears=gw.Gears({"x": [(2, 4), (5, 4)]}, between=between)).save(path)
    result = graphwright(*command.split(), path, "--shape", f"x:{rows},4")
    assert result.exit_code == 0, result.stderr
    assert "within" in result.stdout or "largest merges" in result.stdout
