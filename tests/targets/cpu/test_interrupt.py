"""Ctrl-C while a model is compiled: it ends at once, and leaves neither files nor processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMPILER = """#!/bin/sh
case "$*" in *--version*) exec {cc} "$@";; esac
echo $$ >> {started}
sleep 600
"""
PROGRAM = """
import graphwright as gw
b = gw.GraphBuilder()
b.output("y", b.tanh(b.exp(b.mul(b.input("x", "f32", ("N", 7)), 0.37))))
try:
    gw.compile(b.build())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


LIBRARY = """
import onnx
from graphwright.autofusion.autofuse import Request, autofuse
x, y = (onnx.helper.make_tensor_value_info(name, 1, ("N", 7)) for name in "xy")
nodes = [onnx.helper.make_node("Exp", ["x"], ["e"]), onnx.helper.make_node("Tanh", ["e"], ["y"])]
model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [x], [y]), ir_version=10)
try:
    autofuse(model, Request(library=True))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.parametrize("kind", ["package", "command", "library of both ISAs"])
def test_an_interrupt_leaves_nothing(tmp_path: Path, kind: str) -> None:
    started, scratch, compiler = tmp_path / "started", tmp_path / "scratch", tmp_path / "cc"
    scratch.mkdir()
    compiler.write_text(COMPILER.format(cc=shutil.which("cc") or "gcc", started=started))
    compiler.chmod(0o755)
    (tmp_path / "program.py").write_text(LIBRARY if kind == "library of both ISAs" else PROGRAM)
    compilers = 2 if kind == "library of both ISAs" else 1
    command = [sys.executable, "program.py"]
    if kind == "command":
        save = (
            PROGRAM.partition("try:")[0]
            + "gw.compile(b.build(), options={'device': 'reference'}).save('m.om')"
        )
        subprocess.run([sys.executable, "-c", save], cwd=tmp_path, check=True)
        command = [sys.executable, "-m", "graphwright", "inspect", "m.om"]
    environment = {
        **os.environ,
        "GRAPHWRIGHT_CC": str(compiler),
        "GRAPHWRIGHT_CACHE_DIR": str(tmp_path / "cache"),
        "TMPDIR": str(scratch),
    }
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while _lines(started) < compilers and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    assert _lines(started) == compilers, process.communicate()
    process.send_signal(signal.SIGINT)
    shown, _ = process.communicate(timeout=60)
    assert kind == "command" or shown == "interrupted\n"
    assert [each for each in map(int, started.read_text().split()) if _is_alive(each)] == []
    assert list(scratch.iterdir()) == []
    assert list((tmp_path / "cache" / "kernels").glob("**/*.so")) == []
