"""Measures which merges of kernels are beneficial, on generated patterns.

    python -m benchmarks.fusion.experiments                   # writes benchmarks/results/fusion/edits.json
    python -m benchmarks.fusion.experiments gemm conv1x1_silu # patterns with one of these in their names
    python -m benchmarks.fusion.experiments --list

Each candidate is a graph and an edit: two kernels that one could compute. Both partitions are legal, are
compiled by graphwright's own stages, and are timed in turns in this process: :mod:`benchmarks.fusion.paired`
says how. One thread is timed by its processor clock. Every 20th candidate is a control, the same partition
twice. Measured candidates replace those in the file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.fusion.edits import Edit, Stage, selected_edits
from benchmarks.fusion.measure import compare
from benchmarks.fusion.paired import TIE
from benchmarks.fusion.patterns import PATTERNS, Pattern, Size
from benchmarks.fusion.results import FILE, Case, Measured, read, write
from graphwright.config import Options
from graphwright.runtime.devices.this_cpu import usable_isas

CONTROLS: Final = 20
"""One candidate of this many is a control."""
Way = tuple[str, int, str]
"""An ISA, threads, and where the arrays are."""


def ways(number: int, isa: str) -> Sequence[Way]:
    """The ways in which candidate ``number`` is measured: always with hot caches, and in one of the other
    ways.
    """
    cold: Sequence[Way] = ((isa, 1, "l2"), (isa, 1, "l3"))
    others = (*cold, ("v3", 1, "hot"), *cold, (isa, 2, "hot"), ("v3", 1, "l2"))
    return ((isa, 1, "hot"), others[number % len(others)])


def candidates(names: Sequence[str], isa: str) -> Iterator[tuple[Pattern, Size, Way]]:
    """Every pattern whose name contains one of ``names``, at every size, in each way that it is measured."""
    every = ((pattern, size) for pattern in PATTERNS.values() for size in pattern.sizes)
    for number, (pattern, size) in enumerate(every):
        if any(name in pattern.name for name in names):
            for way in ways(number, isa):
                yield pattern, size, way


def measure(names: Sequence[str], isa: str, seconds: float) -> Iterator[Measured]:
    """Measure all candidates of patterns with one of ``names``, each for at most this many ``seconds``."""
    done = 0
    for pattern, size, way in candidates(names, isa):
        level, threads, _ = way
        stage = Stage.of(pattern.module(size), Options(threads=threads, isa=level))
        for edit in selected_edits(stage):
            yield _measured(edit, pattern, size, way, seconds)
            done += 1
            if done % CONTROLS == 0:
                yield _measured(edit, pattern, size, way, seconds, control=True)


def _measured(
    edit: Edit, pattern: Pattern, size: Size, way: Way, seconds: float, control: bool = False
) -> Measured:
    before, after = edit.control() if control else edit.compiled()
    _, threads, arrays = way
    estimate, nanoseconds = compare(before, after, arrays, threads, seconds)
    return Measured(Case(pattern.name, size, edit.edge, edit.name, *way, control), estimate, nanoseconds)


def summary(measured: Sequence[Measured]) -> str:
    """The number of decided candidates, and of controls that are close to 1."""
    controls = [each.estimate for each in measured if each.case.control]
    verdicts = [each.estimate.verdict for each in measured if not each.case.control]
    counts = ", ".join(f"{name} {verdicts.count(name)}" for name in ("faster", "slower", "tie", "undecided"))
    within = sum(abs(each.median) <= TIE for each in controls)
    return f"{len(verdicts)} merges: {counts}; {within} of {len(controls)} controls within 3 %"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fusion.experiments",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a pattern's name")
    parser.add_argument("--isa", default=usable_isas()[-1], choices=usable_isas())
    parser.add_argument("--seconds", type=float, default=1.0, help="most time for one candidate")
    parser.add_argument("--results", type=Path, default=FILE)
    parser.add_argument("--list", action="store_true", help="only the names of the patterns")
    chosen = parser.parse_args()
    names = chosen.names or [""]
    if chosen.list:
        print("\n".join(p for p in PATTERNS if any(name in p for name in names)))
        return
    kept = {each.case: each for each in read(chosen.results)}
    made: dict[Case, Measured] = {}
    for each in measure(names, chosen.isa, chosen.seconds):
        made[each.case] = each
        print(line(each), flush=True)
        write((kept | made).values(), chosen.results)
    print(summary(list(made.values())))


def line(measured: Measured) -> str:
    """The line for the terminal."""
    case, estimate = measured.case, measured.estimate
    kind = "control" if case.control else case.ops
    name = f"{case.pattern} {'x'.join(map(str, case.size))} {kind}"
    where = f"{case.isa} {case.threads} {case.arrays}"
    span = f"{estimate.median:+.3f} [{estimate.low:+.3f} {estimate.high:+.3f}]"
    return f"{name:64} {where:10} {span} {estimate.verdict:9} {measured.before_ns / 1e3:9.1f} us"


if __name__ == "__main__":
    main()
