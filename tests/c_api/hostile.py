"""Damaged packages that the C interface opens under the address and undefined-behavior sanitizers.

    python -m tests.c_api.hostile COUNT [--first NUMBER]

Mutants follow from their numbers. Those of ``make fuzz`` (bytes, graphs, manifests and tasks, with all hashes
set right) are opened with trust, and planned; those with damaged steps between programs are run. A crash, a
leak or a hang ends with an error that names the mutant, which is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import graphwright as gw
from tests.c_api.build import program, sanitized_library
from tests.fuzz.packages import Workshop, damaged_json
from tests.package.damage import entry_of, manifest_of, members_of, put_together
from tests.runtime.host_program.models import MODELS
from tests.sanitizers import compile_runtime, sanitizer_flags

AT_ONCE = 100
"""Packages that one process opens."""
STEPPED = ("resized", "two_in_a_row", "detector")
"""Models whose programs bind sizes for others."""
_LIMITS = {"ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb=8192"}


class Hostile:
    """Makes mutants in a folder, and tries them."""

    def __init__(self, folder: Path, libraries: Sequence[str]) -> None:
        """``libraries`` are flags that link the interface, built under the sanitizer."""
        self.folder = folder
        source = Path(__file__).with_name("hostile.c")
        self._program = program(source, folder / "hostile", sanitizer_flags("address"), libraries)

    def packages(self, first: int, count: int) -> Counter[str]:
        """The number of mutants of ``make fuzz`` with each status; all of them are planned."""
        shop = Workshop(self.folder)
        return self._tried("plan", first, count, lambda number: shop.mutant(number)[0])

    def steps(self, first: int, count: int) -> Counter[str]:
        """The number of mutants of steps between programs with each status; all of them are run."""
        seeds = [self.folder / f"{name}.om" for name in STEPPED]
        for seed in seeds:
            gw.compile(MODELS[seed.stem]().model).save(seed)
        return self._tried("run", first, count, lambda number: stepped(seeds[number % len(seeds)], number))

    def _tried(self, how: str, first: int, count: int, make: Callable[[int], Path]) -> Counter[str]:
        found: Counter[str] = Counter()
        for start in range(first, first + count, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, first + count))
            paths = [make(number).rename(self.folder / f"mutant{number}.om") for number in numbers]
            found.update(self._statuses(how, paths))
            for path in paths:
                path.unlink()
        return found

    def _statuses(self, how: str, paths: Sequence[Path]) -> list[str]:
        command = [str(self._program), how, *map(str, paths)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, env={**os.environ, **_LIMITS}
        )
        statuses = done.stdout.split()
        if done.returncode or len(statuses) < len(paths):
            at = paths[min(len(statuses), len(paths) - 1)]
            raise AssertionError(f"{at} ended with {done.returncode}: {done.stderr[-4000:]}")
        return statuses


def stepped(seed: Path, number: int) -> Path:
    """``seed`` with a damaged executable."""
    own = ("signature", "manifest.json")
    members = {name: data for name, data in members_of(seed).items() if name not in own}
    manifest = manifest_of(seed)
    executable = json.dumps(entry_of(manifest)["executable"]).encode()
    entry_of(manifest)["executable"] = json.loads(damaged_json(executable, np.random.default_rng(number)))
    return put_together(seed.with_name("stepped.om"), manifest, members, None)


def main() -> None:
    """Prints the outcomes of the mutants."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, help="of each kind")
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())  # kept where something fails
    runtime = compile_runtime(folder, "address")
    hostile = Hostile(folder, sanitized_library(folder, "address", runtime))
    for kind in (hostile.packages, hostile.steps):
        print(kind.__name__, dict(kind(given.first, given.count)), flush=True)
    subprocess.run(["rm", "-r", str(folder)], check=True)


if __name__ == "__main__":
    sys.exit(main())
