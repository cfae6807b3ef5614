"""The parts of an executable that only Python runs; the C interface (``c_api/decode.c``) rejects them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from graphwright.executable.nodes import (
    Dispatch,
    Executable,
    HostProgram,
    children_of,
    host_programs_of,
    programs_of,
)
from graphwright.executable.specs import TensorSpec
from graphwright.records import dataclass

_BOUND_SIZE: Final = re.compile(r"(\d+\*)?[^\d\s+*/%()\[\],-][^\s+*/%()\[\],-]*")
"""A symbol or a multiple of one, whose value follows from a size of an input."""


@dataclass(frozen=True)
class PythonNeed:
    """One reason: ``what`` needs Python, and the node or value ``where`` it is."""

    what: str
    where: str = ""


def python_needs(executable: Executable) -> list[PythonNeed]:
    """All reasons why ``executable`` does not run without Python; none if it does. Shapes that no program of
    a dispatch accepts are no reason.
    """
    found = [*_values(executable), *_unknown_ranks(executable), *_host_calls(executable)]
    for program in host_programs_of(executable):
        found += _between_programs(program)
    return list(dict.fromkeys(found))


def _values(executable: Executable) -> Iterator[PythonNeed]:
    held = (value for program in host_programs_of(executable) for value in program.values)
    for spec in (*executable.inputs, *executable.outputs, *held):
        if spec.dtype.bits == 0 and spec.name:  # strings and containers
            yield PythonNeed(f"values of type {spec.dtype} need Python", spec.name)


def _unknown_ranks(executable: Executable) -> Iterator[PythonNeed]:
    if isinstance(executable, Dispatch) and not any(programs_of(executable)):
        names = [spec.name for spec in executable.inputs if spec.shape is None]
        what = "a subgraph that reads these values is compiled when a run shows their rank"
        yield PythonNeed(what, ", ".join(names))
    for child in children_of(executable):
        yield from _unknown_ranks(child)


def _host_calls(executable: Executable) -> Iterator[PythonNeed]:
    """Nodes within programs."""
    for program in programs_of(executable):
        for target in program.targets.values():
            for host in target.stored.hosts:
                yield PythonNeed(f"Python runs {_op_name(host.op)}")


def _between_programs(program: HostProgram) -> Iterator[PythonNeed]:
    """Nodes and checks that are outside of programs."""
    for host in program.hosts():
        yield PythonNeed(f"Python runs {_op_name(host.op)}: {host.reason}", host.node)
    if program.guards or program.constraints:
        compared = ", ".join((*program.guards, *program.constraints))
        yield PythonNeed(f"Python compares sizes between its programs: {compared}")
    if program.updates:
        yield PythonNeed("Python updates states between its programs", _names(program, program.states))
    for spec in program.inputs:
        sizes = [dim for dim in spec.shape or () if isinstance(dim, str) and not _BOUND_SIZE.fullmatch(dim)]
        if sizes:
            yield PythonNeed(
                f"Python computes the sizes {', '.join(sizes)} from those of the input", spec.name
            )


def _names(program: HostProgram, numbers: tuple[int, ...]) -> str:
    specs: list[TensorSpec] = [program.inputs[number] for number in numbers]
    return ", ".join(spec.name for spec in specs)


def _op_name(op: str) -> str:
    """The name in the text of an op, such as ``Unique`` in ``Unique[axis=0]``."""
    return op.partition("[")[0]
