"""Runs the pages' commands in the process of the tests: a start of Python takes longer than most of them."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from typer.testing import CliRunner

from graphwright import _native
from graphwright.tools import cli, graph_autofusion
from tests.plugins.support import isolated

PROGRAMS: Final = {"graphwright": cli.app, "graph-autofusion": graph_autofusion.app}
OWN_PROCESS: Final = {"calibrate"}
"""Verbs whose results a process reads once, when it starts to compile."""
ROUNDS: Final = ("--rounds", "2")
"""What ``bench`` is given where a page leaves the number of its rounds open: they are all alike."""


def run(program: str, *arguments: str) -> tuple[int, str]:
    """The exit status of a command in the current folder, and what it printed."""
    if arguments[0] == "bench" and "--rounds" not in arguments:
        arguments += ROUNDS
    if arguments[0] in OWN_PROCESS:
        return _started("-m", program, *arguments)
    threads = _native.threads()
    with isolated():
        done = CliRunner().invoke(PROGRAMS[program], arguments)
    _native.set_threads(threads)
    fault = f"\n{done.exception!r}" if done.exception else ""
    return done.exit_code, done.output + fault


def _started(*command: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr
