"""Compiles an ONNX file to an ``.om`` in a process of its own: ``python -m benchmarks.build IN.onnx OUT.om``.

Prints the seconds that it took and the peak of its memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import graphwright as gw
from graphwright.tools.machine import peak_bytes


def build(source: Path, target: Path) -> dict[str, float]:
    """Compile ``source`` to ``target`` with an empty cache: ``seconds``, and the process's ``peak_bytes``."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "benchmarks.build", str(source), str(target)]
        environment = os.environ | {"GRAPHWRIGHT_CACHE_DIR": cache}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main(source: str, target: str) -> None:
    begin = time.perf_counter()
    gw.compile(source).save(target)
    print(json.dumps({"seconds": time.perf_counter() - begin, "peak_bytes": peak_bytes()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
