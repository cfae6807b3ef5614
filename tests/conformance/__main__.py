"""``python -m tests.conformance [--device cpu|reference] [--only WORD ...]``: the table, and what fails."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

from .cases import FOLDERS, all_cases
from .failures import BY_CHANCE, FAILURES
from .run import Outcome, Verdict, run_cases


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the cases and prints the table. Returns 1 if a failure is not listed, or a listed one passes."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "reference"), default="cpu")
    parser.add_argument("--only", metavar="WORD", nargs="+", default=(), help="cases whose names contain one")
    parser.add_argument("--workers", type=int, default=0, help="processes; 0 is one per usable core")
    given = parser.parse_args(arguments)
    start = time.monotonic()
    outcomes = list(run_cases(all_cases(given.only), given.device, given.workers))
    print(table(outcomes))
    print(f"\n{time.monotonic() - start:.0f} s on the device {given.device}")
    print(hosts(outcomes))
    failed = {o.name: o.reason for o in outcomes if o.verdict is Verdict.FAILED}
    for name, reason in failed.items():
        mark = "" if name in FAILURES else "  NOT LISTED"
        print(f"{name}{mark}\n    {reason}")
    listed = FAILURES.keys() - BY_CHANCE
    passing = [o.name for o in outcomes if o.verdict is not Verdict.FAILED and o.name in listed]
    for name in passing:
        print(f"{name} passes: take it off the list")
    return int(bool(passing) or any(name not in FAILURES for name in failed))


def hosts(outcomes: Sequence[Outcome]) -> str:
    """Why cases need Python, and how many do, most first."""
    reasons = Counter(o.reason for o in outcomes if o.verdict is Verdict.HOST and o.reason)
    return "\n".join(f"{count:6}  {reason}" for reason, count in reasons.most_common())


def table(outcomes: Sequence[Outcome]) -> str:
    """Cases by verdict, for the nodes and for each folder of models."""
    groups = ("node", *FOLDERS)
    counts = {group: Counter[Verdict]() for group in groups}
    for outcome in outcomes:
        folder = outcome.name.partition("/")[0]
        counts[folder if folder in FOLDERS else "node"][outcome.verdict] += 1
    rows = [(group, *(counts[group][v] for v in Verdict)) for group in groups if counts[group]]
    lines = [f"{'':20}{'cases':>7}" + "".join(f"{v:>10}" for v in Verdict)]
    for group, *numbers in rows:
        lines.append(f"{group:20}{sum(numbers):7}" + "".join(f"{n:10}" for n in numbers))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
