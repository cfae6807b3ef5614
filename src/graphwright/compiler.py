"""The whole compiler on one page: a module of graphs in, a package out.

graph passes -> decompose -> fuse -> select kernels -> lower -> generate and compile C -> package
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from graphwright.config import Options
from graphwright.fusion.fuse import Fuse
from graphwright.ir.constant import Constant
from graphwright.ir.deferred import Deferred
from graphwright.ir.graph import Array, Graph, Module, Node, Value
from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.loops.text import print_kernel
from graphwright.ir.text import print_module
from graphwright.kernels.c.support import has_code
from graphwright.kernels.cache import KernelCache
from graphwright.kernels.candidates.registry import (
    GENERATED,
    GeneratedKernels,
    candidates_of,
    contraction_of,
    load,
)
from graphwright.kernels.emit_c import emit_file, phases
from graphwright.kernels.launch import Step
from graphwright.kernels.library.isa import ISAS, Isa
from graphwright.kernels.select import select_kernels
from graphwright.kernels.toolchain import find_toolchain
from graphwright.layout.assign import AssignLayouts
from graphwright.lower.lower import lower, refuse_unknown_ranks
from graphwright.lower.tasks import Program
from graphwright.memory.storage import all_steps, step_values
from graphwright.package.package import Package, Target, TensorSpec
from graphwright.package.weights import Weights, pack_weights
from graphwright.passes.base import Record
from graphwright.passes.cse import CommonSubexpressions
from graphwright.passes.dead_code import DeadCode
from graphwright.passes.decompose import Decompose
from graphwright.passes.manager import PassManager, Stage
from graphwright.passes.pipeline import GRAPH_PASSES, SHAPES
from graphwright.report import compile_report
from graphwright.runtime.devices.target import library_digest

SHAPE_STAGES = (SHAPES,)
"""What shows whether all ranks can be known without a feed."""

Observer = Callable[[str, object], None]
"""Called after each stage with its name and its product: the module, the kernels, the program."""


@dataclass
class Compilation:
    """Everything that one compilation made, for those who want to look."""

    module: Module
    package: Package
    program: Program
    kernels: GeneratedKernels
    records: list[Record]
    seconds: dict[str, float] = field(default_factory=dict)


def has_kernel(node: Node) -> bool:
    """Whether a node stays as it is: a kernel of its own, or an expression that fusion puts into one."""
    return bool(candidates_of(node)) or contraction_of(node.op) is not None or node.op.has_expression()


def graph_stages(isa: Isa) -> tuple[Stage, ...]:
    """From what a frontend imports to the graph that kernels are selected for."""
    return (
        *GRAPH_PASSES,
        Decompose(has_kernel),
        SHAPES,
        CommonSubexpressions(),
        DeadCode(),
        Fuse(has_code),
        AssignLayouts(isa.lanes),
    )


def compile_module(
    module: Module,
    options: Options,
    observe: Observer = lambda name, product: None,
    shared: Weights | None = None,
) -> Compilation:
    """Compile the entry of ``module``, which is changed. Raises ModelError, ToolchainError.

    The weights begin with those of ``shared``, which what was compiled with them can read there as well.
    """
    load()
    clock = _Clock()
    isa = ISAS[options.isa]
    manager = PassManager(graph_stages(isa), options.verify, lambda m, record: observe(record.name, m))
    manager.run(module)
    refuse_unknown_ranks(module.main)
    clock.lap("passes")
    selection = select_kernels(module, module.main, isa, options.numerics)
    observe("select", selection)
    clock.lap("select")
    sources = _sources(selection.generated, isa)
    with ThreadPoolExecutor(1) as beside:  # compilers are other processes: they run while weights are packed
        compiled = beside.submit(_objects, sources, isa, options)
        weights, spare, places = _weights(module, module.main, selection.steps, shared)
        program = lower(module.main, selection.steps, module.symbols, places, streams=options.streams)
        observe("lower", program)
        clock.lap("lower")
        observe("sources", sources)
        objects = compiled.result()
    observe("kernels", objects)
    clock.lap("kernels")
    target = Target(isa.name, program, objects, sources, library_digest(isa.name))
    report = compile_report(manager.records, selection.steps)
    package = package_module(module, options, weights)
    package = replace(package, targets={isa.name: target}, report=report, spare=partial(pack_weights, spare))
    return Compilation(module, package, program, selection.generated, manager.records, clock.seconds)


def package_module(module: Module, options: Options, weights: Weights | None = None) -> Package:
    """A package of ``module`` as it is, without a target; of its constants unless ``weights`` are given."""
    return Package(
        graph=print_module(module, constants="short"),
        weights=weights or pack_weights({ref.digest: module.constants[ref] for ref in module.constants}),
        targets={},
        inputs=tuple(_spec(v, v.name) for v in module.main.inputs),
        outputs=tuple(map(_spec, module.main.outputs, module.main.output_names)),
        constraints=tuple(f"{c} (node {c.node})" for c in module.symbols.constraints),
        metadata=dict(module.metadata),
        options=options.key(),
    )


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage], self._last = now - self._last, now


def _spec(value: Value, name: str) -> TensorSpec:
    shape = value.type.shape
    dims = None if shape is None else tuple(d if isinstance(d, int) else str(d) for d in shape)
    return TensorSpec(name, value.type.dtype, dims)


def _weights(
    module: Module, graph: Graph, steps: tuple[Step, ...], shared: Weights | None
) -> tuple[Weights, dict[str, Array | Deferred], dict[Value, tuple[int, int]]]:
    """The constants that the steps read, each content once, behind ``shared``; those that the graph has
    beside them; and where those of the steps lie.
    """
    used = {
        value: value.producer.op.value
        for value in _read_values(graph, steps)
        if value.producer is not None and isinstance(value.producer.op, Constant)
    }
    own = {ref.digest: module.constants.held(ref) for ref in used.values()}
    weights = pack_weights(shared.arrays | own if shared else own)
    DeadCode().run(module, Record("dead_code"))  # constants that were packed are read no more
    spare: dict[str, Array | Deferred] = {}
    for ref in module.constants:
        if ref.digest in weights.tensors:
            module.constants.adopt(ref.digest, weights.arrays[ref.digest])
        else:
            spare[ref.digest] = module.constants.held(ref)
    tensors = {value: weights.tensors[ref.digest] for value, ref in used.items()}
    return weights, spare, {value: (tensor.start, tensor.size) for value, tensor in tensors.items()}


def _read_values(graph: Graph, steps: tuple[Step, ...]) -> list[Value]:
    values = [v for step in all_steps(steps) for v in step_values(step)]
    values += [v for step in all_steps(steps) for region in step.node.regions for v in region.outputs]
    return [*values, *graph.outputs]


UNIT_TEXT = 2000
"""Characters of loop IR that make a translation unit worth a compiler of its own: about 0.2 s of its time."""
MOST_UNITS = 16


def _sources(generated: GeneratedKernels, isa: Isa) -> dict[str, str]:
    """The model's own kernels as files: C, and the loops that it was made from."""
    files: dict[str, str] = {}
    for name, unit in _units(generated.kernels()).items():
        files[f"{name}.c"] = emit_file([(kernel, comment) for kernel, comment, _ in unit], isa)
        files[f"{name}.loops"] = "\n".join(text for _, _, text in unit)
    return files


