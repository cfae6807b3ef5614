"""Steps in the order that needs the least memory, by what each of them keeps alive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from graphwright.ir.graph import Value
from graphwright.ir.op import Trait
from graphwright.ir.symbols import Dim, atoms, evaluate
from graphwright.kernels.launch import Alias, Launch, NativeLoop, Run, Step
from graphwright.lower.tasks import Storage
from graphwright.memory.places import Memory
from graphwright.memory.steps import all_steps, step_values
from graphwright.memory.storage import Assignment
from graphwright.schedule.order import Item, least_memory_order, order_for_memory, peak

SAMPLES = (512, 32)
"""Sizes that stand for those that are not known: the order is chosen for the first, and no worse for the
others."""


def order_steps(steps: Sequence[Step], assignment: Assignment) -> Sequence[Step]:
    """``steps``, which stand in an order that is allowed and have places by it, or another order of them.

    Steps with effects keep theirs; those of branches stay as they are.
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


def least_memory_steps(steps: Sequence[Step], assignment: Assignment, bytes_of: BytesOf) -> Sequence[Step]:
    """As :func:`order_steps`, the order that takes the least memory of those that a long search finds."""
    items, sizes = StepItems(steps, assignment).items(bytes_of)
    order = least_memory_order(items, sizes)
    return [steps[index] for index in order if index < len(steps)]


BytesOf = Callable[[Dim], int]
"""The bytes that a size stands for."""


def _sample(sample: int) -> BytesOf:
    """Every size that is not known is ``sample``."""
    return lambda size: max(0, evaluate(size, {symbol.name: sample for symbol in atoms(size)}))


class StepItems:
    """Steps as items of a schedule, and the planned memories that they touch, by number."""

    def __init__(self, steps: Sequence[Step], assignment: Assignment) -> None:
        self.steps, self.places = steps, assignment.places
        self.numbers: dict[Memory, int] = {}
        self.copied = [move.source.memory for move in assignment.end_moves]

    def items(self, bytes_of: BytesOf) -> tuple[list[Item], dict[int, int]]:
        """The steps, and bytes by memory."""
        items = [self._item(step, bytes_of) for step in self.steps]
        self._order_by_values(items)
        self._order_by_memories(items)
        self._order_by_effects(items)
        copies = frozenset(self.numbers[memory] for memory in self.copied if memory in self.numbers)
        items.append(Item(copies, after=set(range(len(items)))))  # what is copied to outputs, at the end
        sizes = {number: bytes_of(memory.size) for memory, number in self.numbers.items()}
        return items, sizes

    def _item(self, step: Step, bytes_of: BytesOf) -> Item:
        inner = list(all_steps([step]))
        touched = {self._number(value) for one in inner for value in _values(one)}
        scratch = [launch.scratch for one in inner for launch in _launches(one)]
        own = max(map(bytes_of, scratch), default=0)
        return Item(frozenset(number for number in touched if number is not None), own)

    def _number(self, value: Value) -> int | None:
        """Of the planned memory that a value lies in."""
        place = self.places.get(value)
        if place is None or place.memory.storage is not Storage.ARENA:
            return None
        return self.numbers.setdefault(place.memory, len(self.numbers))

    def _order_by_values(self, items: Sequence[Item]) -> None:
        """What reads a value comes after what makes it."""
        makers = {value: index for index, step in enumerate(self.steps) for value in step.node.outputs}
        for index, (step, item) in enumerate(zip(self.steps, items, strict=True)):
            read = {*step.node.inputs, *(v for one in all_steps([step]) for v in step_values(one))}
            item.after |= {makers[value] for value in read if value in makers} - {index}

    def _order_by_memories(self, items: Sequence[Item]) -> None:
        """What writes a memory, as results in place do, comes after all who used it; slots have no order."""
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


def _values(step: Step) -> Iterator[Value]:
    """What a step reads and makes, but for what regions take in, which their tasks read as it is outside."""
    yield from step_values(step)
    yield from step.node.outputs
    if isinstance(step.action, Run):
        yield from step.action.temporaries
    for region in step.node.regions if step.blocks else ():
        yield from region.outputs
    if isinstance(step.action, NativeLoop):
        yield step.action.number


def _launches(step: Step) -> Iterator[Launch]:
    for launch in step.action.launches if isinstance(step.action, Run) else ():
        if isinstance(launch, Launch):
            yield launch
