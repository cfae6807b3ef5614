"""Runs a package in a new process without a compiler, and reports the modules that were imported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

COMPILER = ("api", "compiler", "frontends", "fusion", "layout", "passes", "schedule")
"""What a program that runs has no need of."""

_SCRIPT = """
import sys
import numpy as np
import graphwright as gw
model, runs, results = gw.load(sys.argv[1], trust=True), {}, {}
with np.load(sys.argv[2]) as arrays:
    for key, array in arrays.items():
        number, name = key.split(" ", 1)
        runs.setdefault(number, {})[name] = array
for number, feeds in runs.items():
    results |= {f"{number} {name}": array for name, array in model.run(feeds).items()}
np.savez(sys.argv[3], **results)
print(*sys.modules)
"""


def run_offline(
    path: Path, runs: Sequence[Mapping[str, Array]], folder: Path, without: Sequence[str] = COMPILER
) -> list[dict[str, Array]]:
    """The results of each run of the package at ``path``. No module of ``without`` may be imported for it."""
    given, made, nothing = folder / "feeds.npz", folder / "results.npz", folder / "empty"
    nothing.mkdir()
    arrays: dict[str, Any] = {f"{k} {name}": a for k, feeds in enumerate(runs) for name, a in feeds.items()}
    np.savez(given, **arrays)
    ended = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(path), str(given), str(made)],
        env={**os.environ, "PATH": str(nothing)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    unwanted = tuple(f"graphwright.{part}" for part in without)
    assert [name for name in ended.stdout.split() if name.startswith(unwanted)] == []
    results: list[dict[str, Array]] = [{} for _ in runs]
    with np.load(made) as found:
        for key, array in found.items():
            number, name = key.split(" ", 1)
            results[int(number)][name] = array
    return results