def _units(kernels: list[tuple[Kernel, str]]) -> dict[str, list[tuple[Kernel, str, str]]]:
    """Kernels, comments and loops by translation unit: units of about the same size, whatever the machine.

    The largest kernel that is left goes where least is so far (Graham, 1969).
    """
    texts = ["\n".join(map(print_kernel, phases(kernel))) for kernel, _ in kernels]
    count = min(-(-sum(map(len, texts)) // UNIT_TEXT), MOST_UNITS, len(kernels))
    if not count:
        return {}
    members: list[list[int]] = [[] for _ in range(count)]
    sizes = [0] * count
    for number in sorted(range(len(kernels)), key=lambda k: -len(texts[k])):
        unit = sizes.index(min(sizes))
        members[unit].append(number)
        sizes[unit] += len(texts[number])
    names = [GENERATED] if count == 1 else [f"{GENERATED}_{unit}" for unit in range(count)]
    return {
        name: [(*kernels[k], texts[k]) for k in sorted(numbers)]
        for name, numbers in zip(names, members, strict=True)
    }


def _objects(sources: dict[str, str], isa: Isa, options: Options) -> dict[str, bytes]:
    """Shared objects of the C files among ``sources``, by name without ending."""
    files = {name.removesuffix(".c"): text for name, text in sources.items() if name.endswith(".c")}
    if not files:
        return {}
    objects = KernelCache(options).compile(list(files.values()), isa, find_toolchain(options))
    return dict(zip(files, objects, strict=True))
