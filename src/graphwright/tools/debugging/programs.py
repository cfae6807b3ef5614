"""Finds the programs that a run of a compiled model calls, each with its input arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphwright.errors import Diagnostic
from graphwright.executable.nodes import BindSize, CallProgram, HostProgram, Program
from graphwright.ir.op import Array
from graphwright.package.package import Package
from graphwright.records import dataclass, field
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.executor import Executor
from graphwright.runtime.host_program.executor import HostProgramExecutor
from graphwright.tools.check import EvaluationError
from graphwright.tools.debugging.history import CompiledGraph, History
from graphwright.tools.debugging.program_values import THREADS, ProgramRun


@dataclass(frozen=True)
class DebuggedProgram:
    """A program in a run of the model, and the graph that it was compiled from. ``partial`` has, by position,
    outputs of which only the first elements are written, as their size is data-dependent: the output with the
    count, and the shape, in which -1 represents the count.
    """

    graph: CompiledGraph
    run: ProgramRun
    partial: Mapping[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)


def programs_in_run(package: Package, history: History, arrays: Sequence[Array]) -> list[DebuggedProgram]:
    """The programs that a run of the main entry on ``arrays`` calls, each with the arrays of its first call.
    Raises EvaluationError if the entry has executables other than programs and Python nodes.
    """
    executable = package.main.executable
    if isinstance(executable, Program):
        graph = history.graphs[0]
        return [DebuggedProgram(graph, ProgramRun(package, executable, graph.lowered, arrays))]
    if not isinstance(executable, HostProgram):
        raise _not_programs()
    calls = executable.calls()
    programs = {call.number: call.callee for call in calls if isinstance(call.callee, Program)}
    if len(programs) < len(calls):
        raise _not_programs()
    recorders = {number: _Recorder(_executor(package, program)) for number, program in programs.items()}
    executor = HostProgramExecutor(executable, recorders, package.weights.arrays)
    executor.run([array.copy() if hasattr(array, "copy") else array for array in arrays], None, THREADS)
    return [
        DebuggedProgram(
            graph,
            ProgramRun(package, call.callee, graph.lowered, recorders[call.number].arrays),
            _partial(executable, call),
        )
        for graph, call in zip(history.graphs, calls, strict=True)
        if recorders[call.number].arrays and isinstance(call.callee, Program)
    ]


def _partial(program: HostProgram, call: CallProgram) -> dict[int, tuple[int, tuple[int, ...]]]:
    """The outputs of a call whose size a later BindSize step determines."""
    found = {}
    for step in program.walk():
        if not isinstance(step, BindSize) or step.inputs[0] not in call.outputs:
            continue
        for number, shape in zip(step.inputs[1:], step.shapes, strict=True):
            if number in call.outputs:
                found[call.outputs.index(number)] = call.outputs.index(step.inputs[0]), shape
    return found


def _not_programs() -> EvaluationError:
    message = "some parts are compiled when a rank or shape first occurs: their tasks are unknown until then"
    hint = "give the sizes of the inputs with --shape, and inputs that determine other sizes with --const"
    return EvaluationError(Diagnostic("debug", message, hint=hint))


def _executor(package: Package, program: Program) -> Cpu:
    (target,) = program.targets.values()
    return Cpu(program, target, package.weights_of(target.name))


class _Recorder(Executor):
    """Runs a program; ``arrays`` are those of the first run."""

    def __init__(self, executor: Cpu) -> None:
        self._executor = executor
        self.arrays: list[Array] = []

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        self.arrays = self.arrays or [array.copy() for array in arrays]
        return self._executor.run(arrays, outputs, threads)

    def trim(self) -> int:
        return self._executor.trim()

    def stats(self) -> dict[str, int]:
        return self._executor.stats()
