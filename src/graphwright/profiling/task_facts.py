"""Facts about tasks other than measured times: names, arithmetic, memory traffic, and the roofline bound."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from graphwright.config import Options
from graphwright.cost.calibration import machine_of
from graphwright.cost.machine import MACHINES, Machine
from graphwright.cost.predict import stream_ns
from graphwright.low_ir.tasks import Block
from graphwright.option_files.rate_files import resolved
from graphwright.records import dataclass
from graphwright.runtime.events.recording import Events, Plan
from graphwright.runtime.events.task_calls import kernel_name

UNNAMED: Final = "(not named)"
"""The name of tasks that do not come from a node of the model."""


@dataclass(frozen=True)
class TaskFacts:
    """Facts about one task in one plan. ``operations`` counts the multiplications and additions of matrix
    products and convolutions; ``read`` and ``written`` are bytes; ``roofline_ns`` is the least time for both
    at the rates of the machine. ``after`` are the tasks that it waits for, ``inside`` the tasks of its
    branches or its loop.
    """

    number: int
    kernel: str
    source: str
    op: str
    operations: int = 0
    read: int = 0
    written: int = 0
    roofline_ns: float = 0.0
    after: tuple[int, ...] = ()
    inside: tuple[int, ...] = ()
    units: int = 1
    is_inner: bool = False
    """Whether it is inside a branch or a loop."""


def facts_of(events: Events) -> dict[int, list[TaskFacts]]:
    """The facts about the tasks of each plan, by the serial number of the plan."""
    return {serial: list(_plan_facts(plan)) for serial, plan in events.plans.items()}


def _plan_facts(plan: Plan) -> Iterator[TaskFacts]:
    numbers, target = plan.numbers, plan.target
    if target is None:
        for number, units in enumerate(numbers["grids"]):
            moved = numbers["read"][number], numbers["written"][number]
            yield TaskFacts(number, f"task {number}", UNNAMED, UNNAMED, 0, *moved, units=units)
        return
    graph, machine = target.task_graph, machine_at_hand(target.name)
    registers = numbers["registers"]
    for number, task in enumerate(graph.tasks):
        operations = registers[task.operations] if 0 <= task.operations < len(registers) else 0
        read, written = numbers["read"][number], numbers["written"][number]
        least = 0.0
        if machine is not None:
            least = roofline_ns(operations, read + written, machine, numbers["threads"])
        yield TaskFacts(
            number,
            kernel_name(graph, number),
            task.name or UNNAMED,
            task.ops or task.kind.name.lower(),
            operations,
            read,
            written,
            least,
            task.after,
            tuple(k for block in task.blocks for k in _tasks_of(graph.blocks[block])),
            numbers["grids"][number],
            number >= graph.blocks[0].count,
        )


def _tasks_of(block: Block) -> range:
    return range(block.first, block.first + block.count)


@cache
def machine_at_hand(isa: str) -> Machine | None:
    """The rates for predictions: those that ``graphwright calibrate`` measured on this machine, or the
    built-in ones; None for an ISA without rates.
    """
    if isa not in MACHINES:
        return None
    options = Options.from_environment()
    return machine_of(isa, resolved(options.calibration, options.calibration_file))


def roofline_ns(operations: int, moved: int, machine: Machine, threads: int) -> float:
    """The least time for this number of operations and bytes on ``threads`` cores of ``machine``: that of the
    arithmetic or that of the memory traffic, whichever is longer.
    """
    moving = stream_ns(moved, machine)
    assert isinstance(moving, int)
    return max(operations / machine.f32_gflops, moving) / threads
