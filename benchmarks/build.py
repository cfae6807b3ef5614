"""Compiles an ONNX file to an ``.om`` in a process of its own: ``python -m benchmarks.build IN.onnx OUT.om``.

Prints the seconds that it took and the peak of its memory.
"""

from __future__ import annotations

import json
import sys
import time

import graphwright as gw
from benchmarks.worker import peak_bytes


def main(source: str, target: str) -> None:
    begin = time.perf_counter()
    gw.compile(source).save(target)
    print(json.dumps({"seconds": time.perf_counter() - begin, "peak_mib": peak_bytes() / 2**20}))


if __name__ == "__main__":
    main(*sys.argv[1:])
