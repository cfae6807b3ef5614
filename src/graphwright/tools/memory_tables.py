"""What ``graphwright inspect`` shows of memory: what one run plans, and what the operating system counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import typer

from graphwright import _native
from graphwright.config import Options, to_environment
from graphwright.errors import FeedError
from graphwright.executable.nodes import HostProgram
from graphwright.executable.specs import TensorSpec
from graphwright.ir.sizes import Dim
from graphwright.lower.tasks import Storage, TaskGraph
from graphwright.memory.checker import ALIGNMENT
from graphwright.memory.liveness import live_bytes
from graphwright.package.package import Package
from graphwright.runtime.cpu import Cpu
from graphwright.runtime.model import Model
from graphwright.tools.arguments import Sizes
from graphwright.tools.console import bytes_text, say, table
from graphwright.tools.feeds import input_sizes, make_feeds
from graphwright.tools.footprint import measure

_UNSIZED = "memory: depends on open sizes; give --shape for each input"


def is_sized(specs: Sequence[TensorSpec], sizes: Sizes) -> bool:
    """Whether ``sizes`` say all that the inputs leave open."""
    try:
        input_sizes(specs, sizes)
    except FeedError:
        return False
    return True


def show_memory(model: Model, sizes: Sizes, spans: Mapping[str, Dim], threads: int) -> None:
    """Show the arena and live bytes of one run: of ``sizes``, or of the least and the most in ``spans``."""
    if isinstance(model.entry.executable, HostProgram):
        say("memory: depends on the sizes of a run; the subgraphs share one arena")
        return
    varies = not sizes or any(isinstance(size, Dim) for shape in sizes.values() for size in shape)
    if isinstance(model.executor, Cpu) and varies and spans:
        _show_extremes(model, spans, threads)
        return
    if not isinstance(model.executor, Cpu) or not is_sized(model.entry.inputs, sizes):
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


def show_footprint(path: Path, package: Package | None, model: Model, sizes: Sizes, options: Options) -> None:
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
