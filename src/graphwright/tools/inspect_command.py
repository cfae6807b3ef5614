"""``graphwright inspect``."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeGuard

import typer

import graphwright.ops
from graphwright import _native
from graphwright.api import compile as compile_model
from graphwright.compiler.recompile import source_module, unpacked_module
from graphwright.config import Options, to_environment
from graphwright.errors import Diagnostic, FeedError
from graphwright.executable.nodes import (
    Dispatch,
    Executable,
    HostProgram,
    Program,
    accepts,
    buckets_of,
)
from graphwright.executable.specs import TensorSpec
from graphwright.executable.target_code import TargetCode
from graphwright.ir.graph import Module
from graphwright.ir.sizes import Dim
from graphwright.ir.text import print_module
from graphwright.ir.verify import verify as verify_module
from graphwright.loading import made
from graphwright.lower.tasks import Storage, TaskGraph
from graphwright.lower.text import print_program
from graphwright.memory.liveness import live_bytes
from graphwright.package.package import Entry, Package
from graphwright.package.read import read_package
from graphwright.package.sign import known_keys
from graphwright.passes.manager import run_passes
from graphwright.passes.unfuse import Unfuse
from graphwright.records import replace
from graphwright.report import dynamic_lines
from graphwright.runtime.cpu import Cpu
from graphwright.runtime.model import Model
from graphwright.tools.arguments import (
    Constants,
    EntryName,
    Outputs,
    Shapes,
    Sizes,
    parse_shapes,
    with_options,
)
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.console import bytes_text, say, table
from graphwright.tools.facts import (
    constraint_texts,
    guard_texts,
    has_all_plugins,
    model_facts,
    op_counts,
    size_spans,
    target_facts,
)
from graphwright.tools.feeds import input_sizes, make_feeds
from graphwright.tools.footprint import measure
from graphwright.tools.gear_arguments import (
    Batches,
    Between,
    Combine,
    Combined,
    GearShapes,
    Images,
    Others,
    parse_gears,
)
from graphwright.tools.gear_table import show_gears
from graphwright.tools.host_program_table import show_host_program
from graphwright.tools.models import is_package, open_model
from graphwright.tools.progress import Watch, stages

ALIGNMENT = 64
"""Of planned buffers, in bytes."""
_UNSIZED = "memory: depends on open sizes; give --shape for each input"
app = typer.Typer(add_completion=False)


class Level(enum.StrEnum):
    """The three IRs."""

    HIGH = "high"
    MID = "mid"
    LOW = "low"


@app.command()
@with_options
def inspect(
    model: ModelPath,
    shape: Shapes = None,
    const: Constants = None,
    outputs: Outputs = None,
    entry: EntryName = None,
    gears: GearShapes = None,
    dynamic_batch: Batches = None,
    dynamic_image: Images = None,
    combine: Combined = Combine.ZIP,
    between: Others = Between.ERROR,
    ir: Annotated[
        Level | None,
        typer.Option(
            help="Print the ops (high), the graph with fused regions (mid), or tasks and loops (low).",
            show_default=False,
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Check the digests of a package's weights as well, and verify its graph."
        ),
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Print what the compiler did, what it did not optimise, and why.")
    ] = False,
    measured: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Load a package and run it once in another process, and show that process's memory; time "
            "its gears.",
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the facts as JSON, with keys that are stable from version to version."
        ),
    ] = False,
    *,
    options: Options,
) -> None:
    """Show a model's inputs, outputs, constraints, ops, weights, tasks and memory.

    Memory is that of one run: the arena, and the peak of live bytes, which no arena can be smaller than.

    \b
    [bold]Examples[/bold]

    \b
      graphwright inspect model.om
      graphwright inspect model.om --shape x:1,3,224,224 --threads 2
      graphwright inspect model.om --ir low
      graphwright inspect model.om --report
      graphwright inspect model.om --verify
      graphwright inspect model.om --measure
      graphwright inspect model.om --json
    """
    if as_json and (ir is not None or report or measured):
        raise typer.BadParameter("--json goes with neither --ir nor --report nor --measure")
    graphwright.ops.load()
    sizes = parse_shapes(shape)
    origin = _read(model, verify, options) if is_package(model) else None
    with stages(Watch()) as observe:
        opened = open_model(
            model,
            options,
            shapes=sizes,
            constants=const,
            outputs=outputs,
            entry=entry,
            gears=parse_gears(gears, dynamic_batch, dynamic_image, combine, between),
            observe=observe,
        )
    executable = opened.entry.executable
    if isinstance(executable, Dispatch) and _is_sized(opened.entry.inputs, sizes):
        opened = _for_sizes(opened, executable, sizes, options)
    if ir is not None or report:
        say(_ir_text(opened, ir) if ir is not None else opened.report())
        return
    if as_json:
        say(json.dumps(_facts(model, origin, opened, sizes, options), indent=2))
        return
    _show_file(model, origin, verify)
    _show_interface(opened)
    _show_dynamic(opened.entry)
    spans = _show_graph(opened)
    executable = opened.entry.executable
    if executable is not None and _show_executable(opened, executable, timed=measured):
        _show_memory(opened, sizes, spans, options.threads)
    if measured and not _has_gears(executable):
        _show_footprint(model, origin, opened, sizes, options)


def _show_executable(model: Model, executable: Executable, *, timed: bool) -> bool:
    """Show the tree; whether what a run needs of memory is still to be shown."""
    if isinstance(executable, Program):
        for target in executable.targets.values():
            _show_target(target)
        return True
    if isinstance(executable, HostProgram):
        show_host_program(executable)
        return True
    if _has_gears(executable):
        show_gears(model, executable, timed=timed)
        return False
    for case in executable.cases:
        if len(executable.cases) > 1:
            say(f"program for {', '.join(f'{spec.name} {spec.type_text}' for spec in case.inputs)}")
        _show_executable(model, case, timed=timed)
    say("other shapes: compiled at the first run")
    return True


def _has_gears(executable: Executable | None) -> TypeGuard[Dispatch]:
    return bool(buckets_of(executable))


def _facts(
    path: Path, origin: Package | None, opened: Model, sizes: Sizes, options: Options
) -> dict[str, Any]:
    """What ``--json`` prints."""

    def memory() -> tuple[Mapping[str, Sequence[int]], int, int] | None:
        if not isinstance(opened.executor, Cpu) or not _is_sized(opened.entry.inputs, sizes):
            return None
        shapes = input_sizes(opened.entry.inputs, sizes)
        return shapes, *arena_and_live(opened, list(shapes.values()), options.threads)

    module = _module(opened) if has_all_plugins(opened.package) else None
    facts = model_facts(path, opened, module, memory)
    facts["file"]["trusted"] = None if origin is None else origin.trusted
    return facts


def _read(path: Path, verify: bool, options: Options) -> Package:
    """The package as it lies in the file; with ``verify``, hashed and its graph verified."""
    keys = known_keys(options)
    package = read_package(path, trust=options.trust, keys=keys, use_mmap=True, verify=verify)
    for name in package.entries if verify else ():
        verify_module(unpacked_module(package.only(name)), str(path))
    return package


def _module(model: Model) -> Module:
    """The graph of the model's entry, constants in row-major order."""
    return unpacked_module(model.alone())


