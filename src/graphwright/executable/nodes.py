"""The nodes of an executable.

An executable is a :class:`Program`, a :class:`Dispatch` that chooses between executables by input shape, or a
:class:`HostProgram` that calls executables and runs nodes between the calls. Each has the types of its inputs
and outputs, and guards: further assumptions about their sizes.
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
"""The prefix of the name of an input that passes a size; the name of the size follows."""


@dataclass(frozen=True)
class Program:
    """A compiled graph: tasks and kernels for one or more targets."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    guards: tuple[str, ...]
    """Assumptions about sizes: a run that violates one is rejected before any task runs."""
    targets: Mapping[str, TargetCode]
    states: tuple[int, ...] = ()
    """The indices of the inputs that a run updates in place."""
    module: Module | None = None
    """The module that the reference device interprets; it is not saved in files."""
    device: str = ""
    """The device that it was placed on; empty for the device of the option ``device``."""


@dataclass(frozen=True)
class Dispatch:
    """Runs the first of ``cases`` that accepts the input shapes and whose guards they satisfy.

    ``otherwise`` says whether other shapes are an error, or the graph is compiled for them. ``subgraph`` is
    the number of the subgraph that is compiled then; None for the whole graph of the package.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    cases: tuple[Executable, ...]
    otherwise: str = ERROR
    subgraph: int | None = None
    states: tuple[int, ...] = ()
    """The indices of the inputs that a run updates in place, the same for all cases."""

    @property
    def guards(self) -> tuple[str, ...]:
        """A dispatch has no guards; its cases have."""
        return ()


@dataclass(frozen=True)
class CallProgram:
    """Calls an executable with the values ``inputs`` and makes the values ``outputs``. For each of ``sizes``
    it passes one more input, an empty array ``u8[size, 0]``.
    """

    number: int
    """The number of the subgraph that the callee was compiled from."""
    inputs: tuple[int, ...]
    sizes: tuple[str, ...]
    outputs: tuple[int, ...]
    callee: Executable


@dataclass(frozen=True)
class CallHost:
    """A node that the host runs, and the reason; ``op`` is its text in the graph, and ``bodies`` are its
    regions. If ``repeats``, it is a loop whose body native code can run (:attr:`HostProgram.is_native`).
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
    """Binds a data-dependent dimension: the first of ``inputs`` holds the value of ``size``. The others are
    over-allocated buffers; ``outputs`` are views of their first elements with ``shapes``, in which -1 stands
    for the size.
    """

    size: str
    shapes: tuple[tuple[int, ...], ...]
    node: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


HostStep = CallProgram | CallHost | BindSize


@dataclass(frozen=True)
class HostProgram:
    """Calls of programs, and nodes that the host runs between them.

    Values are numbered. The first are the inputs, those of ``constants`` are tensors of the weights (by
    digest), and steps make the others.
    """

    input_count: int
    values: tuple[TensorSpec, ...]
    constants: tuple[tuple[int, str], ...]
    steps: tuple[HostStep, ...]
    results: tuple[int, ...]
    """The numbers of the outputs."""
    updates: tuple[tuple[int, int], ...] = ()
    """Pairs (input, value): states that are set to the value after all steps."""
    guards: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    """Constraints on sizes that no single program sees together; so are the guards."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs, in order."""
        return self.values[: self.input_count]

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs, in order."""
        return tuple(self.values[number] for number in self.results)

    @property
    def is_native(self) -> bool:
        """Whether native code can run all steps: calls of programs, and sizes that are bound between them."""
        calls = any(isinstance(step, CallProgram) for step in self.steps)
        return calls and all(isinstance(step, CallProgram | BindSize) for step in self.steps)

    @property
    def states(self) -> tuple[int, ...]:
        """The indices of the inputs that a run updates in place."""
        return tuple(number for number, _ in self.updates)

    def walk(self) -> Iterator[HostStep]:
        """All steps; those of bodies follow the node that runs them."""
        for step in self.steps:
            yield step
            for body in step.bodies if isinstance(step, CallHost) else ():
                yield from body.walk()

    def calls(self) -> list[CallProgram]:
        """All calls, including those of bodies, ordered by number."""
        found = [step for step in self.walk() if isinstance(step, CallProgram)]
        return sorted(found, key=lambda call: call.number)

    def hosts(self) -> list[CallHost]:
        """All nodes that the host runs, including those of bodies."""
        return [step for step in self.walk() if isinstance(step, CallHost)]


Executable = Program | Dispatch | HostProgram


def programs_of(executable: Executable) -> Iterator[Program]:
    """All programs, in the order of their numbers in a file."""
    if isinstance(executable, Program):
        yield executable
    for child in children_of(executable):
        yield from programs_of(child)


def children_of(executable: Executable) -> Sequence[Executable]:
    """The cases of a dispatch, or the callees of a host program."""
    if isinstance(executable, Dispatch):
        return executable.cases
    if isinstance(executable, HostProgram):
        return [step.callee for step in executable.walk() if isinstance(step, CallProgram)]
    return ()


def host_programs_of(executable: Executable) -> Iterator[HostProgram]:
    """All host programs, except those that are bodies of another one's nodes."""
    if isinstance(executable, HostProgram):
        yield executable
    for child in children_of(executable):
        yield from host_programs_of(child)


def accepts(executable: Executable, shapes: Sequence[Sequence[int]]) -> bool:
    """Whether ``shapes`` have the ranks and the static sizes of its inputs."""
    return all(spec.accepts(shape) for spec, shape in zip(executable.inputs, shapes, strict=True))


def is_static(executable: Executable) -> bool:
    """Whether all its inputs have static shapes; containers count as static."""
    return static_shapes(executable.inputs) is not None


def buckets_of(executable: Executable | None) -> Sequence[Executable]:
    """The cases with static shapes; none for a dispatch that compiles for other shapes."""
    if not isinstance(executable, Dispatch) or executable.otherwise == COMPILE:
        return ()
    return [case for case in executable.cases if is_static(case)]


def between_buckets(dispatch: Dispatch) -> str:
    """How ``dispatch`` treats shapes between its buckets: "error", "pad" or "dynamic", as in ``Gears``; empty
    if it has no buckets.
    """
    if not buckets_of(dispatch):
        return ""
    others = [case for case in dispatch.cases if not is_static(case)]
    if not others:
        return "error"
    return "pad" if any(case.guards for case in others) else "dynamic"


def map_programs(executable: Executable, change: Callable[[Program], Program]) -> Executable:
    """``executable`` with each program replaced by the result of ``change``, in the order of
    :func:`programs_of`.
    """
    if isinstance(executable, Program):
        return change(executable)
    if isinstance(executable, Dispatch):
        return replace(executable, cases=tuple(map_programs(case, change) for case in executable.cases))
    steps = (step for step in executable.walk() if isinstance(step, CallProgram))
    return with_callees(executable, {call.number: map_programs(call.callee, change) for call in steps})


def with_callees(program: HostProgram, callees: Mapping[int, Executable]) -> HostProgram:
    """``program`` with the callees of these calls replaced, by the numbers of the calls."""

    def changed(step: HostStep) -> HostStep:
        if isinstance(step, CallProgram):
            return replace(step, callee=callees.get(step.number, step.callee))
        if isinstance(step, CallHost):
            return replace(step, bodies=tuple(with_callees(body, callees) for body in step.bodies))
        return step

    return replace(program, steps=tuple(map(changed, program.steps)))
