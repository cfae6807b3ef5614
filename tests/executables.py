"""What tests ask of compiled models: their host program, their programs' targets."""

from __future__ import annotations

from collections.abc import Mapping

from graphwright.executable.nodes import (
    Dispatch,
    Executable,
    HostProgram,
    Program,
    host_programs_of,
)
from graphwright.executable.target_code import TargetCode
from graphwright.package.package import Package


def host_program(package: Package) -> HostProgram | None:
    """The host program of a package, None where it has none."""
    return next(host_programs_of(_main(package)), None)


def programs(package: Package) -> list[Program]:
    """All programs of a package."""
    return package.programs()


def targets(package: Package) -> Mapping[str, TargetCode]:
    """The targets of a package's only program."""
    (program,) = programs(package)
    return program.targets


def dispatch(package: Package) -> Dispatch:
    """The executor that chooses a program by shape."""
    main = _main(package)
    assert isinstance(main, Dispatch)
    return main


def guards(package: Package) -> list[str]:
    """The assumptions of its programs about sizes."""
    return [text for program in programs(package) for text in program.guards]


def _main(package: Package) -> Executable:
    assert package.main.executable is not None
    return package.main.executable
