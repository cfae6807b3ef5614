"""``make fuzz``: damaged models and packages in child processes of bounded memory and time.

``python -m tests.fuzz.run COUNT [FIRST]`` tries ``COUNT`` mutants under the address sanitizer and prints
figures. A crash, a hang, foreign code or an exception that is no GraphwrightError is a fault: it is counted,
and its mutant is kept.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from graphwright import ops
from graphwright.config import Options
from tests.fuzz import onnx_bytes, sanitized
from tests.fuzz.packages import COMPILER, Workshop
from tests.robustness import mutants
from tests.robustness.attempt import attempt

SHARES = {"frontend": 50, "model": 20, "package": 30}
"""Of a hundred mutants: ONNX that is read, ONNX that is compiled and run, and packages."""
MEMORY = 4 << 30
"""Bytes of address space."""
SECONDS = 20.0
"""Of processor time, after which a mutant is interrupted: a loop may run 2^31 times, if the model says so.
One that goes on for as long again has hung.
"""
SILENCE = 300.0
"""Seconds after which a child that says nothing has hung, however busy the machine is."""
CHILD = 2000
"""Mutants that one child tries: what it keeps stays small compared with its memory limit."""
KEPT = Path("build/fuzz")
"""Where mutants that are faults are kept."""
INTERRUPTED = "interrupted"


class _Interrupted(BaseException):
    """Raised if a mutant takes too long."""


def _interrupt(number: int, frame: object) -> None:
    raise _Interrupted


@dataclass(frozen=True)
class Python:
    """The command and environment of child processes."""

    command: tuple[str, ...] = (sys.executable,)
    environment: dict[str, str] | None = None


def under_sanitizer() -> Python:
    """Children whose native code is checked by the address sanitizer."""
    sanitized.build()
    return Python((sys.executable, "-S"), sanitized.environment(MEMORY))


# -- in the child


def _frontend(folder: Path) -> Callable[[int], str]:
    ops.load()
    return onnx_bytes.attempt


def _model(folder: Path) -> Callable[[int], str]:
    options = Options(key_dir=folder / "keys", cache_dir=folder / "cache", threads=1, cc=COMPILER)
    return lambda number: attempt(mutants.mutant(number), np.random.default_rng(number), options)


def _package(folder: Path) -> Callable[[int], str]:
    return Workshop(folder).attempt


KINDS = {"frontend": _frontend, "model": _model, "package": _package}


def work(kind: str, first: int, last: int, folder: Path) -> None:
    """Tries mutants ``first`` to ``last``, and prints a JSON line when one begins and when it ends. The
    sanitizer limits memory itself.
    """
    faulthandler.enable()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    tried = KINDS[kind](folder)
    if "ASAN_OPTIONS" not in os.environ:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGPROF, _interrupt)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(first, last):
        print(json.dumps({"begin": number}), flush=True)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_VIRTUAL, 2 * SECONDS)  # its signal ends the process
        start = time.process_time()
        try:
            outcome, ok = tried(number), True
        except _Interrupted:
            outcome, ok = INTERRUPTED, True
        except Exception as error:  # reported with its number; the next one is tried
            outcome, ok = _place(error), False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps({"text": outcome, "ok": ok, "seconds": time.process_time() - start}), flush=True)


def _place(error: Exception) -> str:
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame else ""
    return f"{type(error).__name__}: {str(error)[:300]} at {place}"


# -- in the parent


@dataclass
class Figures:
    """The outcomes of the mutants of one kind."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0

    @property
    def count(self) -> int:
        return self.outcomes.total() + len(self.faults)

    def __str__(self) -> str:
        often = ", ".join(f"{code} {count}" for code, count in self.outcomes.most_common(8))
        return f"{self.count} mutants, {len(self.faults)} faults, slowest {self.slowest:.1f} s: {often}"


def figures_of(kind: str, first: int, count: int, kept: Path = KEPT, python: Python | None = None) -> Figures:
    """Tries ``count`` mutants of a kind, from number ``first`` on, in child processes; a new child continues
    after one that died.
    """
    found, number = Figures(), first
    with tempfile.TemporaryDirectory() as folder:
        while number < first + count:
            last = min(first + count, number + CHILD)
            number = _one_child(python or Python(), kind, (number, last), Path(folder), found, kept)
    return found


def _one_child(
    python: Python, kind: str, numbers: tuple[int, int], folder: Path, found: Figures, kept: Path
) -> int:
    """Runs a child until it ends. Returns the number of the next mutant."""
    command = [*python.command, "-m", "tests.fuzz.run", "--work", kind, *map(str, numbers), str(folder)]
    number = numbers[0]
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=python.environment
        )
        hung = False
        for line in _lines(child):
            if line is None:
                child.kill()
                hung = True
                break
            message = json.loads(line)
            if "begin" in message:
                number = message["begin"]
            elif message["ok"]:
                found.outcomes[message["text"]] += 1
                found.slowest = max(found.slowest, message["seconds"])
                number += 1
            else:
                _keep(kind, number, message["text"], folder, found, kept)
                number += 1
        code = child.wait()
        if code or hung:
            errors.seek(0)
            ended = "it hung" if hung or code == -signal.SIGVTALRM else f"the process ended with {code}"
            _keep(kind, number, f"{ended}: {errors.read()[-2000:]}", folder, found, kept)
            number += 1
    return number


def _lines(child: subprocess.Popen[str]) -> Iterator[str | None]:
    """The lines that the child prints; the last one is None if it prints nothing for too long."""
    assert child.stdout is not None
    while True:
        if not select.select([child.stdout], [], [], SILENCE)[0]:
            yield None
            return
        line = child.stdout.readline()
        if not line:
            return
        yield line


def _keep(kind: str, number: int, text: str, folder: Path, found: Figures, kept: Path) -> None:
    found.faults.append(f"{kind} {number}: {text}")
    kept.mkdir(parents=True, exist_ok=True)
    made = folder / "mutant.om"
    if kind == "package" and made.exists():
        shutil.copy(made, kept / f"{kind}-{number}.om")
    elif kind != "package":
        source = mutants.mutant(number) if kind == "model" else onnx_bytes.mutant(number)
        (kept / f"{kind}-{number}.onnx").write_bytes(source)


def main(count: int, first: int = 0) -> int:
    """Try ``count`` mutants of all kinds; 1 if there was a fault."""
    os.nice(5)
    faults, python = 0, under_sanitizer()
    for kind, share in SHARES.items():
        start = time.monotonic()
        found = figures_of(kind, first, count * share // 100, python=python)
        faults += len(found.faults)
        print(f"{kind}: {found} ({time.monotonic() - start:.0f} s)", flush=True)
        for fault in found.faults[:20]:
            print(f"    {fault[:1500]}", flush=True)
    return int(faults > 0)


if __name__ == "__main__":
    if sys.argv[1] == "--work":
        work(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
    else:
        sys.exit(main(*map(int, sys.argv[1:])))
