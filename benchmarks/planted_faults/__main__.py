"""``python -m benchmarks.planted_faults [NAME ...]``: a table of all faults, or of those called so."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import onnx

from graphwright.config import Options
from graphwright.tools.debugging.bisection import Finding, bisect
from graphwright.tools.debugging.subject import open_subject

from .faults import FAULTS, Fault, cause_of
from .models import MODELS

TOLERANCE = 1e-4
ISA = "v3"
"""The kernels that every CPU has which graphwright runs on."""
RESULTS = Path(__file__).parents[1] / "results" / "debugging" / "planted_faults.json"


def find(fault: Fault, folder: Path) -> Finding:
    """What ``bisect`` says of the fault's model, compiled while the fault is planted."""
    path = folder / f"{fault.model}.onnx"
    onnx.save(MODELS[fault.model](), str(path))
    with fault.plant():
        return bisect(open_subject(path, Options(isa=ISA)), TOLERANCE)


def row(fault: Fault, folder: Path) -> dict[str, Any]:
    """The fault, what was said of it, whether that is right, and the seconds from the file to the answer."""
    start = time.perf_counter()
    try:
        finding = find(fault, folder)
    except Exception as error:
        return _failed(fault, error)
    return {
        "fault": fault.name,
        "model": fault.model,
        "named": cause_of(finding),
        "nodes": " + ".join(finding.sources),
        "found": fault.is_named(finding),
        "seconds": round(time.perf_counter() - start, 2),
    }


def _failed(fault: Fault, error: Exception) -> dict[str, Any]:
    text = f"{type(error).__name__}: {error}"
    return {
        "fault": fault.name,
        "model": fault.model,
        "named": text,
        "nodes": "",
        "found": False,
        "seconds": 0.0,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted_faults")
    parser.add_argument("names", nargs="*", help="parts of names; default: all faults")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    arguments = parser.parse_args()
    chosen = [f for f in FAULTS if not arguments.names or any(n in f.name for n in arguments.names)]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for fault in chosen:
            rows.append(row(fault, Path(folder)))
            print("| {fault} | {named} | {nodes} | {found} | {seconds} |".format(**rows[-1]), flush=True)
    count = sum(each["found"] for each in rows)
    print(f"{count} of {len(rows)} found in {sum(each['seconds'] for each in rows):.0f} s")
    if arguments.save:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    return int(count < len(rows))


if __name__ == "__main__":
    sys.exit(main())
