"""Every fault that is planted in the compiler is found: the pass, kernel or memory, and the node."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.planted_faults.__main__ import find
from benchmarks.planted_faults.faults import FAULTS, Fault, cause_of
from benchmarks.planted_faults.models import MODELS
from benchmarks.planted_faults.plant import argument, in_launch
from graphwright.config import Options
from graphwright.tools.debugging.bisection import bisect
from graphwright.tools.debugging.subject import open_subject
from tests.tools.support import HOSTILE, graphwright, write_model

NAMED = {fault.name: fault for fault in FAULTS}
REDUCED = {
    "remove_noops removes a Relu": 1,
    "fuse exchanges operands in a region": 1,
    "generated kernel: a mean divides by 255": 1,
    "order: a step runs before what it reads": 2,
    "storage: a value is overwritten in place that is read later": 7,
    "tasks: a slice begins too early": 2,
}
"""Faults, and the number of nodes that show them."""


def test_there_are_enough() -> None:
    assert len(FAULTS) >= 30 and len(NAMED) == len(FAULTS)


@pytest.mark.parametrize("model", MODELS)
def test_models_without_a_fault_are_right(model: str, tmp_path: Path) -> None:
    onnx.save(MODELS[model](), tmp_path / "m.onnx")
    finding = bisect(open_subject(tmp_path / "m.onnx", Options(isa="v3")), 1e-5)
    assert finding.cause is None and finding.distance.most <= 1e-5


def test_rounding_to_16_bits_is_no_fault(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float16[8, 8] x) => (float16[8, 8] y) {
            a = MatMul(x, x)
            b = MatMul(a, a)
            y = MatMul(b, b)
        }"""
    )
    onnx.save(model, tmp_path / "m.onnx")
    results = [
        graphwright("debug", *command, *flags)
        for command in (("bisect", "m.onnx"), ("compare", "m.onnx", "m.onnx", "--with", "fp64"))
        for flags in ((), ("--tolerance", "1e-5"))
    ]
    assert [result.exit_code for result in results] == [0, 1, 0, 1], [r.output for r in results]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_found(fault: Fault, tmp_path: Path) -> None:
    finding = find(fault, tmp_path)
    assert fault.is_named(finding), f"{cause_of(finding)} at {finding.sources}"


@pytest.mark.parametrize("name", REDUCED)
def test_the_smallest_model_is_written_and_shows_the_fault(name: str, tmp_path: Path) -> None:
    fault = NAMED[name]
    onnx.save(MODELS[fault.model](), "m.onnx")
    with fault.plant():
        result = graphwright("debug", "bisect", "m.onnx", "-o", "out", "--isa", "v3")
        assert result.exit_code == 1, result.output
        assert script_status(Path("out")) == 1
    assert {path.name for path in Path("out").iterdir()} == {
        "reduced.onnx",
        "feeds.npz",
        "expected.npz",
        "reproduce.py",
    }
    made = onnx.load("out/reduced.onnx")
    onnx.checker.check_model(made, full_check=True)
    assert len(made.graph.node) == REDUCED[name]
    assert len(np.load("out/feeds.npz").files) == len(made.graph.input)
    assert script_status(Path("out")) == 0, "without the fault"


def script_status(folder: Path) -> int:
    """The exit status of the script of a reproduction."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        runpy.run_path("reproduce.py")
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        os.chdir(here)
    raise AssertionError("it did not exit")


def test_names_of_a_hostile_model_end_in_no_script(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", HOSTILE)
    with in_launch(f"last{HOSTILE}", argument(1, 0))():  # a Relu is not applied
        shape = f"x{HOSTILE}:2,4"
        result = graphwright("debug", "bisect", "m.onnx", "-o", "out", "--isa", "v3", "--shape", shape)
    assert result.exit_code == 1 and all(c.isprintable() or c == "\n" for c in result.output)
    assert "evil" not in Path("out/reproduce.py").read_text()
    assert script_status(Path("out")) == 0, "without the fault"


def test_a_package_is_made_smaller_as_well(tmp_path: Path) -> None:
    fault = NAMED["generated kernel: a mean divides by 39"]
    onnx.save(MODELS[fault.model](), "m.onnx")
    assert graphwright("compile", "m.onnx", "-o", "m.om", "--isa", "v3").exit_code == 0
    with fault.plant():
        result = graphwright("debug", "bisect", "m.om", "-o", "out", "--isa", "v3")
    assert result.exit_code == 1 and "kernel mean_" in result.stdout, result.output
    nodes = onnx.load("out/reduced.onnx").graph.node
    assert len(nodes) < len(onnx.load("m.onnx").graph.node)
    assert script_status(Path("out")) == 0, "without the fault"
