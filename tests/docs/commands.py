"""Runs the pages' commands in the process of the tests: a start of Python takes longer than most of them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from typer.testing import CliRunner

from graphwright import _native
from graphwright.tools import cli, graph_autofusion
from tests.plugins.support import isolated

ROOT: Final = Path(__file__).parents[2]
WIDTH: Final = "120"
"""Of the terminal, in columns."""
PROGRAMS: Final = {"graphwright": cli.app, "graph-autofusion": graph_autofusion.app}
OWN_PROCESS: Final = {"calibrate"}
"""Commands whose results a process reads once, when it starts to compile."""
ROUNDS: Final = ("--rounds", "2")
"""What ``bench`` is given where a page leaves the number of its rounds open: they are all alike."""


@dataclass(frozen=True)
class Ended:
    """A command that has ended: its status, what it printed, and its messages."""

    status: int
    stdout: str
    stderr: str


def run(program: str, *arguments: str) -> Ended:
    """Runs a command of graphwright, or a module after ``python``, in the current folder."""
    if program == "python":
        return _started(*arguments)
    if arguments[0] == "bench" and "--rounds" not in arguments:
        arguments += ROUNDS
    if arguments[0] in OWN_PROCESS:
        return _started("-m", program, *arguments)
    threads = _native.threads()
    with isolated():
        done = CliRunner(env={"COLUMNS": WIDTH}).invoke(PROGRAMS[program], arguments)
    _native.set_threads(threads)
    fault = f"\n{done.exception!r}" if done.exception else ""
    return Ended(done.exit_code, done.stdout, done.stderr + fault)


def _started(*arguments: str) -> Ended:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": WIDTH}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)
    return Ended(done.returncode, done.stdout, done.stderr)
