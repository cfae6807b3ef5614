"""Output to stderr besides errors: notes, log messages of the library, and a progress bar on a terminal."""

from __future__ import annotations

import io
import logging
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import graphwright as gw
from graphwright.tools import console
from tests.tools.support import HOSTILE

from .support import graphwright, write_model


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    console.set_verbosity(0, quiet=False)


def test_the_default_is_notes_and_warnings(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r"wrote out.om \(.*\)\n", graphwright("compile", model, "-o", "out.om").stderr)
    monkeypatch.setenv("GRAPHWRIGHT_THREADZ", "1")
    result = graphwright("compile", model, "-o", "out.om")
    assert "warning: the environment variable GRAPHWRIGHT_THREADZ is not an option" in result.stderr


def test_flags_set_the_verbosity(model: Path) -> None:
    told = graphwright("compile", model, "-o", "out.om", "-v").stderr
    assert re.search(r"^info: compiled .*model.onnx in \d+\.\d\d s$", told, re.MULTILINE)
    assert "debug:" not in told
    details = graphwright("compile", model, "-o", "out.om", "-vv").stderr
    for stage in ("import", "fuse", "select", "lower", "kernels"):
        assert re.search(rf"^debug: {stage}: \d+\.\d ms$", details, re.MULTILINE)
    assert re.search(
        r"^info: loaded out.om in", graphwright("run", "out.om", "--shape", "x:1,4", "-v").stderr
    )
    quiet = graphwright("compile", model, "-o", "out.om", "--quiet")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", "")
    assert "info:" not in graphwright("compile", model, "-o", "out.om").stderr


def test_quiet_does_not_hide_errors(tmp_path: Path) -> None:
    result = graphwright("compile", tmp_path / "none.onnx", "-q")
    assert result.exit_code == 1 and "error: " in result.stderr


def test_hostile_names_in_logs_are_harmless(tmp_path: Path) -> None:
    path = write_model(tmp_path / "a\x1b[31mb.onnx", HOSTILE)
    told = graphwright("compile", path, "-o", "out.om", "-vv").stderr
    assert "info: compiled" in told and "\x1b" not in told


def test_a_progress_bar_on_a_terminal_is_erased_at_the_end(model: Path) -> None:
    reader, writer = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "graphwright",
        "compile",
        str(model),
        "-o",
        "out.om",
        "--cache-dir",
        "cold",
    ]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=writer, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    )
    os.close(writer)
    shown = io.BytesIO()
    try:
        while data := os.read(reader, 65536):
            shown.write(data)
    except OSError:  # what Linux says at the end
        pass
    os.close(reader)
    text = shown.getvalue().decode()
    assert done.returncode == 0 and done.stdout == b""
    assert "compiling kernels" in text or "selecting kernels" in text
    assert text.rstrip().splitlines()[-1].startswith("wrote out.om") or "wrote out.om" in text
    assert "\x1b[2K" in text  # the bar is erased


def test_no_progress_bar_if_stderr_is_a_file(model: Path) -> None:
    command = [sys.executable, "-m", "graphwright", "compile", str(model), "-o", "out.om"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "\x1b" not in done.stderr and done.stderr.startswith("wrote out.om")


# -- the library ------------------------------------------------------------------------------------------


def test_the_library_logs_and_configures_nothing(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    code = (
        "import logging, sys, graphwright as gw\n"
        f"gw.compile({str(model)!r})\n"
        "found = logging.getLogger('graphwright')\n"
        "print(found.handlers, found.level, found.propagate, logging.getLogger().handlers)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[] 0 True []\n", "")
    with caplog.at_level(logging.DEBUG, "graphwright"):
        gw.compile(model).save("out.om")
        gw.load("out.om")
    levels = {record.levelno for record in caplog.records if record.name == "graphwright"}
    assert levels == {logging.INFO, logging.DEBUG}
    assert [r.getMessage().split()[0] for r in caplog.records if r.levelno == logging.INFO] == [
        "compiled",
        "loaded",
    ]


def test_loading_does_not_import_logging(model: Path) -> None:
    gw.compile(model).save("out.om")
    code = "import sys, graphwright as gw; gw.load('out.om'); print('logging' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
