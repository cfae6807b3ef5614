"""Assigns values to memory blocks: views and in-place results share a block, and the inputs of a
concatenation are written directly into their slots of its result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.kernels.launch import (
    Alias,
    Branch,
    CarriedValue,
    Copy,
    NativeLoop,
    Run,
    SelectedNode,
)
from graphwright.kernels.steps import (
    NEVER_ENDS,
    last_uses,
    shareable,
    step_values,
)
from graphwright.low_ir.tasks import Storage
from graphwright.memory.locations import Location, Memory, Move, sequentialize
from graphwright.memory.views import Views, can_overwrite, run_overwrites
from graphwright.records import dataclass, field

Weights = Mapping[Value, tuple[int, int]]
"""The byte offset and size of each constant in the weights of the package."""


@dataclass
class BlockMoves:
    """The copies of a block of steps, such as the body of a loop."""

    before: list[Move] = field(default_factory=list)
    """Before a loop: the copies of start values."""
    rows: dict[Node | None, list[Move]] = field(default_factory=lambda: defaultdict(list))
    """In each iteration of a loop: the copies of rows of scan outputs, by the node that computes the row;
    None: at the start of the iteration.
    """
    end: list[Move] = field(default_factory=list)
    """At the end of the block, in this order: in each iteration of a loop, those of loop-carried values."""


@dataclass
class Assignment:
    """The locations of all values, and the copies that remain."""

    locations: dict[Value, Location] = field(default_factory=dict)
    elided: set[Copy] = field(default_factory=set)
    """Copies into slots that are redundant."""
    branch_moves: dict[tuple[Node, int], list[Move]] = field(default_factory=dict)
    """By (node, branch): the copies to the outputs of an If or Case at the end of the branch."""
    loop_moves: dict[Node, BlockMoves] = field(default_factory=dict)
    end_moves: list[Move] = field(default_factory=list)
    """The copies at the end of the program, in this order: of outputs and states that are in other memory,
    such as an input, a weight or another output.
    """
    outputs: list[Memory] = field(default_factory=list)
    """The memory of the outputs, without those that are the next value of a state."""


def assign_storage(module: Module, steps: Sequence[SelectedNode], weights: Weights) -> Assignment:
    """Assigns a location to each value of the entry graph of ``module``. An output that is the next value of
    a state gets the location of the state.
    """
    return _Assigner(module.main, weights, module.state_updates()).run(steps)


class _Assigner:
    def __init__(self, graph: Graph, weights: Weights, updates: Mapping[int, int]) -> None:
        self.graph, self.weights, self.updates = graph, weights, updates
        self.result = Assignment()
        self.locations = self.result.locations
        self.reserved: dict[Value, Location] = {}
        """Locations that are reserved for values before their step is reached."""
        self.holders: dict[Memory, list[Value]] = defaultdict(list)

    def run(self, steps: Sequence[SelectedNode]) -> Assignment:
        for index, value in enumerate(self.graph.inputs):
            storage = Storage.STATE if index in self.updates.values() else Storage.INPUT
            self._put(value, Location(Memory(storage, value.bytes, value.name, index)))
        self.views = Views(steps)
        self.last_use = last_uses(steps)
        for value in self.graph.outputs:
            self.last_use[value] = NEVER_ENDS
        copied = self._reserve_outputs()
        copied += self._reserve_states(steps, [value for value, _ in copied])
        self._reserve_slots(steps)
        self._steps(steps)
        self.result.end_moves = sequentialize([self._move_to(*pair) for pair in copied])
        return self.result

    def _put(self, value: Value, location: Location) -> None:
        self.locations[value] = location
        self.holders[location.memory].append(value)

    def _is_fresh(self, value: Value) -> bool:
        """Whether a step computes ``value``: it is not a constant or the input of a graph or region."""
        return value.producer is not None and not is_constant(value) and value.owner is None

    def _reserve_outputs(self) -> list[tuple[Value, Location]]:
        """Reserves the memory of outputs for their values; returns the outputs that must be copied
        instead.
        """
        copied = []
        values = [value for k, value in enumerate(self.graph.outputs) if k not in self.updates]
        for index, value in enumerate(values):
            memory = Memory(Storage.OUTPUT, value.bytes, value.name, index)
            self.result.outputs.append(memory)
            if self._fits(value, value, self.graph):
                self.reserved[self.views.root(value)[0]] = Location(memory)
            else:
                copied.append((value, Location(memory)))
        return copied

    def _reserve_states(
        self, steps: Sequence[SelectedNode], late: Sequence[Value]
    ) -> list[tuple[Value, Location]]:
        """Reserves the memory of states for their next values, if no later step reads the old value; returns
        those that must be copied instead. ``late`` are values that are read after all steps.
        """
        changed = []
        for position, source in self.updates.items():
            value, state = self.graph.outputs[position], self.graph.inputs[source]
            if self.views.root(value) != (state, 0):
                changed.append((value, state))
        moved = {value for value, _ in changed if not self._fits(value, value, self.graph)}
        read_last = {self.views.root(value)[0] for value in (*late, *moved)}
        copied = []
        for value, state in changed:
            root, location = self.views.root(value)[0], self.locations[state]
            is_free = value not in moved and root not in self.reserved and state not in read_last
            if is_free and can_overwrite(steps, state, root, self.views):
                self.reserved[root] = location
            else:
                copied.append((value, location))
        return copied

    def _reserve_slots(self, steps: Sequence[SelectedNode]) -> None:
        """Reserves slots of concatenations for their sources, and the memory of loop-carried values for their
        start values. Later steps come first, so that slots nest.
        """
        for step in reversed(steps):
            if isinstance(step.action, NativeLoop):
                self._reserve_starts(step, step.action)
            if not isinstance(step.action, Run) or not step.action.slots:
                continue
            target = self._memory_of(step.node.outputs[0])
            for position in step.action.slots:
                copy = step.action.launches[position]
                assert isinstance(copy, Copy)
                root, offset = self.views.root(copy.source)
                whole = offset == 0 and root.bytes == copy.source.bytes
                if (
                    whole
                    and self._is_fresh(root)
                    and root not in self.reserved
                    and root.graph is step.node.graph
                ):
                    target.memory.slotted = True
                    self.reserved[root] = Location(target.memory, target.offset + copy.offset)
                    self.result.elided.add(copy)

    def _memory_of(self, value: Value) -> Location:
        """The location reserved for a value that a step computes; new memory if there is none."""
        if value not in self.reserved:
            self.reserved[value] = Location(Memory(Storage.ARENA, value.bytes, value.name))
        return self.reserved[value]

    def _steps(self, steps: Sequence[SelectedNode]) -> None:
        for step in steps:
            for value in step_values(step):
                self._locate_constant(value)
            if isinstance(step.action, Alias):
                source = self.locations[step.action.source]
                self._put(step.node.outputs[0], Location(source.memory, source.offset + step.action.offset))
            elif isinstance(step.action, Branch):
                self._branch(step, step.action)
            elif isinstance(step.action, NativeLoop):
                self._loop(step, step.action)
            else:
                self._outputs(step)

    def _outputs(self, step: SelectedNode) -> None:
        if isinstance(step.action, Run):
            for value in step.action.temporaries:
                size = value.bytes * step.action.uses_temporaries
                self._put(value, Location(Memory(Storage.ARENA, size, f"{step.node.location} {value.name}")))
        for value in step.node.outputs:
            shared = None if value in self.reserved else self._in_place_of(step, value)
            self._put(value, shared or self._memory_of(value))

    def _in_place_of(self, step: SelectedNode, value: Value) -> Location | None:
        """The location of an input whose last use is this step, and which ``value`` may overwrite; or
        None.
        """
        if not isinstance(step.action, Run):
            return None
        for _, output, source in shareable(step.action):
            location = self.locations.get(source)
            if output is not value or location is None or location.memory.slotted:
                continue
            held = self.holders[location.memory]
            whole = location.memory.size == value.bytes and location.offset == 0
            if (
                location.memory.storage is Storage.ARENA
                and whole
                and self._are_last_read_at(step, held)
                and run_overwrites(held, value, step.action)
            ):
                return location
        return None

    def _are_last_read_at(self, step: SelectedNode, values: Iterable[Value]) -> bool:
        """Whether no step after ``step`` reads one of ``values``."""
        return all(self.last_use.get(value, -1) <= self.last_use[step.node] for value in values)

    def _branch(self, step: SelectedNode, branch: Branch) -> None:
        outputs = step.node.outputs
        for value in outputs:
            self._put(value, self._memory_of(value))
        for number, steps in enumerate(branch.blocks):
            region = step.node.regions[number]
            for outer, inner in zip(step.node.inputs[1:], region.inputs, strict=True):
                if outer is not None:
                    self._put(inner, self.locations[outer])
            copied: list[tuple[Value, Value]] = []
            for value, output in zip(region.outputs, outputs, strict=True):
                if self._fits(value, output, region):
                    self.reserved[self.views.root(value)[0]] = self.locations[output]
                else:
                    copied.append((value, output))
            self._reserve_slots(steps)
            self._steps(steps)
            self.result.branch_moves[step.node, number] = [self._move(*pair) for pair in copied]

    def _fits(self, value: Value, output: Value, region: Graph) -> bool:
        """Whether a step of ``region`` can compute ``value`` directly in the memory of ``output``."""
        root, offset = self.views.root(value)
        whole = offset == 0 and root.bytes == output.bytes
        return whole and self._is_fresh(root) and root not in self.reserved and root.graph is region

    def _move(self, source: Value, target: Value) -> Move:
        return self._move_to(source, self.locations[target])

    def _move_to(self, source: Value, target: Location) -> Move:
        self._locate_constant(source)
        return Move(self.locations[source], target, source.bytes)

    # -- loops ----------------------------------------------------------------------------------------------

    def _reserve_starts(self, step: SelectedNode, loop: NativeLoop) -> None:
        """Reserves the memory of loop-carried values for their start values, if nothing else reads these."""
        graph = step.node.graph
        assert graph is not None
        roots = [self.views.root(value)[0] for value in step.node.inputs if value is not None]
        for each in loop.carried:
            root = self.views.root(each.start)[0]
            if roots.count(root) > 1 or not self._fits(each.start, each.output, graph):
                continue
            if self._are_last_read_at(step, (root, *self.views.of(root))):
                self.reserved[root] = self._memory_of(each.output)

    def _loop(self, step: SelectedNode, loop: NativeLoop) -> None:
        """Assigns the values of a loop: a loop-carried value has the same memory in all iterations and after
        the loop. The body never overwrites values that it reads from outside.
        """
        region, moves = step.node.regions[0], BlockMoves()
        self._put(
            loop.number, Location(Memory(Storage.ARENA, loop.number.bytes, f"{step.node.location} iteration"))
        )
        for outer, inner in loop.shared:
            self._put(inner, self.locations[outer])
        for each in loop.carried:
            for value in dict.fromkeys((each.received, each.output)):
                self._put(value, self._memory_of(each.output))
            if self.locations[each.start] != self.locations[each.received]:
                moves.before.append(self._move(each.start, each.received))
        for _, output in loop.rows:
            self._put(output, self._memory_of(output))
        self.last_use |= dict.fromkeys((*region.inputs, *region.outputs), NEVER_ENDS)
        copied = self._reserve_results(loop, region)
        self._reserve_slots(loop.steps)
        self._steps(loop.steps)
        for value, output in loop.rows:
            root = self.views.root(value)[0]
            first = root.producer if self._is_fresh(root) and root.graph is region else None
            moves.rows[first].append(self._move(value, output))
        moves.end = sequentialize([self._move(*pair) for pair in copied])
        self.last_use |= dict.fromkeys((*region.inputs, *region.outputs), self.last_use[step.node])
        self.result.loop_moves[step.node] = moves

    def _reserve_results(self, loop: NativeLoop, region: Graph) -> list[tuple[Value, Value]]:
        """Reserves the memory of loop-carried values for their next values, if no later step of the body
        reads the old value. Returns the others, which must be copied at the end of an iteration.
        """
        fresh: dict[Value, CarriedValue] = {}
        for each in loop.carried:
            if self._fits(each.result, each.output, region):
                fresh.setdefault(self.views.root(each.result)[0], each)
        late = {self.views.root(each.result)[0] for each in loop.carried if each not in fresh.values()}
        copied: list[tuple[Value, Value]] = []
        for each in loop.carried:
            root, offset = self.views.root(each.result)
            if (
                fresh.get(root) is each
                and each.received not in late
                and can_overwrite(loop.steps, each.received, root, self.views)
            ):
                self.reserved[root] = self.locations[each.received]
            elif root is not each.received or offset != 0:
                copied.append((each.result, each.received))
        return copied

    def _locate_constant(self, value: Value) -> None:
        if value not in self.locations and is_constant(value):
            offset, size = self.weights[value]
            self._put(value, Location(Memory(Storage.WEIGHT, size, value.name, offset)))
