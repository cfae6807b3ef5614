"""``-`` is standard input and standard output, and folders of external data are named."""

from __future__ import annotations

import os
import subprocess
import sys
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


@pytest.mark.parametrize("verb", ["run", "inspect", "check"])
def test_every_verb_reads_standard_input(model: Path, verb: str) -> None:
    made = CliRunner().invoke(app, [verb, "-", "--shape", "x:2,4"], input=model.read_bytes())
    assert made.exit_code == 0, made.stderr
    assert "y" in made.stdout


def test_what_standard_input_is_not(model: Path) -> None:
    made = CliRunner().invoke(app, ["compile", "-", "-o", "x.om"], input=b"")
    assert made.exit_code == 1 and "it is empty" in made.stderr
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
