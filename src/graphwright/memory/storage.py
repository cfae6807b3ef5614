"""Which buffer each value lives in: views and in-place results share, slots of a concatenation are written
directly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from graphwright.ir.constant import Constant
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.symbols import Dim
from graphwright.kernels.launch import Alias, Branch, Copy, Launch, Part, Run, Step
from graphwright.lower.tasks import Storage

Weights = Mapping[Value, tuple[int, int]]
"""Byte offset and size of each constant in the package's weights."""

NEVER_ENDS: Final = 2**62
"""The last use of a value that must outlive all steps."""


@dataclass(eq=False)
class Memory:
    """One buffer to be. ``size`` in bytes."""

    storage: Storage
    size: Dim
    name: str
    index: int = 0
    slotted: bool = False
    """Whether parts of it are written by different steps: never reused in place."""


@dataclass(frozen=True)
class Place:
    """Where a value lies: ``offset`` bytes into ``memory``."""

    memory: Memory
    offset: Dim = 0


@dataclass
class Assignment:
    """Places of all values, and what must still be copied."""

    places: dict[Value, Place] = field(default_factory=dict)
    elided: set[Copy] = field(default_factory=set)
    """Copies into slots that need not run."""
    branch_copies: dict[tuple[Node, int], list[tuple[Value, Value]]] = field(default_factory=dict)
    """``(If node, branch)``: values to copy into the If's outputs at the branch's end."""
    output_copies: list[tuple[Value, int]] = field(default_factory=list)
    """Graph outputs that live elsewhere (an input, a weight, another output): copied at the end."""
    outputs: list[Memory] = field(default_factory=list)


def assign_storage(graph: Graph, steps: Sequence[Step], weights: Weights) -> Assignment:
    """Give every value of ``graph`` a place."""
    return _Assigner(graph, weights).run(steps)


