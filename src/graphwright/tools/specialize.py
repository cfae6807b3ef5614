"""A process that compiles a package for one set of shapes: ``python -m graphwright.tools.specialize``.

:mod:`graphwright.runtime.dispatch.background_build` starts this process. Options come from environment
variables; errors go to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from graphwright.compiler.recompile import specialize
from graphwright.config import Options
from graphwright.errors import GraphwrightError
from graphwright.package.read import read_package
from graphwright.package.write import write_package
from graphwright.tools.machine import die_with_parent

NICE = 10
"""The niceness of the process: runs have priority."""


def main(source: str, target: str, shapes: str) -> None:
    """Compiles the package ``source`` for ``shapes`` (JSON, in the order of the inputs) and writes
    ``target``.
    """
    die_with_parent()
    os.nice(NICE)
    options = Options.from_environment()
    package = read_package(Path(source), trust=True, use_mmap=True)
    write_package(specialize(package, json.loads(shapes), options), Path(target))


def run(arguments: Sequence[str]) -> int:
    """Runs the process and returns its exit status."""
    try:
        main(*arguments)
    except (GraphwrightError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
