"""One engine with one model in a process of its own, so that its memory can be told from the others'.

``python -m benchmarks.worker ENGINE MODEL FEEDS.npz OUTPUTS.npz THREADS`` loads, runs once, writes outputs,
and prints the seconds of both. Then, for each number that it reads, it runs that often and prints each run's
nanoseconds. At the end of its input it prints the peak of its memory.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path

import numpy as np


def peak_bytes() -> int:
    """Most resident memory of this process: VmHWM, which exec resets, unlike getrusage's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (kibibytes,) = (int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return kibibytes * 1024


def main(engine: str, model: str, feeds_file: str, outputs_file: str, threads: str) -> None:
    start = importlib.import_module(f"benchmarks.engines.{engine}").start
    with np.load(feeds_file) as archive:
        feeds = dict(archive)
    begin = time.perf_counter()
    run = start(Path(model), int(threads))
    loaded = time.perf_counter()
    outputs = run(feeds)
    first = time.perf_counter()
    np.savez(outputs_file, *outputs)
    print(json.dumps({"load_s": loaded - begin, "first_s": first - loaded}), flush=True)
    for line in sys.stdin:
        stamps = [time.perf_counter_ns()]
        for _ in range(int(line)):
            run(feeds)
            stamps.append(time.perf_counter_ns())
        print(json.dumps(np.diff(stamps).tolist()), flush=True)
    print(json.dumps({"peak_bytes": peak_bytes()}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
