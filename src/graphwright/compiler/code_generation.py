"""Generates the code of units: selects kernels, emits and compiles their sources, and lowers to tasks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from graphwright.compiler.interface import program_of
from graphwright.compiler.memory_budget import Budget, lower_within_budget
from graphwright.compiler.read_constants import pack_read_constants
from graphwright.compiler.report import compile_report
from graphwright.compiler.run_passes import Observer, observe_nothing
from graphwright.compiler.selection import select_units
from graphwright.compiler.translation_units import compile_files, sources_of
from graphwright.compiler.unit import Unit, run_kernel_passes
from graphwright.config import Options
from graphwright.errors import ToolchainError
from graphwright.executable.nodes import Program
from graphwright.executable.stored import StoredTasks
from graphwright.executable.target_code import TargetCode
from graphwright.ir.graph import Module
from graphwright.kernels.candidates.generated import GeneratedKernels
from graphwright.kernels.candidates.registry import load
from graphwright.package.weights import Weights
from graphwright.passes.base import Record
from graphwright.records import dataclass
from graphwright.runtime.devices.kernel_library import library_digest
from graphwright.support.background import BackgroundTask
from graphwright.targets.cpu.toolchain import discard
from graphwright.targets.registry import target_of


@dataclass(frozen=True)
class Compilation:
    """The program of one module. ``module`` has been rewritten by the passes."""

    module: Module
    program: Program
    report: str
    weights: Weights
    kernels: GeneratedKernels
    records: Sequence[Record]
    """The result of each pass."""


class CodeGeneration:
    """Code generation of ``units``, on which all passes have run, in three steps. The constructor selects
    kernels and emits their sources. :meth:`start` starts the C compiler on them in the background.
    :meth:`finish` waits for it and lowers the modules to tasks.

    A ``with`` block starts the compiler, and stops it if it raises. Raises ModelError, ToolchainError.
    """

    def __init__(self, units: Sequence[Unit], options: Options, observe: Observer = observe_nothing) -> None:
        self._options, self._observe = options, observe
        self._target, self._generated = target_of(options), GeneratedKernels()
        self._units = select_units(units, self._target, self._generated, options, observe)
        self._sources = sources_of(self._generated, self._target, options.debug)
        compiler = self._target.compiler(options)
        call = partial(compile_files, self._sources, self._generated, compiler)
        self._kernels = BackgroundTask(call, compiler.stop)

    def start(self) -> None:
        """Starts the C compiler."""
        self._kernels.start()

    def __enter__(self) -> CodeGeneration:
        self.start()
        return self

    def __exit__(self, raised: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        self._kernels.__exit__(raised)
        fault = self._kernels.fault
        if isinstance(fault, ToolchainError) and fault is not error:
            discard(fault)  # no message says where its source is

    def finish(self, shared: Weights | None = None) -> list[Compilation]:
        """The programs, with one set of weights, which begins with ``shared``. Waits for the C compiler."""
        target, options, observe = self._target, self._options, self._observe
        weights, ranges = pack_read_constants(self._units, shared)
        budget = Budget.of(options, len(weights.data))
        lowered = [
            lower_within_budget(budget, unit.module, unit.steps, constants, target.machine, options.streams)
            for unit, constants in zip(self._units, ranges, strict=True)
        ]
        budget.raise_if_exceeded()
        for each in lowered:
            observe("lower", each)
        observe("emit", self._sources)
        objects = self._kernels.result()
        observe("kernels", objects)
        library = library_digest(target.library) if target.library else ""
        compiled = []
        for unit, program in zip(self._units, lowered, strict=True):
            tasks = StoredTasks.of(program.tasks)
            code = {target.name: TargetCode(target.name, tasks, objects, self._sources, library)}
            report = compile_report(unit.records, unit.steps)
            done = program_of(unit.module, code)
            compiled.append(Compilation(unit.module, done, report, weights, self._generated, unit.records))
        return compiled


def generate_code(
    units: Sequence[Unit],
    options: Options,
    observe: Observer = observe_nothing,
    shared: Weights | None = None,
) -> list[Compilation]:
    """The programs of ``units``: all steps of :class:`CodeGeneration`."""
    with CodeGeneration(units, options, observe) as code:
        return code.finish(shared)


def compile_units(
    units: Sequence[Unit],
    options: Options,
    observe: Observer = observe_nothing,
    shared: Weights | None = None,
) -> list[Compilation]:
    """Compiles each of ``units``, whose modules are rewritten in place, to a program for the device of
    ``options``: runs the passes, then generates code. The programs share one set of weights, which begins
    with ``shared``, and one set of generated kernels. Raises ModelError, ToolchainError.
    """
    load()
    return generate_code(
        [run_kernel_passes(unit, options, observe) for unit in units], options, observe, shared
    )
