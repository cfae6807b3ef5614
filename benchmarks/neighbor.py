"""A neighbor that takes a core: ``python -m benchmarks.neighbor CORE`` computes there until it is ended."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from graphwright.tools.machine import die_with_parent


@contextmanager
def busy(core: int) -> Iterator[None]:
    """Keeps ``core`` busy with another process during a ``with`` block."""
    command = [sys.executable, "-m", "benchmarks.neighbor", str(core)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # it has begun
        yield
    finally:
        process.kill()
        process.communicate()


def main(core: int) -> None:
    die_with_parent()
    os.sched_setaffinity(0, {core})
    print("computing", flush=True)
    while True:
        pass


if __name__ == "__main__":
    main(int(sys.argv[1]))
