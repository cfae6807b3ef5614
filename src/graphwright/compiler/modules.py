"""Compiles modules to programs: runs passes, selects kernels, generates and compiles code, and lowers to
tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from graphwright.compiler.generated import compile_sources, sources_of
from graphwright.compiler.memory_budget import Budget, lower_within
from graphwright.compiler.pipeline import graph_passes, kernel_passes
from graphwright.compiler.specs import program_of
from graphwright.compiler.weights import pack_read_constants
from graphwright.config import Options
from graphwright.cost.choices import Choices, choices_of
from graphwright.executable.nodes import Program
from graphwright.executable.stored import StoredTasks
from graphwright.executable.target_code import TargetCode
from graphwright.fusion.rules.bands import BANDS
from graphwright.fusion.rules.switches import rule_set
from graphwright.ir.graph import Module
from graphwright.kernels.candidates.generated import GeneratedKernels
from graphwright.kernels.candidates.registry import load
from graphwright.kernels.launch import Host, Run
from graphwright.kernels.select import Selection, select_kernels
from graphwright.lower.lower import refuse_unknown_ranks
from graphwright.memory.steps import all_steps
from graphwright.package.weights import Weights
from graphwright.passes.after_stage import AfterStage
from graphwright.passes.base import Record
from graphwright.passes.manager import PassManager, Scheduled
from graphwright.records import dataclass, replace
from graphwright.report import compile_report
from graphwright.runtime.devices.target import library_digest
from graphwright.schedule.bands import with_bands
from graphwright.support.background import BackgroundTask
from graphwright.targets.base import Target
from graphwright.targets.cpu.isa import ISAS
from graphwright.targets.registry import target_of

Observer = Callable[[str, object], None]
"""Called after each pass and each stage with its name and its product: a module, a kernel selection, sources,
tasks. The product of a stage of passes is an :class:`AfterStage`.
"""


@dataclass(frozen=True)
class Compilation:
    """The program of one module. ``module`` has been rewritten by the passes."""

    module: Module
    program: Program
    report: str
    weights: Weights
    kernels: GeneratedKernels
    records: Sequence[Record]
    """What each pass did."""


def run_passes(
    module: Module,
    passes: Sequence[Scheduled],
    options: Options,
    observe: Observer = lambda name, product: None,
) -> list[Record]:
    """Run ``passes`` on ``module`` and return a record of what each one did."""
    manager = PassManager(
        passes,
        options.verify,
        lambda m, record: observe(record.name, m),
        lambda name, m: observe(name, AfterStage(m)),
    )
    manager.run(module)
    return manager.records


def compile_modules(
    modules: Sequence[Module],
    options: Options,
    observe: Observer = lambda name, product: None,
    shared: Weights | None = None,
    prepared: Sequence[Sequence[Record] | None] = (),
) -> list[Compilation]:
    """Compile each of ``modules``, which are rewritten in place, to a program. The programs share one set of
    weights, which begins with ``shared``, and one set of generated kernels.

    ``prepared`` holds, for each module, the records of the graph passes that have run on it, or None if they
    have not. Raises ModelError, ToolchainError.
    """
    load()
    target = target_of(options)
    records: list[list[Record]] = []
    for module, done in zip(modules, prepared or [None] * len(modules), strict=True):
        passes = (*(graph_passes(options) if done is None else ()), *kernel_passes(target, options))
        records.append([*(done or ()), *run_passes(module, passes, options, observe)])
        refuse_unknown_ranks(module.main)
    return generate_code(modules, records, options, observe, shared)


def generate_code(
    modules: Sequence[Module],
    records: Sequence[Sequence[Record]],
    options: Options,
    observe: Observer = lambda name, product: None,
    shared: Weights | None = None,
) -> list[Compilation]:
    """The code generation of :func:`compile_modules`, for modules on which all passes have run; ``records``
    are what these recorded.
    """
    target, generated = target_of(options), GeneratedKernels()
    selections, selected = _select(modules, target, generated, options, observe)
    records = [[*before, *made] for before, made in zip(records, selected, strict=True)]
    sources = sources_of(generated, target, options.debug)
    compiler = target.compiler(options)
    # the C compiler runs in processes of its own while weights are packed here
    call = partial(compile_sources, sources, generated, compiler)
    with BackgroundTask(call, compiler.stop) as kernels:
        weights, ranges = pack_read_constants(modules, selections, shared)
        budget = Budget.of(options, len(weights.data))
        lowered = [
            lower_within(budget, m, s.steps, constants, target.machine, options.streams)
            for m, s, constants in zip(modules, selections, ranges, strict=True)
        ]
        budget.raise_if_exceeded()
        for each in lowered:
            observe("lower", each)
        observe("emit", sources)
        objects = kernels.result()
    observe("kernels", objects)
    library = library_digest(target.library) if target.library else ""
    compiled = []
    for module, selection, program, done in zip(modules, selections, lowered, records, strict=True):
        code = {
            target.name: TargetCode(target.name, StoredTasks.of(program.tasks), objects, sources, library)
        }
        report = compile_report(done, selection.steps)
        compiled.append(Compilation(module, program_of(module, code), report, weights, generated, done))
    return compiled


def _select(
    modules: Sequence[Module],
    target: Target,
    generated: GeneratedKernels,
    options: Options,
    observe: Observer,
) -> tuple[list[Selection], list[tuple[Record, Record]]]:
    """Select kernels for ``modules`` and combine them into bands. Kernels that the library lacks are added to
    ``generated``. Returns the selections, and records of both stages.
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
    record.did("kernels behind others", len(selection.steps) - len(steps))
    return replace(selection, steps=steps), record
