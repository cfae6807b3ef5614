"""Orders the steps of a program to lower the peak of live memory, by :mod:`graphwright.schedule.order`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from graphwright.ir.graph import Value
from graphwright.ir.op import Trait
from graphwright.ir.symbols import Dim, evaluate, names_in
from graphwright.kernels.launch import Alias, Launch, NativeLoop, Run, SelectedNode
from graphwright.kernels.steps import all_steps, step_values
from graphwright.low_ir.tasks import Storage
from graphwright.memory.locations import Memory
from graphwright.memory.storage import Assignment
from graphwright.schedule.order import Item, least_memory_order, order_for_memory, peak

SAMPLES = (512, 32)
"""Values for unknown sizes: the order is chosen for the first, and must not be worse for the others."""


def order_steps(steps: Sequence[SelectedNode], assignment: Assignment) -> Sequence[SelectedNode]:
    """Another order of ``steps`` that needs less memory, or ``steps`` itself. ``assignment`` belongs to the
    given order, which must be valid.

    Steps with side effects keep their relative order, and steps inside branches are not reordered.
    """
    planner = StepItems(steps, assignment)
    items, sizes = planner.items(_sample(SAMPLES[0]))
    order, unchanged = order_for_memory(items, sizes), list(range(len(items)))
    if order == unchanged:
        return steps
    for sample in SAMPLES[1:]:
        items, sizes = planner.items(_sample(sample))
        if peak(items, sizes, order) > peak(items, sizes, unchanged):
            return steps
    return [steps[index] for index in order if index < len(steps)]


def least_memory_steps(
    steps: Sequence[SelectedNode], assignment: Assignment, bytes_of: BytesOf
) -> Sequence[SelectedNode]:
    """As :func:`order_steps`, with a longer search, for the sizes that ``bytes_of`` gives."""
    items, sizes = StepItems(steps, assignment).items(bytes_of)
    order = least_memory_order(items, sizes)
    return [steps[index] for index in order if index < len(steps)]


BytesOf = Callable[[Dim], int]
"""The value of a symbolic size."""


def _sample(sample: int) -> BytesOf:
    """Evaluates sizes with ``sample`` for each symbol."""
    return lambda size: max(0, evaluate(size, dict.fromkeys(names_in(size), sample)))


class StepItems:
    """Converts steps to items of the scheduler; ``numbers`` has the planned memory blocks that they
    access.
    """

    def __init__(self, steps: Sequence[SelectedNode], assignment: Assignment) -> None:
        self.steps, self.locations = steps, assignment.locations
        self.numbers: dict[Memory, int] = {}
        self.copied = [move.source.memory for move in assignment.end_moves]

    def items(self, bytes_of: BytesOf) -> tuple[list[Item], dict[int, int]]:
        """An item for each step, and the size in bytes of each memory block by number."""
        items = [self._item(step, bytes_of) for step in self.steps]
        self._order_by_values(items)
        self._order_by_memories(items)
        self._order_by_effects(items)
        copies = frozenset(self.numbers[memory] for memory in self.copied if memory in self.numbers)
        items.append(Item(copies, after=set(range(len(items)))))  # the copies to outputs at the end
        sizes = {number: bytes_of(memory.size) for memory, number in self.numbers.items()}
        return items, sizes

    def _item(self, step: SelectedNode, bytes_of: BytesOf) -> Item:
        inner = list(all_steps([step]))
        touched = {self._number(value) for one in inner for value in _values(one)}
        scratch = [launch.scratch for one in inner for launch in _launches(one)]
        own = max(map(bytes_of, scratch), default=0)
        return Item(frozenset(number for number in touched if number is not None), own)

    def _number(self, value: Value) -> int | None:
        """The number of the planned memory block of a value; None if it is not in the arena."""
        location = self.locations.get(value)
        if location is None or location.memory.storage is not Storage.ARENA:
            return None
        return self.numbers.setdefault(location.memory, len(self.numbers))

    def _order_by_values(self, items: Sequence[Item]) -> None:
        """Orders the reader of a value after the step that makes it."""
        makers = {value: index for index, step in enumerate(self.steps) for value in step.node.outputs}
        for index, (step, item) in enumerate(zip(self.steps, items, strict=True)):
            read = {*step.node.inputs, *(v for one in all_steps([step]) for v in step_values(one))}
            item.after |= {makers[value] for value in read if value in makers} - {index}

    def _order_by_memories(self, items: Sequence[Item]) -> None:
        """Orders a step that writes a memory block, such as one in place, after all earlier users of the
        block. Slots of a concatenation are independent.
        """
        slotted = {number for memory, number in self.numbers.items() if memory.slotted}
        users: dict[int, list[int]] = defaultdict(list)
        for index, (step, item) in enumerate(zip(self.steps, items, strict=True)):
            written = {self._number(v) for one in all_steps([step]) for v in one.node.outputs}
            for number in item.touched - slotted:
                if number in written and not isinstance(step.action, Alias):
                    item.after.update(users[number])
                users[number].append(index)

    def _order_by_effects(self, items: Sequence[Item]) -> None:
        last = -1
        for index, step in enumerate(self.steps):
            if any(Trait.EFFECT in one.node.op.traits for one in all_steps([step])):
                if last >= 0:
                    items[index].after.add(last)
                last = index


def _values(step: SelectedNode) -> Iterator[Value]:
    """The values that a step reads and makes, except inputs of regions, which are the same memory as
    outside.
    """
    yield from step_values(step)
    yield from step.node.outputs
    if isinstance(step.action, Run):
        yield from step.action.temporaries
    for region in step.node.regions if step.blocks else ():
        yield from region.outputs
    if isinstance(step.action, NativeLoop):
        yield step.action.number


def _launches(step: SelectedNode) -> Iterator[Launch]:
    for launch in step.action.launches if isinstance(step.action, Run) else ():
        if isinstance(launch, Launch):
            yield launch
