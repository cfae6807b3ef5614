"""Generates the code of modules on which all passes have run: selects kernels, emits and compiles their
sources, and lowers to tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from graphwright.compiler.generated import compile_sources, sources_of
from graphwright.compiler.memory_budget import Budget, lower_within_budget
from graphwright.compiler.report import compile_report
from graphwright.compiler.run_passes import Observer
from graphwright.compiler.specs import program_of
from graphwright.compiler.weights import pack_read_constants
from graphwright.config import Options
from graphwright.cost.choices import Choices, choices_of
from graphwright.errors import ToolchainError
from graphwright.executable.nodes import Program
from graphwright.executable.stored import StoredTasks
from graphwright.executable.target_code import TargetCode
from graphwright.fusion.rules.bands import BANDS
from graphwright.fusion.rules.switches import rule_set
from graphwright.ir.graph import Module
from graphwright.kernels.bands.chains import with_bands
from graphwright.kernels.candidates.generated import GeneratedKernels
from graphwright.kernels.launch import Host, Run
from graphwright.kernels.select import Selection, select_kernels
from graphwright.kernels.steps import all_steps
from graphwright.package.weights import Weights
from graphwright.passes.base import Record
from graphwright.records import dataclass, replace
from graphwright.runtime.devices.target import library_digest
from graphwright.support.background import BackgroundTask
from graphwright.targets.base import Target
from graphwright.targets.cpu.isa import ISAS
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
    """Code generation of ``modules``, in three steps. The constructor selects kernels and emits their
    sources. :meth:`start` starts the C compiler on them in the background. :meth:`finish` waits for it
    and lowers the modules to tasks.

    A ``with`` block starts the compiler, and stops it if it raises. ``records`` are what the passes recorded.
    Raises ModelError, ToolchainError.
    """

    def __init__(
        self,
        modules: Sequence[Module],
        records: Sequence[Sequence[Record]],
        options: Options,
        observe: Observer = lambda name, product: None,
    ) -> None:
        self._modules, self._options, self._observe = modules, options, observe
        self._target, self._generated = target_of(options), GeneratedKernels()
        self._selections, selected = _select(modules, self._target, self._generated, options, observe)
        self._records = [[*before, *selection] for before, selection in zip(records, selected, strict=True)]
        self._sources = sources_of(self._generated, self._target, options.debug)
        compiler = self._target.compiler(options)
        call = partial(compile_sources, self._sources, self._generated, compiler)
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
        weights, ranges = pack_read_constants(self._modules, self._selections, shared)
        budget = Budget.of(options, len(weights.data))
        lowered = [
            lower_within_budget(budget, m, s.steps, constants, target.machine, options.streams)
            for m, s, constants in zip(self._modules, self._selections, ranges, strict=True)
        ]
        budget.raise_if_exceeded()
        for each in lowered:
            observe("lower", each)
        observe("emit", self._sources)
        objects = self._kernels.result()
        observe("kernels", objects)
        library = library_digest(target.library) if target.library else ""
        compiled = []
        for module, selection, program, done in zip(
            self._modules, self._selections, lowered, self._records, strict=True
        ):
            tasks = StoredTasks.of(program.tasks)
            code = {target.name: TargetCode(target.name, tasks, objects, self._sources, library)}
            report = compile_report(done, selection.steps)
            compiled.append(
                Compilation(module, program_of(module, code), report, weights, self._generated, done)
            )
        return compiled


def generate_code(
    modules: Sequence[Module],
    records: Sequence[Sequence[Record]],
    options: Options,
    observe: Observer = lambda name, product: None,
    shared: Weights | None = None,
) -> list[Compilation]:
    """The programs of ``modules``: all steps of :class:`CodeGeneration`."""
    with CodeGeneration(modules, records, options, observe) as code:
        return code.finish(shared)


def _select(
    modules: Sequence[Module],
    target: Target,
    generated: GeneratedKernels,
    options: Options,
    observe: Observer,
) -> tuple[list[Selection], list[tuple[Record, Record]]]:
    """Selects kernels for ``modules`` and combines them into bands. Kernels that the library lacks are added
    to ``generated``. Returns the selections, and records of both stages.
    """
    choices = choices_of(options)
    selections = [
        select_kernels(module, module.main, target, options.numerics, generated, choices)
        for module in modules
    ]
    for selection in selections:
        observe("select", selection)
    records = [_selection_record(selection) for selection in selections]
    banded = [_in_bands(m, s, target, options, choices) for m, s in zip(modules, selections, strict=True)]
    for selection, _ in banded:
        observe("bands", selection)
    selected = [(record, bands) for record, (_, bands) in zip(records, banded, strict=True)]
    return [selection for selection, _ in banded], selected


def _selection_record(selection: Selection) -> Record:
    """A record of the kernels that were selected for one module."""
    done = {Run: "nodes done by kernels", Host: "nodes run on the host"}
    kinds = (done.get(type(step.action)) for step in all_steps(selection.steps))
    counts = Counter(kind for kind in kinds if kind is not None)
    return Record("select", counts, notes=list(selection.chosen), stage="select")


def _in_bands(
    module: Module, selection: Selection, target: Target, options: Options, choices: Choices
) -> tuple[Selection, Record]:
    """``selection`` with chains of library kernels combined into bands, and a record of these decisions."""
    record = Record("bands", stage="bands")
    if not target.library or BANDS.name in rule_set(options).off:
        return selection, record
    isa, generated = ISAS[target.library], selection.generated
    steps, record.notes[:] = with_bands(
        module.main, selection.steps, module.symbols, generated, isa.on(target.machine), choices
    )
    if joined := len(selection.steps) - len(steps):
        record.did("kernels joined in bands", joined)
    return replace(selection, steps=steps), record
