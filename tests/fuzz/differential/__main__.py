"""``python -m tests.fuzz.differential --count N --seed S``: try cases, print what differs by likely cause."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .campaign import run
from .minimize import reproducer


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.differential", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="cases to try")
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--device", default="cpu", choices=("cpu", "reference"), help="reference compiles no kernels"
    )
    parser.add_argument("--ops", default="", help="draw from these alone, as in Add,MatMul")
    parser.add_argument(
        "--show", type=int, metavar="SEED", help="minimize one case and print a script that shows it"
    )
    parser.add_argument("--all", action="store_true", help="list known differences as well")
    parser.add_argument("--log", type=Path, help="write each mismatch here as a line")
    arguments = parser.parse_args()
    ops = tuple(filter(None, arguments.ops.split(",")))
    if arguments.show is not None:
        print(reproducer(arguments.show, ops, arguments.device))
        return 0
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    return run(seeds, ops, arguments.device, arguments.jobs, arguments.log, arguments.all)


if __name__ == "__main__":
    sys.exit(main())
