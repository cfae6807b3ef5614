"""``-`` is standard input and standard output, and folders of external data are named."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import graphwright as gw
from graphwright.tools.cli import app

from .support import expected, graphwright

X = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)


def piped(data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "graphwright", *arguments]
    return subprocess.run(command, input=data, capture_output=True, timeout=120, env=os.environ, check=False)


def test_a_model_is_compiled_from_a_pipe_into_a_pipe(model: Path) -> None:
    made = piped(model.read_bytes(), "compile", "-", "-o", "-")
    assert made.returncode == 0, made.stderr
    np.testing.assert_allclose(gw.load(made.stdout)(X)[0], expected(X), rtol=1e-5, atol=1e-6)
    assert os.listdir() == [model.name]
    ran = piped(made.stdout, "run", "-", "--shape", "x:2,4", "-o", "y.npy")
    assert ran.returncode == 0 and np.load("y.npy").shape == (2, 3)


@pytest.mark.parametrize("command", ["run", "inspect", "check"])
def test_every_command_reads_standard_input(model: Path, command: str) -> None:
    made = CliRunner().invoke(app, [command, "-", "--shape", "x:2,4"], input=model.read_bytes())
    assert made.exit_code == 0, made.stderr
    assert "y" in made.stdout and tempfile.gettempdir() not in made.stdout


def test_standard_input_that_is_not_a_model_is_rejected(model: Path) -> None:
    made = CliRunner().invoke(app, ["compile", "-", "-o", "x.om"], input=b"")
    assert made.exit_code == 1
    assert made.stderr.startswith("error: standard input: is not an ONNX model: it is empty")
    made = CliRunner().invoke(app, ["compile", "-"], input=model.read_bytes())
    assert made.exit_code == 2 and "--output" in made.stderr
    for flag in ("--print-after-all", "--time-passes"):
        made = graphwright("compile", model, "-o", "-", flag)
        assert made.exit_code == 2 and "mix" in made.stderr and not made.stdout


def test_a_folder_of_external_data_is_named(tmp_path: Path, model: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "data").mkdir()
    path = tmp_path / "net/model.onnx"
    onnx.save(onnx.load(model), path, save_as_external_data=True, size_threshold=0, location="w.bin")
    (tmp_path / "net/w.bin").rename(tmp_path / "data/w.bin")
    made = graphwright("run", path, "--shape", "x:2,4")
    assert made.exit_code == 1 and "external-data" in made.stderr
    made = graphwright("run", path, "--shape", "x:2,4", "--external-data", tmp_path / "data")
    assert made.exit_code == 0, made.stderr
    assert gw.compile(path, external_data=tmp_path / "data")(X)[0].shape == (2, 3)
    session = gw.SessionOptions()
    folder = str(tmp_path / "data")
    session.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    for source in (path, path.read_bytes()):
        (y,) = gw.InferenceSession(source, session).run(None, {"x": X})
        np.testing.assert_allclose(y, expected(X), rtol=1e-5, atol=1e-6)


def closed(streams: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, with ``streams`` closed, as in ``>&-``."""
    command = ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-m", "graphwright", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams_are_not_written(model: Path, streams: str) -> None:
    for arguments in (["inspect", str(model)], ["run", str(model), "--shape", "x:2,4", "-o", "y.npy"]):
        made = closed(streams, *arguments)
        assert (made.returncode, made.stderr) == (0, "")
    assert np.load("y.npy").shape == (2, 3)


def test_closed_streams_are_no_model(model: Path) -> None:
    made = closed("<&-", "run", "-")
    assert made.returncode == 2 and "standard input is closed" in made.stderr
    made = closed(">&-", "compile", str(model), "-o", "-")
    assert made.returncode == 2 and "standard output is closed" in made.stderr
    assert closed("2>&-", "run", "absent.onnx").returncode == 1


@pytest.mark.parametrize(
    "arguments", [["run", "--shape", "x:2,4", "-o", "y.npy"], ["compile", "-o", "made.om"]]
)
def test_a_pipe_with_a_name_is_read_once(model: Path, arguments: list[str]) -> None:
    """A shell creates such a pipe for ``<(command)``."""
    os.mkfifo("pipe")
    command = [sys.executable, "-m", "graphwright", arguments[0], "pipe", *arguments[1:]]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        Path("pipe").write_bytes(model.read_bytes())
        assert process.wait(60) == 0
    if arguments[0] == "compile":
        np.testing.assert_allclose(gw.load("made.om")(X)[0], expected(X), rtol=1e-5, atol=1e-6)
    else:
        assert np.load("y.npy").shape == (2, 3)


def test_a_pipe_with_a_name_is_written_and_stays(model: Path) -> None:
    os.mkfifo("pipe")
    command = [sys.executable, "-m", "graphwright", "compile", str(model), "-o", "pipe"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        data = Path("pipe").read_bytes()
        assert process.wait(60) == 0
    np.testing.assert_allclose(gw.load(data)(X)[0], expected(X), rtol=1e-5, atol=1e-6)
    assert Path("pipe").is_fifo()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["inspect"], ["inspect", "--help"]])
def test_a_full_device_is_a_fault_in_a_line(model: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "graphwright", *arguments, *[str(model)] * (arguments == ["inspect"])]
    with open("/dev/full", "wb") as full:
        made = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False
        )
    assert (made.returncode, made.stderr) == (1, "error: No space left on device [file]\n")


def test_a_defect_is_reported_without_a_traceback(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("graphwright.tools.models.CompileFlags.open", fail)
    made = CliRunner().invoke(app, ["inspect", str(model)])
    assert made.exit_code == 1 and made.stderr.startswith(
        "error: KeyError: 'x' [internal]\n    this is a defect"
    )
    assert "Traceback" not in made.stderr
    made = CliRunner().invoke(app, ["inspect", str(model), "-vv"])
    assert made.exit_code == 1 and "Traceback" in made.stderr


INTERRUPTED = """
import os, signal, sys, threading
sys.argv = ["graphwright", "run", "absent.onnx"]
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup around the tests ignores it, and so would they

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "graphwright.tools.cli":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from graphwright.__main__ import main
main()
"""


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_while_modules_are_imported_leaves_no_traceback(name: str, status: int) -> None:
    script = INTERRUPTED.replace("SIGINT", name)
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (made.returncode, made.stderr) == (status, "")


COMPILER = """#!/bin/sh
[ "$1" = --version ] && echo slow && exit
echo $$ > "{folder}/started"
exec sleep 60
"""


def test_a_command_that_is_ended_stops_its_compilers_and_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Supervisors end a command with SIGTERM."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    compiler = tmp_path / "cc"
    compiler.write_text(COMPILER.format(folder=tmp_path))
    compiler.chmod(0o700)
    options = ["--cc", str(compiler), "--cache-dir", str(tmp_path / "cache")]
    text = (
        "<ir_version: 8, opset_import: ['': 17]> g (float[N] x) => (float[N] y) { t = Exp(x) y = Add(t, x) }"
    )
    onnx.save(onnx.parser.parse_model(text.replace("'", '"')), "fused.onnx")
    command = [sys.executable, "-m", "graphwright", "compile", "fused.onnx", "-o", "ended.om", *options]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    with subprocess.Popen(command, env=environment) as process:
        started = tmp_path / "started"
        while not (started.exists() and started.read_text()) and process.poll() is None:
            time.sleep(0.02)
        process.terminate()
        assert process.wait(60) == 143
    assert not list((tmp_path / "temporary").iterdir()) and not Path("ended.om").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
