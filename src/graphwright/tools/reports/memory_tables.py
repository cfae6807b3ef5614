"""The memory tables of ``graphwright inspect``: the plan of one run, and the memory that the operating system
counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from graphwright.config import Options, to_environment
from graphwright.errors import FeedError
from graphwright.executable.specs import TensorSpec
from graphwright.ir.sizes import SizeRange
from graphwright.package.package import Package
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.feeds.input_shapes import UNKNOWN_SIZE
from graphwright.runtime.memory_use import Memory
from graphwright.runtime.model import Model
from graphwright.support.message_text import counted
from graphwright.support.units import bytes_text
from graphwright.tools.arguments import Sizes
from graphwright.tools.console import say, table
from graphwright.tools.feeds import input_sizes, make_feeds
from graphwright.tools.measuring.footprint import measure

_UNSIZED = "memory: depends on dynamic dimensions; give --shape for each input"


def is_sized(specs: Sequence[TensorSpec], sizes: Sizes) -> bool:
    """Whether ``sizes`` have all dynamic dimensions of the inputs. Raises FeedError if they conflict with the
    inputs.
    """
    try:
        input_sizes(specs, sizes)
    except FeedError as error:
        if any(each.code != UNKNOWN_SIZE for each in error.diagnostics):
            raise
        return False
    return True


def show_memory(model: Model, sizes: Sizes, spans: Mapping[str, SizeRange], threads: int) -> None:
    """Shows the arena and live bytes of a run with ``sizes``, or with the smallest and the largest sizes in
    ``spans``.
    """
    varies = not sizes or any(isinstance(size, SizeRange) for shape in sizes.values() for size in shape)
    if isinstance(model.executor, Cpu) and varies and spans:
        _show_extremes(model, spans, threads)
        return
    if not is_sized(model.entry.inputs, sizes):
        say(_UNSIZED)
        return
    shapes = input_sizes(model.entry.inputs, sizes)
    used = model.memory(shapes, threads=threads)
    if not used.is_known:
        say("memory: depends on the sizes of a run; the subgraphs share one arena")
        return
    say(f"memory for {feed_shapes_text(shapes)}")
    table(
        [
            ["arena", bytes_text(used.arena)],
            ["peak of live bytes", bytes_text(used.live)],
            ["arena / live", f"{used.arena / used.live:.3f}" if used.live else "1.000"],
        ]
    )


def feed_shapes_text(shapes: Mapping[str, Sequence[int]]) -> str:
    """``x: [1, 3, 224, 224]``, for each input."""
    return ", ".join(f"{name}: {list(shape)}" for name, shape in shapes.items())


def totals(used: Memory, measured: int | None = None) -> list[tuple[str, int, str]]:
    """The kinds of memory, each with its bytes and a description. ``measured`` is the peak of a process in
    bytes.
    """
    rows = [
        ("weights", used.weights, "as the model has them"),
        ("packed", used.packed, "weights packed for the kernels"),
        ("package", used.package, "texts, tasks and kernels, and the copy of the file that holds them"),
    ]
    if used.states:
        rows.append(("states", used.states, "kept from run to run"))
    besides = "in addition to graphwright and NumPy"
    if all(program.timeline is None for program in used.programs):
        rows.append(("predicted", used.process, f"of a process that loads the model, {besides}"))
    else:
        least = "" if used.is_known else "at least, as not all sizes are known, "
        merit = f"; arena / live bytes: {used.arena / used.live:.3f}" if used.live else ""
        rows += [
            ("arena", used.arena_held, f"{used.arena} bytes in whole pages{merit}"),
            ("  scratch in it", used.scratch, f"per thread, at most; {counted(used.threads, 'thread')}"),
            ("plan", used.plans, f"for one set of shapes; at most {used.plan_cache} are kept"),
            ("outputs", used.outputs, "new arrays of a run"),
            ("predicted peak", used.process, f"{least}of a process, {besides}"),
        ]
    if measured is not None:
        off = f"the prediction is {100 * (used.process / measured - 1):+.1f} % off" if measured else ""
        rows.append(("measured peak", measured, off))
    return rows


def _show_extremes(model: Model, spans: Mapping[str, SizeRange], threads: int) -> None:
    """Shows the memory of the smallest and of the largest run, if all sizes have bounds."""
    bounded = all(span.high is not None for span in spans.values())
    least = {dim: span.smallest for dim, span in spans.items()}
    most = {dim: span.largest or 0 for dim, span in spans.items()}
    rows, inputs = [], model.entry.inputs
    for title, sizes in (("least", least), ("most", most)) if bounded else ():
        shapes = {
            s.name: [dim if isinstance(dim, int) else sizes[dim] for dim in s.shape or ()] for s in inputs
        }
        try:
            used = model.memory(shapes, threads=threads)
        except FeedError:
            continue  # sizes that violate a constraint together
        rows.append([title, feed_shapes_text(shapes), bytes_text(used.arena), bytes_text(used.live)])
    if not rows:
        say(_UNSIZED)
        return
    say("memory at the smallest and at the largest sizes")
    table(rows, ["", "inputs", "arena", "peak of live bytes"])


def show_footprint(path: Path, package: Package | None, model: Model, sizes: Sizes, options: Options) -> None:
    """Shows the memory that the operating system counts while the package is loaded and run once."""
    if package is None or package.main.executable is None:
        raise typer.BadParameter(
            "--measure runs only packages with trusted kernels: compile the model, or use --trust"
        )
    feeds = make_feeds(model.inputs, None, sizes)
    rows = []
    for title, mapped in (("weights copied to memory", False), ("weights mapped from the file", True)):
        found = measure(
            "graphwright", path, feeds, options.threads, mapped=mapped, environment=to_environment(options)
        )
        shown = (found.before, found.peak, found.after, found.increase)
        rows.append([title, *map(bytes_text, shown)])
    say("anonymous memory of a process that loads it and runs it once (RssAnon, read twice a millisecond)")
    table([["", "NumPy and feeds", "peak", "after the run", "peak beyond NumPy"], *rows])
