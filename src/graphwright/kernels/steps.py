"""The values that steps read, and which of their operands may share memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from graphwright.ir.graph import Node, Value
from graphwright.kernels.launch import ByteRange, Copy, Launch, Run, SelectedNode
from graphwright.kernels.ref import KernelRef

NEVER_ENDS: Final = 2**62
"""The last use of a value that must stay live after all steps."""


def all_steps(steps: Iterable[SelectedNode]) -> Iterator[SelectedNode]:
    """All steps in order; those of regions follow the step that contains them."""
    for step in steps:
        yield step
        for block in step.blocks:
            yield from all_steps(block)


def step_values(step: SelectedNode) -> Iterator[Value]:
    """The values that a step reads: those that its launches read, or else the inputs of its node."""
    if not isinstance(step.action, Run):
        yield from (value for value in step.node.inputs if value is not None)
        return
    for launch in step.action.launches:
        yield from (value for value in launch_values(launch) if value not in step.node.outputs)


def launch_values(launch: Launch | Copy) -> Iterator[Value]:
    """The values that are operands of a launch, or the source of a copy."""
    if isinstance(launch, Copy):
        yield launch.source
        return
    yield from _values_of((*launch.operands, *(launch.hook.operands if launch.hook else ())))


def _values_of(operands: Iterable[Value | ByteRange | KernelRef | None]) -> Iterator[Value]:
    for operand in operands:
        value = operand.value if isinstance(operand, ByteRange) else operand
        if isinstance(value, Value):
            yield value


def written_values(launch: Launch | Copy) -> Iterator[Value]:
    """The values that a launch writes, or the target of a copy."""
    if isinstance(launch, Copy):
        yield launch.target
        return
    written = [launch.operands[k] for k in launch.writes]
    if launch.hook is not None:
        written += [launch.hook.operands[k] for k in launch.hook.writes]
    yield from _values_of(written)


def shareable(run: Run) -> Iterator[tuple[Launch | Copy, Value, Value]]:
    """Triples (launch, output, input) where output and input may share memory: the launch reads each element
    before it writes the one at the same location, or it copies the whole input to the output.
    """
    for number, launch in enumerate(run.launches):
        if isinstance(launch, Launch):
            yield from ((launch, output, source) for output, source in launch.in_place)
        elif number not in run.slots and launch.offset == 0 and launch.source.bytes == launch.target.bytes:
            yield launch, launch.target, launch.source


def last_uses(steps: Sequence[SelectedNode]) -> dict[Value | Node, int]:
    """For each value the number of the last step that reads it, and for each node the number of its step."""
    last: dict[Value | Node, int] = {}
    for number, step in enumerate(all_steps(steps)):
        last[step.node] = number
        for value in step_values(step):
            last[value] = number
        for region in step.node.regions if step.blocks else ():
            for value in region.outputs:
                last[value] = NEVER_ENDS
    return last
