"""What a crash in a kernel says, in processes of their own: a plugin's C has the fault, or the file of an
input is cut while it is mapped.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from graphwright.runtime.crashes.brief_sites import brief_sites
from graphwright.runtime.devices.this_cpu import target_isa
from tests.executables import targets
from tests.onnx_models import onnx_model
from tests.runtime.crashes.faults import FAULTS, PLUGIN, environment

PROGRAM = """
import faulthandler, os, signal, sys
import numpy as np
import onnx
import graphwright as gw

graph = '''<ir_version: 8, opset_import: ["" : 17, "test" : 1]>
g (float[n, 5] x) => (float[n, 5] y) {
    [sum] s = Add (x, x)
    [halves] h = test.Planted (x)
    [last] y = Sub (s, h)
}'''
BEFORE
options = gw.CompileOptions(plugins=("planted.py",), DEBUG, threads=2)
model = gw.compile(onnx.parser.parse_model(graph), options=options)
x = np.ones((3, 5), np.float32)
np.testing.assert_array_equal(model(x)[0], x)
AFTER
x[1, 2] = 7
print("running", flush=True)
model(x)
print("survived")
"""


def crashed(
    folder: Path, fault: str, before: str = "", after: str = "", option: str = "debug"
) -> subprocess.CompletedProcess[str]:
    (folder / "planted.py").write_text(PLUGIN.replace("FAULT", fault))
    given = f"{option}=True," if option else ""
    text = PROGRAM.replace("BEFORE", before).replace("AFTER", after).replace("DEBUG,", given)
    return run(folder, text)


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(folder),
        timeout=120,
    )


@pytest.mark.parametrize("name", FAULTS)
def test_a_crash_names_the_kernel_and_ends_the_process(tmp_path: Path, name: str) -> None:
    done = crashed(tmp_path, FAULTS[name])
    assert done.stdout == "running\n"
    assert done.returncode == -signal.Signals[name]
    said = done.stderr
    assert f"graphwright: {name} in a kernel" in said
    assert "model: " in said and "(x: f32[n, 5]) -> (y: f32[n, 5])" in said
    assert re.search(r"task: \d of \d", said)
    assert "kernel: planted of plugin_kernel.c" in said
    assert "nodes: halves" in said
    assert "  shapes: (x: f32[3, 5]) -> (y: f32[3, 5])\n" in said
    assert "  operands: x (read, 60 bytes), h (written, 60 bytes)\n" in said
    assert "arguments: 5\n" in said
    assert re.search(r"units: \d to [23] of 3\n", said)
    assert said.count("in a kernel") == 1


def test_without_an_option_it_is_short(tmp_path: Path) -> None:
    done = crashed(tmp_path, FAULTS["SIGSEGV"], option="")
    assert done.returncode == -signal.SIGSEGV
    lines = [re.sub(r"\d of \d|\d to \d", "#", line) for line in done.stderr.splitlines()]
    assert lines == [
        "graphwright: SIGSEGV in a kernel, at address 0x10",
        "  model: a ModelProto",
        "  task: #",
        f"  kernel: planted of plugin_kernel.c, for {target_isa(Options())}",
        "  nodes: halves",
        "  shapes: (x: f32[3, 5]) -> (y: f32[3, 5])",
        "  arguments: 5",
        "  units: # of 3",
    ]


def test_no_signal_handlers_without_crash_reports(tmp_path: Path) -> None:
    done = crashed(tmp_path, FAULTS["SIGSEGV"], option="no_crash_report")
    assert (done.returncode, done.stderr) == (-signal.SIGSEGV, "")


def test_a_report_names_some_of_many_inputs() -> None:
    """Each task has its own copy of the text."""
    nodes = [helper.make_node("Sum", [f"x{k}" for k in range(40)], ["y"], "sum")]
    inputs = {f"x{k}": (TensorProto.FLOAT, ["n"]) for k in range(40)}
    model = gw.compile(onnx_model(nodes, inputs, {"y": (TensorProto.FLOAT, ["n"])}))
    (target,) = targets(model.package).values()
    site, *_ = brief_sites(target, "many\x1b.om")
    assert "  model: many\N{REPLACEMENT CHARACTER}.om\n" in site
    assert "x7: f32[\1r" in site and ", and 32 more) -> (y: f32[\1r" in site and "x8" not in site


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_fault_handler_of_python_speaks_as_well(tmp_path: Path, place: str) -> None:
    done = crashed(tmp_path, FAULTS["SIGSEGV"], **{place: "faulthandler.enable()"})
    assert done.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert done.stderr.count("in a kernel") == 1


def test_a_handler_of_the_user_is_called_for_signals_that_are_no_crash(tmp_path: Path) -> None:
    handler = "signal.signal(signal.SIGFPE, lambda *_: print('handled', flush=True))"
    send = "os.kill(os.getpid(), signal.SIGFPE)"
    done = crashed(tmp_path, "", before=handler, after=send)
    assert done.returncode == 0
    assert done.stdout == "handled\nrunning\nsurvived\n"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("before", "code"), [("", -signal.SIGILL), ("signal.signal(signal.SIGILL, signal.SIG_IGN)", 0)]
)
def test_signals_that_are_sent_end_or_are_ignored_as_before(tmp_path: Path, before: str, code: int) -> None:
    done = crashed(tmp_path, "", before=before, after="os.kill(os.getpid(), signal.SIGILL)")
    assert (done.returncode, done.stderr) == (code, "")


def test_a_crash_outside_of_kernels_is_not_reported(tmp_path: Path) -> None:
    done = crashed(tmp_path, "", after="import ctypes; ctypes.string_at(0)")
    assert (done.returncode, done.stderr) == (-signal.SIGSEGV, "")


def test_a_crash_in_a_generated_kernel_of_a_loaded_package(tmp_path: Path) -> None:
    text = """
import os
import numpy as np
import onnx
import graphwright as gw

model = gw.compile(onnx.parser.parse_model('''<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 4096] x) => (float[n, 4096] y) {
    [gate] s = Sigmoid (x)
    [product] y = Mul (s, x)
}'''), options={"debug": True})
model.save("gate.om")
np.ones((64, 4096), np.float32).tofile("x.bin")
x = np.memmap("x.bin", np.float32, "r", shape=(64, 4096))
model = gw.load("gate.om", options={"threads": 1})
np.testing.assert_allclose(model(x)[0], 0.731058597, rtol=1e-5)
os.truncate("x.bin", 4096)
model(x)
"""
    done = run(tmp_path, text)
    assert done.returncode == -signal.SIGBUS, done.stderr
    assert "SIGBUS in a kernel, at address 0x" in done.stderr
    assert "model: gate.om (x: f32[n, 4096])" in done.stderr
    assert "kernel: sigmoid_mul_0 of generated.c, for v" in done.stderr
    assert "loops: sigmoid_mul_0(x: f32[" in done.stderr
    assert f" sizes(n0 = {64 * 4096})" in done.stderr
    assert "shapes: (x: f32[64, 4096]) -> (y: f32[64, 4096])" in done.stderr
    assert "nodes: gate + product" in done.stderr
    assert f"arguments: {64 * 4096}\n" in done.stderr