class _Assigner:
    def __init__(self, graph: Graph, weights: Weights) -> None:
        self.graph, self.weights = graph, weights
        self.result = Assignment()
        self.places = self.result.places
        self.preset: dict[Value, Place] = {}
        """Places reserved for values before the step that makes them is reached."""
        self.holders: dict[Memory, list[Value]] = defaultdict(list)

    def run(self, steps: Sequence[Step]) -> Assignment:
        for index, value in enumerate(self.graph.inputs):
            self._put(value, Place(Memory(Storage.INPUT, value.bytes, value.name, index)))
        self.roots = {
            step.node.outputs[0]: (step.action.source, step.action.offset)
            for step in all_steps(steps)
            if isinstance(step.action, Alias)
        }
        self.last_use = _last_uses(steps)
        for value in self.graph.outputs:
            self.last_use[value] = NEVER_ENDS
        self._preset_outputs()
        self._preset_slots(steps)
        self._steps(steps)
        for value, _ in self.result.output_copies:
            self._place_constant(value)
        return self.result

    def _put(self, value: Value, place: Place) -> None:
        self.places[value] = place
        self.holders[place.memory].append(value)

    def _root(self, value: Value) -> tuple[Value, Dim]:
        """The value whose memory ``value`` is a view of, and the byte offset in it."""
        offset: Dim = 0
        while value in self.roots:
            value, step_offset = self.roots[value]
            offset = offset + step_offset
        return value, offset

    def _is_fresh(self, value: Value) -> bool:
        """Whether a step makes new memory for ``value``: not an input, a constant or a region's input."""
        return (
            value.producer is not None and not isinstance(value.producer.op, Constant) and value.owner is None
        )

    def _preset_outputs(self) -> None:
        for index, value in enumerate(self.graph.outputs):
            memory = Memory(Storage.OUTPUT, value.bytes, value.name, index)
            self.result.outputs.append(memory)
            root, offset = self._root(value)
            fits = offset == 0 and root.bytes == value.bytes
            if self._is_fresh(root) and root not in self.preset and fits and root.graph is self.graph:
                self.preset[root] = Place(memory)
            else:
                self.result.output_copies.append((value, index))

    def _preset_slots(self, steps: Sequence[Step]) -> None:
        """Let sources of concatenations be made in their slot; later ones first, so that slots nest."""
        for step in reversed(steps):
            if not isinstance(step.action, Run) or not step.action.slots:
                continue
            target = self._memory_of(step.node.outputs[0])
            for position in step.action.slots:
                copy = step.action.launches[position]
                assert isinstance(copy, Copy)
                root, offset = self._root(copy.source)
                whole = offset == 0 and root.bytes == copy.source.bytes
                if (
                    whole
                    and self._is_fresh(root)
                    and root not in self.preset
                    and root.graph is step.node.graph
                ):
                    target.memory.slotted = True
                    self.preset[root] = Place(target.memory, target.offset + copy.offset)
                    self.result.elided.add(copy)

    def _memory_of(self, value: Value) -> Place:
        """The place reserved for a value that a step makes."""
        if value not in self.preset:
            self.preset[value] = Place(Memory(Storage.ARENA, value.bytes, value.name))
        return self.preset[value]

    def _steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            for value in step_values(step):
                self._place_constant(value)
            if isinstance(step.action, Alias):
                source = self.places[step.action.source]
                self._put(step.node.outputs[0], Place(source.memory, source.offset + step.action.offset))
            elif isinstance(step.action, Branch):
                self._branch(step, step.action)
            else:
                self._outputs(step)

    def _outputs(self, step: Step) -> None:
        for value in step.node.outputs:
            shared = None if value in self.preset else self._in_place_of(step, value)
            self._put(value, shared or self._memory_of(value))
        for value in step.action.temporaries if isinstance(step.action, Run) else ():
            self._put(value, Place(Memory(Storage.ARENA, value.bytes, f"{step.node.place} {value.name}")))

    def _in_place_of(self, step: Step, value: Value) -> Place | None:
        """The memory of an input that ends with this step and may be overwritten by ``value``."""
        if not isinstance(step.action, Run):
            return None
        launches = [each for each in step.action.launches if isinstance(each, Launch)]
        for launch, (output, source) in ((each, pair) for each in launches for pair in each.in_place):
            place = self.places.get(source)
            if output is not value or place is None or place.memory.slotted:
                continue
            if sum(v in self.holders[place.memory] for v in launch.operands) > 1:
                continue  # read at other places as well
            whole = place.memory.size == value.bytes and place.offset == 0
            if place.memory.storage is Storage.ARENA and whole and self._ends_here(place.memory, step):
                return place
        return None

    def _ends_here(self, memory: Memory, step: Step) -> bool:
        """Whether no step after ``step`` reads a value that lives in ``memory``."""
        return all(self.last_use.get(v, -1) <= self.last_use[step.node] for v in self.holders[memory])

    def _branch(self, step: Step, branch: Branch) -> None:
        outputs = step.node.outputs
        for value in outputs:
            self._put(value, self._memory_of(value))
        for number, steps in enumerate((branch.then, branch.orelse)):
            region = step.node.regions[number]
            for outer, inner in zip(step.node.inputs[1:], region.inputs, strict=True):
                if outer is not None:
                    self._put(inner, self.places[outer])
            copies: list[tuple[Value, Value]] = []
            for value, output in zip(region.outputs, outputs, strict=True):
                root, offset = self._root(value)
                whole = offset == 0 and root.bytes == output.bytes
                if whole and self._is_fresh(root) and root not in self.preset and root.graph is region:
                    self.preset[root] = self.places[output]
                else:
                    copies.append((value, output))
            self._preset_slots(steps)
            self._steps(steps)
            for value, _ in copies:
                self._place_constant(value)
            self.result.branch_copies[step.node, number] = copies

    def _place_constant(self, value: Value) -> None:
        if (
            value not in self.places
            and value.producer is not None
            and isinstance(value.producer.op, Constant)
        ):
            offset, size = self.weights[value]
            self._put(value, Place(Memory(Storage.WEIGHT, size, value.name, offset)))


def all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """Steps in order, those of branches after the step that holds them."""
    for step in steps:
        yield step
        if isinstance(step.action, Branch):
            yield from all_steps(step.action.then)
            yield from all_steps(step.action.orelse)


def step_values(step: Step) -> Iterator[Value]:
    """Every value that a step reads: what the launches do, whatever the node's inputs are."""
    if not isinstance(step.action, Run):
        yield from (value for value in step.node.inputs if value is not None)
        return
    for launch in step.action.launches:
        if isinstance(launch, Copy):
            yield launch.source
            continue
        for operand in (*launch.operands, *(launch.hook.operands if launch.hook else ())):
            value = operand.value if isinstance(operand, Part) else operand
            if value is not None and value not in step.node.outputs:
                yield value


def _last_uses(steps: Sequence[Step]) -> dict[Value | Node, int]:
    """The number of the last step that reads each value, and the number of each node's own step."""
    last: dict[Value | Node, int] = {}
    for number, step in enumerate(all_steps(steps)):
        last[step.node] = number
        for value in step_values(step):
            last[value] = number
        for region in step.node.regions if isinstance(step.action, Branch) else ():
            for value in region.outputs:
                last[value] = NEVER_ENDS
    return last