def _is_sized(specs: Sequence[TensorSpec], sizes: Sizes) -> bool:
    try:
        input_sizes(specs, sizes)
    except FeedError:
        return False
    return True


def _for_sizes(model: Model, dispatch: Dispatch, sizes: Sizes, options: Options) -> Model:
    """What runs inputs of these sizes: a case of ``dispatch``, or what is compiled for them."""
    package = model.alone()
    shapes = input_sizes(package.main.inputs, sizes)
    for case in dispatch.cases:
        if accepts(case, list(shapes.values())) and not case.guards:
            entry = replace(package.main, inputs=case.inputs, outputs=case.outputs, executable=case)
            return made(package.with_main(entry), None, options)
    return compile_model(source_module(package), shapes=shapes, options=options)


# -- the IRs --------------------------------------------------------------------------------------------


def _ir_text(model: Model, level: Level) -> str:
    if level is Level.MID:
        return model.entry.graph.rstrip()
    if level is Level.HIGH:
        module = _module(model)
        run_passes(module, Unfuse(), verify_each=False)
        return print_module(module, constants="short").rstrip()
    programs = model.alone().programs()
    if not any(program.targets for program in programs):
        message = "the tasks depend on the ranks of the inputs"
        raise FeedError(Diagnostic("unknown-rank", message, hint="give --shape for every input"))
    if len(programs) == 1:
        return "\n".join(map(_target_text, programs[0].targets.values()))
    return "\n".join(
        f"// program {number}\n{_target_text(target)}"
        for number, program in enumerate(programs)
        for target in program.targets.values()
    )


