"""The programs of a compiled model, each with the arrays that it was run on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphwright.errors import Diagnostic
from graphwright.executable.nodes import BindSize, CallProgram, HostProgram, Program
from graphwright.ir.op import Array
from graphwright.package.package import Package
from graphwright.records import dataclass, field
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.executor import Executor, NoFastPath
from graphwright.runtime.host_program.executor import HostProgramExecutor
from graphwright.tools.check import EvaluationError
from graphwright.tools.debugging.history import CompiledGraph, History
from graphwright.tools.debugging.program_values import THREADS, ProgramRun


@dataclass(frozen=True)
class DebuggedProgram:
    """A program in a run of the model, and the graph that it was made of. ``partial``: by position, outputs
    of which the first elements alone are written, as data decides: the output that counts, and the shape, in
    which -1 stands for the count.
    """

    graph: CompiledGraph
    run: ProgramRun
    partial: Mapping[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)


def programs_in_run(package: Package, history: History, arrays: Sequence[Array]) -> list[DebuggedProgram]:
    """The programs that a run of the main entry on ``arrays`` calls, each with those of its first call.

    Raises EvaluationError where the entry has other executables than programs and nodes of the host.
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
    made = HostProgramExecutor(executable, recorders, package.weights.arrays)
    made.run([array.copy() if hasattr(array, "copy") else array for array in arrays], None, THREADS)
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
    """The outputs of a call that bind a size, and are of that size behind it."""
    found = {}
    for step in program.walk():
        if not isinstance(step, BindSize) or step.inputs[0] not in call.outputs:
            continue
        for number, shape in zip(step.inputs[1:], step.shapes, strict=True):
            if number in call.outputs:
                found[call.outputs.index(number)] = call.outputs.index(step.inputs[0]), shape
    return found


def _not_programs() -> EvaluationError:
    message = "parts of it are compiled for each rank or shape that comes up: its tasks are not known before"
    hint = "give the sizes of its inputs, with --shape, and what decides others, with --const"
    return EvaluationError(Diagnostic("debug", message, hint=hint))


def _executor(package: Package, program: Program) -> Cpu:
    (target,) = program.targets.values()
    return Cpu(program, target, package.weights_of(target.name))


class _Recorder(Executor):
    """Runs a program; ``arrays`` are those of the first run."""

    def __init__(self, executor: Cpu) -> None:
        self._executor = executor
        self.arrays: list[Array] = []

    def fast_path(self, threads: int) -> NoFastPath:
        return NoFastPath(threads)

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        self.arrays = self.arrays or [array.copy() for array in arrays]
        return self._executor.run(arrays, outputs, threads)

    def trim(self) -> int:
        return self._executor.trim()

    def stats(self) -> dict[str, int]:
        return self._executor.stats()
