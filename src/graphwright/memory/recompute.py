"""Rematerialization: computes a value again for its late readers instead of keeping it in memory.

The idea is that of Briggs, Cooper and Torczon (Rematerialization, 1992), on steps in a fixed order. It
selects one value at a time: the one whose recomputation lowers the peak of memory most, or lets fewer steps
reach the peak.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from graphwright.ir.clone import copy_node
from graphwright.ir.graph import Graph, Value
from graphwright.ir.op import Trait
from graphwright.ir.symbols import Dim
from graphwright.kernels.launch import ByteRange, Copy, Launch, Run, SelectedNode
from graphwright.kernels.steps import step_values
from graphwright.low_ir.tasks import Storage
from graphwright.memory.locations import Memory
from graphwright.memory.step_order import BytesOf, StepItems
from graphwright.memory.storage import Assignment
from graphwright.records import dataclass, replace
from graphwright.schedule.order import Item, live_bytes_at


@dataclass(frozen=True)
class _Candidate:
    """``value``, which step ``maker`` makes, is recomputed before the first of ``readers``."""

    value: Value
    maker: int
    readers: tuple[int, ...]
    cost: tuple[int, int]
    work: int


def recompute(
    graph: Graph, steps: Sequence[SelectedNode], assignment: Assignment, bytes_of: BytesOf, most_work: int
) -> tuple[Sequence[SelectedNode], int] | None:
    """``steps`` of ``graph`` with one value recomputed so that the peak is lower, and the predicted time of
    this in nanoseconds, which is at most ``most_work``. None if there is no such value.
    """
    search = _Search(graph, steps, assignment, bytes_of)
    found = [each for each in search.candidates() if each.work <= most_work]
    if not found:
        return None
    best = min(found, key=lambda each: (each.cost, each.work, each.maker))
    return _applied(graph, steps, best), best.work


class _Search:
    def __init__(
        self, graph: Graph, steps: Sequence[SelectedNode], assignment: Assignment, bytes_of: BytesOf
    ) -> None:
        self.steps, self.locations, self.bytes_of = steps, assignment.locations, bytes_of
        planner = StepItems(steps, assignment)
        self.items, self.sizes = planner.items(bytes_of)
        self.numbers = planner.numbers
        self.kept = {*graph.outputs}
        self.holders: dict[Memory, list[Value]] = defaultdict(list)
        for value, location in self.locations.items():
            self.holders[location.memory].append(value)
        self.users: dict[int, list[int]] = defaultdict(list)
        for position, item in enumerate(self.items):
            for number in item.touched:
                self.users[number].append(position)

    def candidates(self) -> Iterator[_Candidate]:
        live = live_bytes_at(self.items, self.sizes)
        top = live.index(max(live))
        for maker, step in enumerate(self.steps[:top]):
            if not _can_run_again(step):
                continue
            value = step.node.outputs[0]
            number = self._own_number(value)
            if number is None or value in self.kept or not self._inputs_stay(step, number, top):
                continue
            early, late = self._readers(number, maker, top)
            if not early or not late or not all(self._reads_by_launches(k) for k in late):
                continue
            cost = _cost(live_bytes_at(*self._without(number, maker, late)))
            if cost < _cost(live):
                yield _Candidate(value, maker, tuple(late), cost, self._work(step))

    def _own_number(self, value: Value) -> int | None:
        """The number of the memory block of ``value``; None if the block also holds other values or views."""
        memory = self.locations[value].memory
        alone = self.holders[memory] == [value] and not memory.slotted
        return self.numbers.get(memory) if alone and memory.storage is Storage.ARENA else None

    def _inputs_stay(self, step: SelectedNode, result: int, top: int) -> bool:
        """Whether the values that a step reads stay live after ``top`` anyway."""
        late = next((position for position in self.users[result] if position > top), 0)
        for value in step_values(step):
            memory = self.locations[value].memory
            if memory.storage in (Storage.INPUT, Storage.WEIGHT):
                continue
            number = self._own_number(value)
            if number is None or self.users[number][-1] < late:
                return False
        return True

    def _readers(self, number: int, maker: int, top: int) -> tuple[list[int], list[int]]:
        """The readers before the peak and those after it; none if the step at the peak is a reader itself."""
        readers = [position for position in self.users[number] if position != maker]
        if top in readers:
            return [], []
        return [k for k in readers if k < top], [k for k in readers if k > top]

    def _reads_by_launches(self, position: int) -> bool:
        return position < len(self.steps) and isinstance(self.steps[position].action, Run)

    def _without(self, number: int, maker: int, late: Sequence[int]) -> tuple[list[Item], dict[int, int]]:
        """The items and sizes if value ``number`` is computed again for its ``late`` readers."""
        again = len(self.sizes)
        items = list(self.items)
        for position in late:
            items[position] = replace(items[position], touched=items[position].touched - {number} | {again})
        shortened = replace(items[maker], touched=items[maker].touched - {number} | {again})
        items.insert(late[0], shortened)
        return items, {**self.sizes, again: self.sizes[number]}

    def _work(self, step: SelectedNode) -> int:
        assert isinstance(step.action, Run)
        return sum(self.bytes_of(each.work) for each in step.action.launches if isinstance(each, Launch))


def _cost(live: Sequence[int]) -> tuple[int, int]:
    """The peak, and the number of steps that reach it."""
    most = max(live)
    return most, live.count(most)


def work_of(steps: Sequence[SelectedNode], value_of: BytesOf) -> int:
    """The predicted time of all launches of ``steps``, in nanoseconds."""
    works: list[Dim] = [
        launch.work
        for step in steps
        if isinstance(step.action, Run)
        for launch in step.action.launches
        if isinstance(launch, Launch)
    ]
    return sum(map(value_of, works))


def _can_run_again(step: SelectedNode) -> bool:
    """Whether a step makes exactly one value, by launches only and without side effects."""
    if not isinstance(step.action, Run) or step.action.slots or step.action.temporaries or step.before:
        return False
    return len(step.node.outputs) == 1 and Trait.EFFECT not in step.node.op.traits


def _applied(graph: Graph, steps: Sequence[SelectedNode], found: _Candidate) -> list[SelectedNode]:
    """``steps`` with the candidate's step repeated, and its late readers using the new value."""
    maker = steps[found.maker]
    copies: dict[Value, Value] = {value: value for value in maker.node.inputs if value is not None}
    again = graph.insert(copy_node(maker.node, copies), maker.node.next)
    edited = list(steps)
    for position in found.readers:
        for node in (*steps[position].before, steps[position].node):
            for index, value in enumerate(node.inputs):
                if value is found.value:
                    graph.replace_input(node, index, again.outputs[0])
        edited[position] = _reading(steps[position], found.value, again.outputs[0])
    edited.insert(found.readers[0], replace(_reading(maker, found.value, again.outputs[0]), node=again))
    return edited


def _reading(step: SelectedNode, old: Value, new: Value) -> SelectedNode:
    """``step`` with ``new`` in place of ``old``."""
    assert isinstance(step.action, Run)
    launches = tuple(_replaced(launch, old, new) for launch in step.action.launches)
    return replace(step, action=replace(step.action, launches=launches))


def _replaced(launch: Launch | Copy, old: Value, new: Value) -> Launch | Copy:
    def changed(value: Value) -> Value:
        return new if value is old else value

    if isinstance(launch, Copy):
        return replace(launch, source=changed(launch.source), target=changed(launch.target))
    operands = tuple(
        changed(each)
        if isinstance(each, Value)
        else replace(each, value=changed(each.value))
        if isinstance(each, ByteRange)
        else each
        for each in launch.operands
    )
    hook = launch.hook
    return replace(
        launch,
        operands=operands,
        hook=None if hook is None else replace(hook, operands=tuple(map(changed, hook.operands))),
        in_place=tuple((changed(output), changed(source)) for output, source in launch.in_place),
    )