def _target_text(target: TargetCode) -> str:
    loops = "\n".join(text for name, text in target.sources.items() if name.endswith(".loops"))
    return f"// tasks for {target.name}\n{print_program(target.task_graph, loops)}".rstrip()


# -- the report -----------------------------------------------------------------------------------------


def _show_file(path: Path, package: Package | None, verified: bool) -> None:
    rows = [["file", str(path)], ["size", bytes_text(path.stat().st_size)]]
    if package is not None:
        trusted = (
            "yes"
            if package.trusted
            else "no: its graph and weights were compiled again here (--trust runs its kernels)"
        )
        held = ", ".join(
            f"{isa}, whose weights are packed again when it is loaded" if isa in package.packs else isa
            for isa in package.isas()
        )
        rows += [["targets", held]] if held else []
        rows += [["trusted", trusted], *([["verified", "members, weights and graph"]] if verified else [])]
    table(rows)


def _show_interface(model: Model) -> None:
    entry = model.entry
    if len(model.entries) > 1:
        say("entries (--entry shows another)")
        table([[name, "shown below" if each is model else ""] for name, each in model.entries.items()])
    sides = (("inputs", entry.feeds), ("states", entry.states), ("outputs", entry.outputs))
    for title, specs in sides:
        if title == "states" and not specs:
            continue
        say(title)
        table([[spec.name, spec.type_text] for spec in specs])
    for title, lines in (
        ("constraints", constraint_texts(entry)),
        ("guards", guard_texts(entry)),
        ("options", [f"{name}={value}" for name, value in model.package.options.items()]),
    ):
        if lines:
            say(title)
            table([[line] for line in lines])
    if entry.metadata:
        say("metadata")
        table([[key, text] for key, text in entry.metadata.items()])


def _show_sizes(module: Module) -> dict[str, Dim]:
    """Ranges of the inputs' sizes, by the sizes' texts."""
    spans = size_spans(module)
    rows = [[dim, span.words] for dim, span in spans.items() if span != Dim()]
    if rows:
        say("sizes")
        table(rows)
    return spans


def _show_dynamic(entry: Entry) -> None:
    """Sizes and ranks that only a run tells, each with what decides it."""
    if lines := dynamic_lines(entry.report):
        say("known only at run time")
        table([[line] for line in lines])


def _show_graph(model: Model) -> dict[str, Dim]:
    """Shows what the graph holds; the ranges of the inputs' sizes."""
    spans: dict[str, Dim] = {}
    package = model.package
    if package.plugins:
        say("ops of plugins")
        table([[name, plugin] for name, plugin in sorted(package.plugins.items())])
    if not has_all_plugins(package):
        say("ops: load these plugins to see them")
    else:
        module = _module(model)
        spans = _show_sizes(module)
        _show_ops(module)
    for title, weights in (("weights", package.weights), ("weights for recompiling only", package.spare())):
        tensors = weights.tensors.values()
        if tensors or title == "weights":
            say(f"{title}: {len(tensors)} tensors, {bytes_text(sum(tensor.size for tensor in tensors))}")
    return spans


def _show_ops(module: Module) -> None:
    counts = op_counts(module)
    alone = counts["count"] - counts["fused"]
    inside = f"{counts['fused']} in {counts['fused_regions']} fused regions"
    say(f"ops: {counts['count']}, {inside}, {alone} outside")
    table([[str(count), name] for name, count in counts["by_name"].items()] or [["none"]])


def _show_target(target: TargetCode) -> None:
    found = target_facts(target)
    tasks, kernels = found["tasks"], found["kernels"]
    say(f"tasks for {target.name}: {sum(tasks.values())}, {found['shape_instructions']} shape instructions")
    table([[str(count), kind] for kind, count in tasks.items()] or [["none"]])
    say(f"kernels: {kernels['library']} of the library, {kernels['generated']} generated")
    if found["numpy_ops"]:
        say("run in NumPy, as there is no kernel")
        table([[name] for name in found["numpy_ops"]])


