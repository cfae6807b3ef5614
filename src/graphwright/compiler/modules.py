"""Modules that one program runs each: graph passes, kernels, tasks, and the C that is compiled for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from graphwright.compiler.generated import compile_sources, sources_of
from graphwright.compiler.memory_budget import Budget, lower_within
from graphwright.compiler.pipeline import graph_passes, kernel_passes
from graphwright.config import Options
from graphwright.cost.choices import Choices, choices_of
from graphwright.executable.nodes import Program
from graphwright.executable.specs import TensorSpec
from graphwright.executable.stored import StoredTasks
from graphwright.executable.target_code import TargetCode
from graphwright.fusion.rules.bands import BANDS
from graphwright.fusion.rules.switches import rule_set
from graphwright.ir.constant import constant_of
from graphwright.ir.deferred import Deferred
from graphwright.ir.graph import Array, Graph, Module, Role, Value
from graphwright.ir.op import ConstRef
from graphwright.ir.symbols import Constraint
from graphwright.kernels.candidates.generated import GeneratedKernels
from graphwright.kernels.candidates.registry import load
from graphwright.kernels.launch import Host, Run, Step
from graphwright.kernels.select import Selection, select_kernels
from graphwright.lower.lower import refuse_unknown_ranks
from graphwright.memory.steps import all_steps, step_values
from graphwright.package.weights import Weights, pack_weights
from graphwright.passes.after_stage import AfterStage
from graphwright.passes.base import Record
from graphwright.passes.dead_code import DeadCode
from graphwright.passes.manager import PassManager, Scheduled
from graphwright.records import dataclass, replace
from graphwright.report import compile_report
from graphwright.runtime.target import library_digest
from graphwright.schedule.bands import with_bands
from graphwright.support.background import BackgroundTask
from graphwright.targets.base import Target
from graphwright.targets.cpu.isa import ISAS
from graphwright.targets.registry import target_of

Observer = Callable[[str, object], None]
"""Called after each pass and each stage with its name and its product: the module, the kernels, the program.
The product of a stage of passes is an :class:`AfterStage`."""


@dataclass(frozen=True)
class Compilation:
    """What was made of one module, which is now what was compiled."""

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
    """Run ``passes`` on ``module``; what each of them did."""
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
    """A program of each of ``modules``, which are changed, on one set of weights and of generated kernels.

    The weights begin with those of ``shared``. ``prepared``, for each module: what the graph passes recorded
    that it has been through; None where they are still to run. Raises ModelError, ToolchainError.
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
    """As :func:`compile_modules`, of modules that have been through all passes, which left ``records``."""
    target = target_of(options)
    generated, choices = GeneratedKernels(), choices_of(options)
    selections = [
        select_kernels(module, module.main, target, options.numerics, generated, choices)
        for module in modules
    ]
    for selection in selections:
        observe("select", selection)
    chosen = [_selected(selection) for selection in selections]
    banded = [_in_bands(m, s, target, options, choices) for m, s in zip(modules, selections, strict=True)]
    selections = [selection for selection, _ in banded]
    records = [
        [*noted, record, bands] for noted, record, (_, bands) in zip(records, chosen, banded, strict=True)
    ]
    for selection in selections:
        observe("bands", selection)
    sources = sources_of(generated, target, options.debug)
    compiler = target.compiler(options)
    # compilers are other processes: they run while weights are packed
    call = partial(compile_sources, sources, generated, compiler)
    with BackgroundTask(call, compiler.stop) as compiled:
        weights, places = _weights(modules, selections, shared)
        budget = Budget.of(options, len(weights.data))
        lowered = [
            lower_within(budget, m, s.steps, places_of, target.machine, options.streams)
            for m, s, places_of in zip(modules, selections, places, strict=True)
        ]
        budget.raise_if_exceeded()
        for each in lowered:
            observe("lower", each)
        observe("emit", sources)
        objects = compiled.result()
    observe("kernels", objects)
    library = library_digest(target.library) if target.library else ""
    made = []
    for module, selection, made_of, noted in zip(modules, selections, lowered, records, strict=True):
        code = TargetCode(target.name, StoredTasks.of(made_of.tasks), objects, sources, library)
        report = compile_report(noted, selection.steps)
        made.append(
            Compilation(module, program_of(module, {target.name: code}), report, weights, generated, noted)
        )
    return made


def _selected(selection: Selection) -> Record:
    """What was chosen for the nodes of one module."""
    done = {Run: "nodes done by kernels", Host: "nodes run on the host"}
    kinds = (done.get(type(step.action)) for step in all_steps(selection.steps))
    counts = Counter(kind for kind in kinds if kind is not None)
    return Record("select", counts, notes=list(selection.chosen), stage="select")


def program_of(
    module: Module, targets: Mapping[str, TargetCode], interpreted: Module | None = None
) -> Program:
    """The executable of ``module`` alone."""
    specs = input_specs(module), output_specs(module)
    return Program(*specs, guard_texts(module), targets, states(module), interpreted)


