"""The C interface under sanitizers: from eight threads, in both examples, on damaged packages, and in a
standalone library.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphwright.autofusion.library_parts import write_library
from graphwright.autofusion.standalone import Standalone
from tests.c_api.build import EXAMPLES, program, sanitized_library
from tests.c_api.hostile import Hostile
from tests.c_api.library import Model
from tests.c_api.models import CLASSES, FEATURES, classified, classifier, rows
from tests.fuzz.packages import KINDS, SEEDS
from tests.sanitizers import SANITIZERS, runtime_objects, sanitizer_flags

HERE = Path(__file__).parent
PROGRAMS = HERE.parent / "autofusion"
COUNT = 50
MUTANTS = 8 * len(SEEDS) * len(KINDS)
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=1", "TSAN_OPTIONS": "halt_on_error=1"}


class Sanitized:
    """Programs that are built with a sanitizer, as is the library that they run."""

    def __init__(self, folder: Path, name: str, runtime: Sequence[str]) -> None:
        self.folder, self.name = folder, name
        self.libraries = sanitized_library(folder, name, runtime)

    def run(self, source: Path, arguments: Sequence[object]) -> bytes:
        target = self.folder / source.stem
        if not target.exists():
            program(source, target, sanitizer_flags(self.name), self.libraries)
        command = [str(target), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, timeout=240, env={**os.environ, **OPTIONS})
        assert done.returncode == 0, done.stderr[-4000:].decode()
        return done.stdout


@pytest.fixture(scope="module", params=SANITIZERS)
def sanitized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sanitized:
    runtime = runtime_objects(tmp_path_factory, request.param)
    return Sanitized(tmp_path_factory.mktemp(request.param), request.param, runtime)


def test_eight_threads_get_the_same_scores(sanitized: Sanitized, package: Path, tmp_path: Path) -> None:
    x = rows(COUNT)
    x.tofile(tmp_path / "x.bin")
    with Model(package) as model:
        scores, _ = model.run(x)
    np.testing.assert_allclose(scores, classified(x)[0], rtol=1e-5, atol=1e-7)
    scores.tofile(tmp_path / "scores.bin")
    given = [package, tmp_path / "x.bin", COUNT, FEATURES, tmp_path / "scores.bin", 60]
    assert sanitized.run(HERE / "threads.c", given) == b"ok\n"


def test_examples_give_the_expected_scores(sanitized: Sanitized, package: Path, tmp_path: Path) -> None:
    x = rows(COUNT)
    x.tofile(tmp_path / "x.bin")
    out = sanitized.run(EXAMPLES / "classify.c", [package, tmp_path / "x.bin", f"{COUNT},{FEATURES}", 3, 2])
    assert out.splitlines()[0].split()[0] == str(classified(x)[1][0]).encode()
    out = sanitized.run(EXAMPLES / "batches.cpp", [package, tmp_path / "x.bin", COUNT, 7])
    scores = np.frombuffer(out, np.float32).reshape(COUNT, CLASSES)
    np.testing.assert_allclose(scores, classified(x)[0], rtol=1e-5, atol=1e-7)


def standalone_output(content: bytes) -> np.ndarray[Any, Any]:
    """The scores of the programs, whose input is of the sines that the files in C name."""
    return np.frombuffer(content, np.float32).reshape(-1, CLASSES)


def test_standalone_libraries_give_the_expected_scores(sanitized: Sanitized, tmp_path: Path) -> None:
    """The file starts with the interface library, which has no SONAME here."""
    parts = Standalone(classifier().compile().package).parts()
    for name in ("libone.so", "libtwo.so"):
        with open(sanitized.folder / name, "wb") as file:
            write_library(file, (sanitized.folder / "libgraphwright.so").read_bytes(), parts)
    x = np.sin(0.1 * np.arange(COUNT * FEATURES)).reshape(COUNT, FEATURES).astype(np.float32)
    sanitized.libraries = [f"-L{sanitized.folder}", f"-Wl,-rpath,{sanitized.folder}", "-lone", "-lm"]
    scores = standalone_output(sanitized.run(PROGRAMS / "standalone.c", [COUNT]))
    np.testing.assert_allclose(scores, classified(x)[0], rtol=1e-5, atol=1e-7)
    given = ["local", COUNT, sanitized.folder / "libone.so", sanitized.folder / "libtwo.so"]
    scores = standalone_output(sanitized.run(PROGRAMS / "several.c", given))
    np.testing.assert_allclose(scores, np.tile(classified(x)[0], (2, 1)), rtol=1e-5, atol=1e-7)
    check_damage(sanitized)


def check_damage(sanitized: Sanitized) -> None:
    """Changes bytes of the index and of the package of the first library."""
    whole = (sanitized.folder / "libone.so").read_bytes()
    start, rng = int(whole[-20:]), np.random.default_rng(0)
    package = whole.rindex(b"PK\x05\x06")
    for first, last in [(start, len(whole)), (package - 2000, start)] * 20:
        content = bytearray(whole)
        for at in rng.integers(first, last, 3):
            content[at] = rng.integers(0, 256)
        (sanitized.folder / "libone.so").write_bytes(content)
        command = [str(sanitized.folder / "standalone"), "1"]
        done = subprocess.run(command, capture_output=True, timeout=240, env={**os.environ, **OPTIONS})
        assert done.returncode in (0, 1) and b"Sanitizer" not in done.stderr, done.stderr.decode()


def test_damaged_packages_run_or_are_rejected(sanitized: Sanitized, tmp_path: Path) -> None:
    """The cases are some of those of ``python -m tests.c_api.hostile``."""
    if sanitized.name == "thread":  # one thread opens them
        return
    hostile = Hostile(tmp_path, sanitized.libraries)
    found = hostile.packages(0, MUTANTS)
    assert found.total() == MUTANTS and len(found) > 2
    assert found["package"] > MUTANTS // 10 and found["ok"] > MUTANTS // 10, found
    found = hostile.steps(0, MUTANTS // 2)
    assert found.total() == MUTANTS // 2
    assert found["package"] > MUTANTS // 4 and found["ok"] + found["run"] > 0, found
