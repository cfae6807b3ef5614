"""An application that embeds Python is never started in place of the Python interpreter."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import graphwright as gw
from graphwright.ops.core.binary import Add
from graphwright.support.interpreter import interpreter
from graphwright.targets.cpu import toolchain


def test_the_interpreter_of_python_and_of_a_frozen_application(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interpreter() == sys.executable
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert interpreter() is None
    monkeypatch.setattr(sys, "frozen", False)
    monkeypatch.setattr(sys, "executable", "")
    assert interpreter() is None


def test_no_process_is_started_for_compilers_and_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert all(sys.executable not in command for command, _ in toolchain._commands(""))
    builder = gw.GraphBuilder()
    x = builder.input("x", "f32", ("N", 3))
    builder.output("twice", builder(Add(), x, x))
    model = builder.compile(gw.CompileOptions(specialize="hot"))
    monkeypatch.setattr(
        "graphwright.runtime.dispatch.background_build.subprocess.Popen", lambda *a, **k: started.append(a)
    )
    for _ in range(100):
        (result,) = model(np.ones((2, 3), np.float32))
    np.testing.assert_array_equal(result, np.full((2, 3), 2, np.float32))
    assert not started
