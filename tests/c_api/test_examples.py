"""Both C examples: built as their page says, results compared with NumPy, run in an environment without
Python.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.c_api.build import EXAMPLES, program
from tests.c_api.models import CLASSES, FEATURES, classified, rows

COUNT = 33


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    for source in (EXAMPLES / "classify.c", EXAMPLES / "batches.cpp"):
        program(source, folder / source.stem, ["-Wpedantic"])
    return folder


def run(programs: Path, name: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Runs in an environment with the folder of the user's key, and nothing that leads to Python."""
    settings = {"XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"], "PATH": "/nonexistent"}
    command = [str(programs / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=120, env=settings)


def test_classify_prints_the_best_classes(programs: Path, package: Path, tmp_path: Path) -> None:
    x = rows(COUNT)
    x.tofile(tmp_path / "x.bin")
    done = run(programs, "classify", package, tmp_path / "x.bin", f"{COUNT},{FEATURES}", 3)
    assert done.returncode == 0, done.stderr
    *best, time = done.stdout.decode().splitlines()
    scores, _ = classified(x)
    order = np.argsort(-scores[0])[:5]
    assert [int(line.split()[0]) for line in best] == order.tolist()
    np.testing.assert_allclose([float(line.split()[1]) for line in best], scores[0][order], atol=2e-6)
    assert time.endswith(" ms")


@pytest.mark.parametrize("batch", [1, 8, 33, 100])
def test_batches_of_any_size_give_the_scores(
    batch: int, programs: Path, package: Path, tmp_path: Path
) -> None:
    x = rows(COUNT)
    x.tofile(tmp_path / "x.bin")
    done = run(programs, "batches", package, tmp_path / "x.bin", COUNT, batch, 3)
    assert done.returncode == 0, done.stderr
    scores = np.frombuffer(done.stdout, np.float32).reshape(COUNT, CLASSES)
    np.testing.assert_allclose(scores, classified(x)[0], rtol=1e-5, atol=1e-7)


def test_the_example_prints_errors(programs: Path, package: Path, tmp_path: Path) -> None:
    rows(COUNT).tofile(tmp_path / "x.bin")
    done = run(programs, "classify", package, tmp_path / "x.bin", f"{COUNT},{FEATURES - 1}")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"classify: axis 1 of input 'x' must be 24, but is 23")
    done = run(programs, "batches", tmp_path / "none.om", tmp_path / "x.bin", COUNT, 5)
    assert done.returncode == 1 and b"none.om cannot be read" in done.stderr