def _show_memory(model: Model, sizes: Sizes, spans: Mapping[str, Dim], threads: int) -> None:
    if isinstance(model.entry.executable, HostProgram):
        say("memory: depends on the sizes of a run; the subgraphs share one arena")
        return
    varies = not sizes or any(isinstance(size, Dim) for shape in sizes.values() for size in shape)
    if isinstance(model.executor, Cpu) and varies and spans:
        _show_extremes(model, spans, threads)
        return
    if not isinstance(model.executor, Cpu) or not _is_sized(model.entry.inputs, sizes):
        say(_UNSIZED)
        return
    shapes = input_sizes(model.entry.inputs, sizes)
    arena, live = arena_and_live(model, list(shapes.values()), threads)
    say(f"memory for {', '.join(f'{name}: {list(shape)}' for name, shape in shapes.items())}")
    merit = f"{arena / live:.3f}" if live else "1.000"
    table([["arena", bytes_text(arena)], ["peak of live bytes", bytes_text(live)], ["arena / live", merit]])


def _show_extremes(model: Model, spans: Mapping[str, Dim], threads: int) -> None:
    """The memory of the smallest and of the largest run, where all sizes have bounds."""
    bounded = all(span.high is not None for span in spans.values())
    least = {dim: span.smallest for dim, span in spans.items()}
    most = {dim: span.largest or 0 for dim, span in spans.items()}
    rows, inputs = [], model.entry.inputs
    for title, sizes in (("least", least), ("most", most)) if bounded else ():
        shapes = [[dim if isinstance(dim, int) else sizes[dim] for dim in s.shape or ()] for s in inputs]
        try:
            arena, live = arena_and_live(model, shapes, threads)
        except FeedError:
            continue  # sizes that do not go together
        shown = ", ".join(f"{spec.name}: {shape}" for spec, shape in zip(inputs, shapes, strict=True))
        rows.append([title, shown, bytes_text(arena), bytes_text(live)])
    if not rows:
        say(_UNSIZED)
        return
    say("memory at the smallest and at the largest sizes")
    table(rows, ["", "inputs", "arena", "peak of live bytes"])


def arena_and_live(model: Model, shapes: Sequence[Sequence[int]], threads: int) -> tuple[int, int]:
    """Bytes of the arena of one run, and the largest sum of what is live at once: no arena is smaller.

    ``threads`` of 0: those of the process. Raises TypeError for a model without one program.
    """
    if not isinstance(model.executor, Cpu):
        raise TypeError("the model is compiled when it is fed, or does not run on the CPU's kernels")
    threads = threads or _native.threads()
    plan = model.executor.plan(shapes, threads)
    program = model.executor.task_graph
    return plan["arena"], live_bytes(
        dict(_planned(program, plan["sizes"], threads)), program.tasks, program.blocks
    )


def _planned(program: TaskGraph, sizes: Sequence[int], threads: int) -> Iterator[tuple[int, int]]:
    """Buffers in the arena with their bytes there; scratch is there once for each thread."""
    for number, (buffer, size) in enumerate(zip(program.buffers, sizes, strict=True)):
        if buffer.storage in (Storage.ARENA, Storage.SCRATCH):
            copies = threads if buffer.storage is Storage.SCRATCH else 1
            yield number, copies * -(-size // ALIGNMENT) * ALIGNMENT


def _show_footprint(
    path: Path, package: Package | None, model: Model, sizes: Sizes, options: Options
) -> None:
    """What the operating system counts while the package is loaded and run once."""
    if package is None or package.main.executable is None:
        raise typer.BadParameter(
            "--measure runs packages whose kernels are trusted: compile, or give --trust"
        )
    feeds = make_feeds(model.inputs, None, sizes)
    rows = []
    for title, mapped in (("weights copied to memory", False), ("weights mapped from the file", True)):
        found = measure(
            "graphwright", path, feeds, options.threads, mapped=mapped, environment=to_environment(options)
        )
        shown = (found.before, found.peak, found.after, found.taken)
        rows.append([title, *map(bytes_text, shown)])
    say("anonymous memory of a process that loads it and runs it once (RssAnon, read twice a millisecond)")
    table([["", "NumPy and feeds", "peak", "after the run", "peak beyond NumPy"], *rows])
