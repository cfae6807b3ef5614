"""The option ``memory_budget``: reduces the peak memory of a program by reordering tasks, then by
rematerialization. If the peak still exceeds the budget, an error shows the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from graphwright import _native
from graphwright.config import Options
from graphwright.cost.machine import Machine
from graphwright.errors import Collector, Diagnostic, ModelError
from graphwright.executable.nodes import SIZE_INPUT
from graphwright.ir.graph import Module
from graphwright.ir.sizes import scaled_symbol
from graphwright.ir.symbols import Dim, Range, evaluate, names_in
from graphwright.kernels.launch import SelectedNode
from graphwright.low_ir.evaluate import evaluate_shapes
from graphwright.low_ir.tasks import TaskGraph
from graphwright.lower.lower import Lowered, lower
from graphwright.memory.planner import plan_memory
from graphwright.memory.recompute import recompute, work_of
from graphwright.memory.step_order import least_memory_steps
from graphwright.memory.storage import Weights, assign_storage
from graphwright.memory.timeline import PlacedBuffer, Timeline, planned_sizes, timeline
from graphwright.records import dataclass
from graphwright.support.message_text import counted
from graphwright.support.units import bytes_text

WORK_SHARE: Final = 8
"""Rematerialization may add at most 1/WORK_SHARE of the predicted time."""
MOST_NAMED: Final = 5
"""The most live buffers that an error names."""


@dataclass(frozen=True)
class Budget:
    """The most bytes that weights and arena may take together; None for no limit. ``faults`` collects all
    programs that exceed it.
    """

    most: int | None
    weights: int
    threads: int
    faults: Collector

    @staticmethod
    def of(options: Options, weights: int) -> Budget:
        """The budget that ``options`` set for a model with ``weights`` bytes of weights."""
        threads = options.threads or _native.threads()
        return Budget(options.memory_budget or None, weights, threads, Collector(ModelError))

    def holds(self, arena: int) -> bool:
        """Whether weights and an arena of this size fit in the budget."""
        return self.most is None or self.weights + arena <= self.most

    def raise_if_exceeded(self) -> None:
        """Raises ModelError with all programs that exceed the budget."""
        self.faults.raise_if_any()


def lower_within_budget(
    budget: Budget,
    module: Module,
    steps: Sequence[SelectedNode],
    weights: Weights,
    machine: Machine,
    streams: int,
) -> Lowered:
    """Lowers ``module`` to tasks. If they exceed ``budget``, tasks are reordered, then values rematerialized,
    which duplicates their nodes in ``module``. A program that still exceeds it becomes one of the budget's
    faults.
    """
    program = lower(module, steps, weights, machine, streams)
    if budget.most is None:
        return program
    sizes = _largest_sizes(module)
    if missing := [name for name, size in sizes.items() if size is None]:
        budget.faults.extend([_unbounded(name, module) for name in missing])
        return program
    largest = {name: size for name, size in sizes.items() if size is not None}
    first = least = _planned(program.tasks, module, largest, budget.threads)
    if budget.holds(first.arena):
        return program
    for tried in _tighter(module, steps, weights, machine, largest) if streams == 1 else ():
        line = _planned(tried.tasks, module, largest, budget.threads)
        if line.arena < least.arena:
            program, least = tried, line
        if budget.holds(line.arena):
            return tried
    budget.faults.extend([_too_much(budget, first, least)])
    return program


def _tighter(
    module: Module,
    steps: Sequence[SelectedNode],
    weights: Weights,
    machine: Machine,
    largest: Mapping[str, int],
) -> Iterator[Lowered]:
    """Lowerings with less and less peak memory: reordered, then with one more rematerialized value each."""

    def bytes_of(size: Dim) -> int:
        return max(0, evaluate(size, largest))

    def lowered() -> Lowered:
        return lower(module, steps, weights, machine, order=lambda same, _: same)

    steps = least_memory_steps(steps, assign_storage(module, steps, weights), bytes_of)
    yield lowered()
    left = work_of(steps, bytes_of) // WORK_SHARE
    while True:
        again = recompute(module.main, steps, assign_storage(module, steps, weights), bytes_of, left)
        if again is None:
            return
        steps, left = again[0], left - again[1]
        yield lowered()


def _largest_sizes(module: Module) -> Mapping[str, int | None]:
    """The upper bound of each symbolic input size, by its range and by what the program requires of it; None
    if it has none.
    """
    dims, table = [dim for value in module.main.inputs for dim in value.type.dims], module.symbols
    highs: dict[str, list[int | None]] = {name: [] for dim in dims for name in sorted(names_in(dim))}
    for name, known in highs.items():
        known.append(table.ranges.get(name, Range()).high)
    for each in (*table.constraints, *table.guards):
        if each.relation == "<=" and isinstance(each.right, int) and str(each.left) in highs:
            highs[str(each.left)].append(each.right)
    return {name: min((k for k in known if k is not None), default=None) for name, known in highs.items()}


def _planned(program: TaskGraph, module: Module, largest: Mapping[str, int], threads: int) -> Timeline:
    """The memory timeline at the largest sizes."""
    inputs = [[evaluate(dim, largest) for dim in value.type.dims] for value in module.main.inputs]
    registers = evaluate_shapes(program.shape, inputs)
    sizes = [max(0, registers[buffer.size]) for buffer in program.buffers]
    planned = planned_sizes(program, sizes, threads)
    counted = [planned.get(number, 0) for number in range(len(sizes))]
    offsets, arena = plan_memory(counted, [buffer.conflicts for buffer in program.buffers], bool(largest))
    return timeline(program, sizes, offsets, arena, threads)


def _unbounded(name: str, module: Module) -> Diagnostic:
    axes = [(value, axis) for value in module.main.inputs for axis, dim in enumerate(value.type.dims)]
    value, axis = next((v, axis) for v, axis in axes if name in names_in(v.type.dims[axis]))
    if value.name.startswith(SIZE_INPUT):
        message = f"size {name} depends on the values of a run, so the memory budget cannot be guaranteed"
        return Diagnostic("memory-budget", message, hint="drop memory_budget")
    where = f"size {name} (axis {axis} of {value.name!r})"
    if name in module.symbols.host_sizes:
        message = f"{where} depends on the values of a run, so the memory budget cannot be guaranteed"
        hint = "drop memory_budget, or give ranges of the inputs' sizes if these bound it"
        return Diagnostic("memory-budget", message, hint=hint)
    message = f"{where} has no upper bound, so the memory budget cannot be guaranteed"
    sizes = ", ".join(_bounded(dim) if k == axis else _kept(dim) for k, dim in enumerate(value.type.dims))
    hint = f"give the size or a range, as in shapes={{{value.name!r}: [{sizes}]}}"
    return Diagnostic("memory-budget", message, hint=hint)


def _bounded(dim: Dim) -> str:
    """An example of a range for an axis of size ``dim``, as text in ``shapes``."""
    scaled = None if isinstance(dim, int) else scaled_symbol(dim)
    name, scale = scaled or ("", 1)
    return f"'{name}=1..16'" if scale == 1 and name else f"'{scale}..{16 * scale}%{scale}'"


def _kept(dim: Dim) -> str:
    return str(dim) if isinstance(dim, int) else "None"


def _too_much(budget: Budget, planned: Timeline, least: Timeline) -> Diagnostic:
    """An error with the sizes, the buffers live at the peak, and remedies."""
    assert budget.most is not None
    needed = budget.weights + least.arena
    message = (
        f"weights of {_exact(budget.weights)} and an arena of {_exact(least.arena)} on "
        f"{counted(budget.threads, 'thread')} need {_exact(needed)}, more than the budget of "
        f"{_exact(budget.most)}"
    )
    if least.arena < planned.arena:
        message += f"; the arena was {_exact(planned.arena)} before tasks were reordered or rematerialized"
    task = least.tasks[least.peak] if least.tasks else ""
    live = ", ".join(map(_named, least.at_peak[:MOST_NAMED]))
    rest = len(least.at_peak) - MOST_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    hint = f"live at the peak: {live}{more}. What helps: {_remedies(budget, least)}"
    return Diagnostic("memory-budget", message, task, hint)


def _remedies(budget: Budget, least: Timeline) -> str:
    known = [f"a budget of at least {budget.weights + least.arena} bytes"]
    scratch = sum(buffer.bytes for buffer in least.at_peak if buffer.is_scratch)
    if scratch and budget.threads > 1:
        spared = scratch - scratch // budget.threads
        known.append(f"threads=1, which needs up to {_exact(spared)} less")
    known.append("smaller inputs or a smaller batch")
    if budget.most is not None and budget.weights >= budget.most:
        known.append("weights='int8' or 'int4' where the results allow it")
    return ", ".join(known)


def _exact(size: int) -> str:
    return f"{bytes_text(size)} ({size} bytes)" if size >= 1024 else f"{size} bytes"


def _named(buffer: PlacedBuffer) -> str:
    return f"{buffer.title} {bytes_text(buffer.bytes)}"