def states(module: Module) -> tuple[int, ...]:
    """The inputs of the entry of ``module`` that a run updates in place."""
    return tuple(module.updates().values())


def starts(module: Module) -> dict[str, str]:
    """The states of ``module`` that do not start as zeros, by name, and the digests of what they start as."""
    inputs = module.main.inputs
    return {inputs[number].name: ref.digest for number, ref in module.starts().items()}


def input_specs(module: Module) -> tuple[TensorSpec, ...]:
    """What the entry of ``module`` takes of its users: not the sizes that choose a gear."""
    signature = module.signatures.get("main")
    hidden = () if signature is None else [k for k, role in enumerate(signature.roles) if role is Role.SIZES]
    return tuple(spec_of(value, value.name) for value in module.main.inputs if value.index not in hidden)


def output_specs(module: Module) -> tuple[TensorSpec, ...]:
    """What the entry of ``module`` gives: not the next values of states."""
    specs, updates = map(spec_of, module.main.outputs, module.main.output_names), module.updates()
    return tuple(spec for position, spec in enumerate(specs) if position not in updates)


def guard_texts(module: Module) -> tuple[str, ...]:
    """What ``module`` assumes of sizes."""
    return constraint_texts(module.symbols.guards)


def constraint_texts(constraints: Iterable[Constraint]) -> tuple[str, ...]:
    """What packages hold: each with the node that needs it."""
    return tuple(f"{each} (node {each.node})" for each in constraints)


def spec_of(value: Value, name: str) -> TensorSpec:
    """``value`` as users see it."""
    shape = value.type.shape
    dims = None if shape is None else tuple(d if isinstance(d, int) else str(d) for d in shape)
    return TensorSpec(name, value.type.dtype, dims)


Places = dict[Value, tuple[int, int]]
"""Where the constants that a graph's steps read lie in the weights: the first byte, and how many."""


def _in_bands(
    module: Module, selection: Selection, target: Target, options: Options, choices: Choices
) -> tuple[Selection, Record]:
    """``selection`` with chains of library kernels that run band by band, and what was decided about them."""
    record = Record("bands", stage="bands")
    if not target.library or BANDS.name in rule_set(options).off:
        return selection, record
    isa, generated = ISAS[target.library], selection.generated
    steps, record.notes[:] = with_bands(
        module.main, selection.steps, module.symbols, generated, isa.on(target.machine), choices
    )
    record.did("kernels behind others", len(selection.steps) - len(steps))
    return replace(selection, steps=steps), record


def _weights(
    modules: Sequence[Module], selections: Sequence[Selection], shared: Weights | None
) -> tuple[Weights, list[Places]]:
    """The constants that the steps of all modules read, each content once, behind ``shared``."""
    used = [_read_constants(m.main, s.steps) for m, s in zip(modules, selections, strict=True)]
    weights = pack_weights(_taken(modules, used, shared), shared)  # alone holds what it packs
    packings = dict(shared.packings) if shared else {}
    for module in modules:
        packings |= module.constants.packings
    weights = replace(weights, packings={n: packings[n] for n in weights.tensors if n in packings})
    return weights, [_places(m, refs, weights) for m, refs in zip(modules, used, strict=True)]


def _taken(
    modules: Sequence[Module], used: Sequence[Mapping[Value, ConstRef]], shared: Weights | None
) -> dict[str, Array | Deferred]:
    """The constants to be packed, which the modules lack from here on; what they need no more is dropped."""
    taken: dict[str, Array | Deferred] = {}
    there = shared.tensors if shared else {}
    for module, refs in zip(modules, used, strict=True):
        for ref in dict.fromkeys(refs.values()):
            held = module.constants.hand_over(ref)
            if ref.digest not in there:
                taken.setdefault(ref.digest, held)
        DeadCode().run(module, Record("dead_code"))
        module.constants.release()
    return taken


def _places(module: Module, used: Mapping[Value, ConstRef], weights: Weights) -> Places:
    """Let ``module`` hold what was packed where it was packed."""
    for ref in module.constants:
        if ref.digest in weights.tensors:
            module.constants.adopt(ref.digest, weights.arrays[ref.digest])
    tensors = {value: weights.tensors[ref.digest] for value, ref in used.items()}
    return {value: (tensor.start, tensor.size) for value, tensor in tensors.items()}


def _read_constants(graph: Graph, steps: tuple[Step, ...]) -> dict[Value, ConstRef]:
    return {
        value: constant.value
        for value in _read_values(graph, steps)
        if (constant := constant_of(value)) is not None
    }


def _read_values(graph: Graph, steps: tuple[Step, ...]) -> list[Value]:
    values = [v for step in all_steps(steps) for v in step_values(step)]
    values += [v for step in all_steps(steps) for region in step.node.regions for v in region.outputs]
    return [*values, *graph.outputs]
