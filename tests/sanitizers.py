"""Builds C under sanitizers. The runtime is compiled once for each sanitizer and run of the tests."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[1] / "src/graphwright/runtime/native"
SANITIZERS = {"address": "address,undefined", "thread": "thread"}


def sanitizer_flags(name: str) -> list[str]:
    return [
        f"-fsanitize={SANITIZERS[name]}",
        "-fno-sanitize-recover=all",
        "-fno-omit-frame-pointer",
        "-g",
        "-O1",
    ]


def compile_runtime(folder: Path, name: str) -> list[str]:
    """Object files of the runtime in ``folder``, for programs and for libraries that hide its functions."""
    flags = ["-std=c11", "-D_GNU_SOURCE", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", f"-I{RUNTIME}"]
    sources = sorted(map(str, RUNTIME.glob("*.c")))
    subprocess.run(["gcc", "-c", *flags, *sanitizer_flags(name), *sources], check=True, cwd=folder)
    return _objects(folder)


def runtime_objects(factory: pytest.TempPathFactory, name: str) -> list[str]:
    """The result of :func:`compile_runtime`, which all processes of a run of the tests use."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"runtime-{name}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _objects(folder) or compile_runtime(folder, name)


def _objects(folder: Path) -> list[str]:
    return sorted(map(str, folder.glob("*.o")))
