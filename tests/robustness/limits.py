"""Runs work on malformed input in processes of their own, with limits on memory and time.

``python -m tests.robustness.limits KIND DEVICE SECONDS NAME...`` prints two JSON lines per name: that it
begins, and what came of it. A crash leaves the stack on stderr and the name as the last line.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from graphwright.config import Options
from tests.robustness import cases, mutants
from tests.robustness.attempt import attempt

MEMORY = 4 << 30
"""Bytes of address space: what asks for terabytes must not get them, and must not need them."""
SECONDS = 45
"""Of processor time for a whole batch of mutants, and for a single case; far above what either needs."""

KINDS: dict[str, Callable[[str], bytes]] = {
    "case": lambda name: (cases.REFUSED | cases.EITHER)[name](),
    "mutant": lambda number: mutants.mutant(int(number)),
}


@dataclass(frozen=True)
class Outcome:
    """``text``: ``ran``, the code of a fault, or what went wrong."""

    name: str
    text: str
    seconds: float = 0.0
    """Of processor time."""
    ok: bool = True


def outcomes(kind: str, device: str, names: Sequence[str], seconds: int = SECONDS) -> list[Outcome]:
    """The outcome of each; if the process dies, the last one says how."""
    command = [sys.executable, "-m", "tests.robustness.limits", kind, device, str(seconds), *names]
    with tempfile.TemporaryFile("w+") as errors:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ)
        errors.seek(0)
        stack = errors.read()[-3000:]
    found, begun = [], ""
    for line in done.stdout.splitlines():
        message = json.loads(line)
        begun = message.get("begin", "")
        if not begun:
            found.append(Outcome(**message))
    if done.returncode:
        found.append(Outcome(begun or "?", f"the process ended with {done.returncode}:\n{stack}", ok=False))
    return found


def main(kind: str, device: str, seconds: str, *names: str) -> None:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    options = Options.from_environment(device=device)
    for name in names:
        print(json.dumps({"begin": name}), flush=True)
        begin = time.process_time()
        try:
            text, ok = attempt(KINDS[kind](name), np.random.default_rng(crc32(name.encode())), options), True
        except Exception as error:  # reported with its number; the next one is tried
            frame = error.__traceback__
            while frame is not None and frame.tb_next is not None:
                frame = frame.tb_next
            place = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame else ""
            text, ok = f"{type(error).__name__}: {str(error)[:300]} at {place}", False
        print(json.dumps(vars(Outcome(name, text, time.process_time() - begin, ok))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
