"""A process that compiles a package for one set of shapes: ``python -m graphwright.tools.specialize``.

Started by :mod:`graphwright.runtime.devices.build`; options come from the environment, faults go to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import graphwright.ops
from graphwright import plugins
from graphwright.api import unpacked_module
from graphwright.compiler import compile_module
from graphwright.config import Options
from graphwright.errors import GraphwrightError
from graphwright.package.read import read_package
from graphwright.package.write import write_package
from graphwright.passes.bind_sizes import shape_inputs
from graphwright.records import replace
from graphwright.runtime.devices.target import target_isa
from graphwright.tools.machine import die_with_parent

NICE = 10
"""Runs go first."""


def main(source: str, target: str, shapes: str) -> None:
    """From the package ``source`` write ``target``, for ``shapes`` (JSON, in the order of the inputs)."""
    die_with_parent()
    os.nice(NICE)
    options = Options.from_environment()
    plugins.use(options)
    graphwright.ops.load()
    module = unpacked_module(read_package(Path(source), trust=True, use_mmap=True))
    names = [value.name for value in module.main.inputs]
    shape_inputs(module, dict(zip(names, json.loads(shapes), strict=True)))
    made = compile_module(module, replace(options, isa=target_isa(options))).package
    write_package(made, Path(target))


def run(arguments: Sequence[str]) -> int:
    """The exit status."""
    try:
        main(*arguments)
    except (GraphwrightError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
