"""``python -m benchmarks.planted_faults [NAME ...]``: a table of all faults, or of those called so;
``--zoo MODEL ...``: of two faults in models of the zoo.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import onnx

from benchmarks import RESULTS
from graphwright.config import Options
from graphwright.tools.debugging.bisection import Finding, bisect
from graphwright.tools.debugging.subject import open_subject

from .faults import FAULTS, Fault, cause_of
from .models import MODELS
from .zoo import rows_of

TOLERANCE = 1e-4
ISA = "v3"
"""The kernels that every CPU has which graphwright runs on."""
FOLDER: Final = RESULTS / "debugging"


def find(fault: Fault, folder: Path) -> Finding:
    """Runs ``bisect`` on the fault's model while the fault is planted."""
    path = folder / f"{fault.model}.onnx"
    onnx.save(MODELS[fault.model](), str(path))
    with fault.plant():
        return bisect(open_subject(path, Options(isa=ISA)), TOLERANCE)


def row(fault: Fault, folder: Path) -> dict[str, Any]:
    """The row of a fault: the finding, whether it is right, and the seconds that it took."""
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


def _small(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Rows of all faults, or of those with one of ``names`` in theirs."""
    with tempfile.TemporaryDirectory() as folder:
        for fault in FAULTS:
            if not names or any(name in fault.name for name in names):
                yield row(fault, Path(folder))


def _zoo(models: Sequence[str]) -> Iterator[dict[str, Any]]:
    for model in models:
        yield from rows_of(model)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted_faults")
    parser.add_argument("names", nargs="*", help="parts of names; default: all faults")
    parser.add_argument("--zoo", nargs="+", default=(), help="models of the zoo, in place of small ones")
    parser.add_argument("--save", action="store_true", help=f"write to {FOLDER.name}")
    arguments = parser.parse_args()
    rows = []
    for each in _zoo(arguments.zoo) if arguments.zoo else _small(arguments.names):
        rows.append(each)
        print("| " + " | ".join(map(str, each.values())) + " |", flush=True)
    count = sum(each["found"] for each in rows)
    print(f"{count} of {len(rows)} found in {sum(each['seconds'] for each in rows):.0f} s")
    if arguments.save:
        target = FOLDER / ("zoo.json" if arguments.zoo else "planted_faults.json")
        FOLDER.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(rows, indent=1) + "\n")
    return int(count < len(rows))


if __name__ == "__main__":
    sys.exit(main())
