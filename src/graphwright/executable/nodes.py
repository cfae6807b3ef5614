"""The nodes of an executable.

An executable is a :class:`Program`, a :class:`Dispatch` that chooses between executables by the shapes of a
run, or a :class:`HostProgram` that calls executables and runs nodes between the calls. Each says what it
takes and gives, and what it assumes of sizes beyond that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from graphwright.executable.specs import TensorSpec, static_shapes
from graphwright.executable.target_code import TargetCode
from graphwright.records import dataclass, replace

if TYPE_CHECKING:
    from graphwright.ir.graph import Module

ERROR: Final = "error"
COMPILE: Final = "compile"
SIZE_INPUT: Final = "size of "
"""What the name of an input begins with that binds the size called so."""


@dataclass(frozen=True)
class Program:
    """Tasks, for each of several ISAs."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    guards: tuple[str, ...]
    """What the tasks assume of sizes: a run that breaks one is refused before any task runs."""
    targets: Mapping[str, TargetCode]
    states: tuple[int, ...] = ()
    """The inputs that a run updates in place, by number."""
    module: Module | None = None
    """What the reference device interprets; a file does not hold it."""
    device: str = ""
    """What it was placed on; empty: what the option ``device`` says."""


@dataclass(frozen=True)
class Dispatch:
    """The first of ``cases`` that takes the shapes of a run, and no guard of which they break.

    ``otherwise``: other shapes are an error, or the graph is compiled for them. ``subgraph`` is the number of
    that subgraph of the package's graph; None is all of it.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    cases: tuple[Executable, ...]
    otherwise: str = ERROR
    subgraph: int | None = None
    states: tuple[int, ...] = ()
    """As those of a program: all cases update the same."""

    @property
    def guards(self) -> tuple[str, ...]:
        """None: what a case assumes is a matter of the case."""
        return ()


@dataclass(frozen=True)
class CallProgram:
    """Makes ``outputs`` of the values ``inputs``, and of an array ``u8[size, 0]`` for each of ``sizes``,
    which binds that size.
    """

    number: int
    """Of the subgraph that was compiled."""
    inputs: tuple[int, ...]
    sizes: tuple[str, ...]
    outputs: tuple[int, ...]
    callee: Executable


@dataclass(frozen=True)
class CallHost:
    """A node that the host runs, and why: ``op`` as the graph text prints it. An op with regions runs
    ``bodies``. If it ``repeats``, it is a loop whose body is one call of a program: native code runs it.
    """

    op: str
    node: str
    reason: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    bodies: tuple[HostProgram, ...] = ()
    repeats: bool = False


@dataclass(frozen=True)
class BindSize:
    """Binds a size that depends on data: the first of ``inputs`` says how much ``size`` is, the others are
    buffers of which ``outputs`` are the first elements, under ``shapes`` in which -1 stands for the size.
    """

    size: str
    shapes: tuple[tuple[int, ...], ...]
    node: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


Step = CallProgram | CallHost | BindSize


@dataclass(frozen=True)
class HostProgram:
    """Calls of programs, and nodes that the host runs between them.

    Values are numbered: the first are the inputs; those of ``constants`` lie in the weights, by digest; steps
    make the others.
    """

    input_count: int
    values: tuple[TensorSpec, ...]
    constants: tuple[tuple[int, str], ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    """The numbers of the outputs."""
    updates: tuple[tuple[int, int], ...] = ()
    """Inputs that become values when all steps have run."""
    guards: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    """What sizes must satisfy that no program sees together; guards of that kind are checked as well."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What it takes."""
        return self.values[: self.input_count]

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What it gives."""
        return tuple(self.values[number] for number in self.results)

    @property
    def states(self) -> tuple[int, ...]:
        """The inputs that a run updates in place, by number."""
        return tuple(number for number, _ in self.updates)

    def walk(self) -> Iterator[Step]:
        """All steps, those of bodies behind the node that runs them."""
        for step in self.steps:
            yield step
            for body in step.bodies if isinstance(step, CallHost) else ():
                yield from body.walk()

    def calls(self) -> list[CallProgram]:
        """All calls, those of bodies too, in the order of their numbers."""
        found = [step for step in self.walk() if isinstance(step, CallProgram)]
        return sorted(found, key=lambda call: call.number)

    def hosts(self) -> list[CallHost]:
        """All nodes that the host runs, those of bodies too."""
        return [step for step in self.walk() if isinstance(step, CallHost)]


Executable = Program | Dispatch | HostProgram


def programs_of(executable: Executable) -> Iterator[Program]:
    """All programs, in the order in which a file numbers them."""
    if isinstance(executable, Program):
        yield executable
    for child in children_of(executable):
        yield from programs_of(child)


def children_of(executable: Executable) -> Sequence[Executable]:
    """What it chooses from, or calls."""
    if isinstance(executable, Dispatch):
        return executable.cases
    if isinstance(executable, HostProgram):
        return [step.callee for step in executable.walk() if isinstance(step, CallProgram)]
    return ()


def host_programs_of(executable: Executable) -> Iterator[HostProgram]:
    """All host programs that are no bodies of another's nodes."""
    if isinstance(executable, HostProgram):
        yield executable
    for child in children_of(executable):
        yield from host_programs_of(child)


def accepts(executable: Executable, shapes: Sequence[Sequence[int]]) -> bool:
    """Whether the ranks of ``shapes`` are its own, and the sizes where it has numbers."""
    return all(spec.accepts(shape) for spec, shape in zip(executable.inputs, shapes, strict=True))


def is_static(executable: Executable) -> bool:
    """Whether it is for one shape of each input; containers have none."""
    return static_shapes(executable.inputs) is not None


def buckets_of(executable: Executable | None) -> Sequence[Executable]:
    """The cases that were made for one shape of each input; a dispatch that compiles for others has none."""
    if not isinstance(executable, Dispatch) or executable.otherwise == COMPILE:
        return ()
    return [case for case in executable.cases if is_static(case)]


def between_buckets(dispatch: Dispatch) -> str:
    """What becomes of shapes between the buckets of ``dispatch``: "error", "pad" or "dynamic", as Gears says;
    empty where it has no buckets.
    """
    if not buckets_of(dispatch):
        return ""
    others = [case for case in dispatch.cases if not is_static(case)]
    if not others:
        return "error"
    return "pad" if any(case.guards for case in others) else "dynamic"


def map_programs(executable: Executable, change: Callable[[Program], Program]) -> Executable:
    """``executable`` with other programs in the same places, changed in the order of :func:`programs_of`."""
    if isinstance(executable, Program):
        return change(executable)
    if isinstance(executable, Dispatch):
        return replace(executable, cases=tuple(map_programs(case, change) for case in executable.cases))
    steps = (step for step in executable.walk() if isinstance(step, CallProgram))
    return with_callees(executable, {call.number: map_programs(call.callee, change) for call in steps})


def with_callees(program: HostProgram, callees: Mapping[int, Executable]) -> HostProgram:
    """``program`` with other callees, by the numbers of their calls."""

    def changed(step: Step) -> Step:
        if isinstance(step, CallProgram):
            return replace(step, callee=callees.get(step.number, step.callee))
        if isinstance(step, CallHost):
            return replace(step, bodies=tuple(with_callees(body, callees) for body in step.bodies))
        return step

    return replace(program, steps=tuple(map(changed, program.steps)))
