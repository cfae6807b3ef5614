"""What an edit of a partition gains: the predicted log(time after / before) of computing nodes in other
kernels.

Each kernel is a :class:`Task`, whose time is a roofline of *parts*: nanoseconds by what is done and where. An
operation costs more in the hook of a contraction, which is called on tiles, than in a loop of its own; a row
that several reductions walk costs more than its arithmetic. The edit's features are the log of the ratio of
both rooflines (S. Williams et al., "Roofline", 2009), and the change of each part as a share of the time
before. The prediction is linear in them; the coefficients were fitted to measured edits by
``python -m benchmarks.fusion_model``.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from graphwright.cost.images import DIRECT, WINOGRAD, blocked_depthwise_work
from graphwright.cost.loops import FUNCTIONS
from graphwright.cost.machine import Level, Machine
from graphwright.cost.predict import Work, predict
from graphwright.ir.constant import is_constant
from graphwright.ir.graph import Node, Value
from graphwright.ir.loops.nodes import Apply, Bits, Cast, Ref, Scalar
from graphwright.ir.op import Op, Trait, reduction_op
from graphwright.ir.plugin_ops import is_plugin_op
from graphwright.ir.symbols import Dim, evaluate
from graphwright.ir.types import DType
from graphwright.ops.core.binary import Add, Max, Min, Mul
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.unary import Relu
from graphwright.ops.nn.conv import Conv

LAUNCH_NS: Final = 300
"""A launch on caches that hold what it reads."""
COSTLY: Final = 8
"""Operations from which on a node counts as costly: those of a division."""
OPERATION_CYCLES: Final = 0.625
"""A simple operation on 64 bytes."""
WALK_CYCLES: Final = 1.0
"""Loading 64 bytes of a row again."""
TILE: Final = (14, 16)
"""Rows and columns of a tile that a hook is called on."""
CALL_NS: Final = 4
GEMM: Final = 85
"""Percent of the peak that a matrix product reaches."""
OVERLAP: Final = 0.2
"""The share of the shorter of arithmetic and streams that still costs time."""

PARTS: Final = (
    *("launch", "anchor", "streams", "flat_cheap", "flat_costly"),
    *("row_cheap", "row_costly", "row_scalar", "walk", "kept", "columns", "spill"),
    *("store_cheap", "store_read", "image_read", "hook_cheap", "hook_costly", "crowded"),
    *("hook_read", "hook_call", "aliased"),
)
"""What nanoseconds are counted for. ``crowded``: costly operations that share a hook with others, which need
registers as well."""
_STREAMS: Final = ("streams", "spill")
FEATURES: Final = (
    "roofline",
    *(part for part in PARTS if part not in ("launch", "anchor", "kept", "flat_cheap", "flat_costly")),
)
"""What leaves a flat loop arrives elsewhere, so that its change says nothing more. Launches are in the
roofline alone, so that one less is a gain whatever the fit."""
LIMIT: Final = 3.0
"""Features are cut to this: what is beyond was not measured."""


Parts = defaultdict[str, float]
"""Nanoseconds by part."""


@dataclass(frozen=True)
class Task:
    """Nodes that one kernel computes, and the contraction among them."""

    nodes: tuple[Node, ...]
    anchor: Node | None = None

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> Task:
        """The task of ``nodes``, at most one of which is a contraction."""
        return cls(tuple(nodes), next((n for n in nodes if Trait.CONTRACTION in n.op.traits), None))

    @property
    def rest(self) -> tuple[Node, ...]:
        """All but the contraction; views cost nothing."""
        return tuple(n for n in self.nodes if n is not self.anchor and Trait.VIEW not in n.op.traits)

    def reads(self) -> list[Value]:
        """Values from outside, each once; constants of one element are part of the code."""
        inside = {value for node in self.nodes for value in node.outputs}
        found = dict.fromkeys(v for n in self.nodes for v in n.inputs if v is not None and v not in inside)
        return [v for v in found if not (is_constant(v) and v.type.elements == 1)]

    def writes(self) -> list[Value]:
        """Values that others read."""
        inside = set(self.nodes)
        return [v for n in self.nodes for v in n.outputs if _leaves(v, inside)]


def _leaves(value: Value, inside: Collection[Node]) -> bool:
    graph = value.graph
    return (graph is not None and value in graph.outputs) or any(u not in inside for u in value.users)


FILE: Final = Path(__file__).with_suffix(".json")
"""The coefficients, as ``python -m benchmarks.fusion_model --write`` fitted them."""


KINDS: Final = ("epilogue", "loops")
"""Edits with a contraction whose epilogue they change, and others: each kind has coefficients of its own."""
Coefficients = Mapping[str, Mapping[str, float]]
"""By kind, then by feature."""


@cache
def coefficients() -> Coefficients:
    """Those that were fitted."""
    read: Coefficients = json.loads(FILE.read_text())["coefficients"]
    return {kind: {name: read[kind][name] for name in FEATURES} for kind in KINDS}


def kind_of(before: Sequence[Task], after: Sequence[Task]) -> str:
    """One of :data:`KINDS`."""
    return KINDS[0] if any(task.anchor is not None and task.rest for task in (*before, *after)) else KINDS[1]


def _number(dim: Dim) -> int:
    return dim if isinstance(dim, int) else evaluate(dim, {})


@dataclass(frozen=True)
class EditModel:
    """Predicts edits on ``machine``; ``size`` is what a dim counts as that is not known yet."""

    machine: Machine
    coefficients: Coefficients
    size: Callable[[Dim], int] = _number

    def predict(self, before: Sequence[Task], after: Sequence[Task]) -> float:
        """log(time after / before): below 0 the edit gains."""
        known = self.coefficients.get(kind_of(before, after), {})
        return sum(known.get(name, 0.0) * value for name, value in self.features(before, after).items())

    def features(
        self, before: Sequence[Task], after: Sequence[Task], outside: Level | None = None
    ) -> dict[str, float]:
        """By name. ``outside``: where the values lie that none of the tasks makes; by default they are in
        the smallest cache that holds all values of the edit.
        """
        old, new = (self._all_parts(tasks, outside) for tasks in (before, after))
        time, time_after = (sum(map(roofline, parts)) for parts in (old, new))
        change = {n: sum(p[n] for p in new) - sum(p[n] for p in old) for n in PARTS if n in FEATURES}
        found = {"roofline": math.log(time_after / time)}
        found |= {name: nanoseconds / time for name, nanoseconds in change.items()}
        return {name: max(-LIMIT, min(LIMIT, value)) for name, value in found.items()}

    def is_cheap(self, tasks: Sequence[Task]) -> bool:
        """Whether no hook of ``tasks`` computes a costly operation."""
        return not any(
            task.anchor is not None and any(_operations(node) >= COSTLY for node in task.rest)
            for task in tasks
        )

    def nanoseconds(self, tasks: Sequence[Task]) -> float:
        """The roofline of ``tasks``, one after the other."""
        return sum(map(roofline, self._all_parts(tasks, None)))

    def _all_parts(self, tasks: Sequence[Task], outside: Level | None) -> list[Parts]:
        streams = _Streams(self, tasks, outside)
        return [self._parts(task, streams.nanoseconds(number)) for number, task in enumerate(tasks)]

    def _parts(self, task: Task, streams: float) -> Parts:
        """Nanoseconds of ``task`` by part."""
        parts: Parts = defaultdict(float, launch=LAUNCH_NS, streams=streams)
        if task.anchor is not None:
            parts["anchor"] = self._contraction(task.anchor)
            self._add_epilogue(task, task.anchor, parts)
        elif any(Trait.REDUCTION in node.op.traits for node in task.rest):
            self._add_rows(task, parts)
        else:
            self._add_arithmetic(task.rest, "flat", parts)
        return parts

    def _add_arithmetic(self, nodes: Sequence[Node], place: str, parts: Parts) -> None:
        for node in nodes:
            steps = _operations(node)
            parts[f"{place}_{'costly' if steps >= COSTLY else 'cheap'}"] += self._arithmetic(node, steps)

    def _arithmetic(self, node: Node, steps: int) -> float:
        """Nanoseconds of ``steps`` operations on each element that ``node`` reads or makes. A function of
        many steps takes as long for half of a vector; wide elements need more of them.
        """
        value = self._walked(node)
        slower = 64 / self.machine.vector_bytes if steps >= COSTLY else 1
        wide = 2.5 if value.type.dtype.bits == 64 and steps >= COSTLY else 1
        return self._vectors(value) * steps * OPERATION_CYCLES * slower * wide * self._cycle

    @staticmethod
    def _walked(node: Node) -> Value:
        """What has as many elements as the loop of ``node`` has iterations."""
        return node.operand(0) if Trait.REDUCTION in node.op.traits else node.output

    @property
    def _cycle(self) -> float:
        return 1000 / self.machine.clock_mhz

    def _vectors(self, value: Value) -> float:
        """Of 64 bytes, each element as wide as it is computed."""
        return self.size(value.type.elements) * (8 if value.type.dtype.bits == 64 else 4) / 64

    def _add_epilogue(self, task: Task, anchor: Node, parts: Parts) -> None:
        if not task.rest:
            return
        place = "store" if fits_store(task, anchor) else "hook"
        self._add_arithmetic(task.rest, place, parts)
        elements = anchor.output.type.elements
        others = [v for v in task.reads() if v not in anchor.inputs and v.type.elements == elements]
        place_read = "image_read" if isinstance(anchor.op, Conv) and place == "store" else f"{place}_read"
        parts[place_read] = sum(map(self._vectors, others)) * self._cycle
        if not isinstance(anchor.op, Conv) and self._aliases(anchor.output):
            parts["aliased"] = self._vectors(anchor.output) * (1 + len(others)) * self._cycle
        costly = sum(_operations(node) >= COSTLY for node in task.rest)
        parts["crowded"] = parts["hook_costly"] * max(0, costly - 1)
        if place == "hook":
            parts["hook_call"] = self._tiles(anchor) * CALL_NS

    def _tiles(self, anchor: Node) -> int:
        """Of the result of ``anchor``; an image's columns are its channels."""
        dims = anchor.output.type.dims
        columns = max(1, self.size(dims[1 if isinstance(anchor.op, Conv) else -1]))
        rows = self.size(anchor.output.type.elements) // columns
        return -(-rows // TILE[0]) * -(-columns // TILE[1])

    def _aliases(self, value: Value) -> bool:
        """Whether the rows of a tile of ``value`` share sets of the first-level cache."""
        return self.size(value.type.dims[-1]) % self.machine.l1_period == 0

    def _add_rows(self, task: Task, parts: Parts) -> None:
        """A region with reductions: rows are walked in stages, each of which ends with a reduction. What a
        later stage reads again is loaded again, or kept in memory of the thread.
        """
        reductions = [node for node in task.rest if Trait.REDUCTION in node.op.traits]
        value = reductions[0].operand(0)
        whole = [node for node in task.rest if self._walked(node).type.elements == value.type.elements]
        self._add_arithmetic(whole, "row", parts)
        for node in task.rest:
            if node not in whole:  # of one element a row
                steps = self.size(node.output.type.elements) * _operations(node)
                parts["row_scalar"] += steps * OPERATION_CYCLES * self._cycle
        folded = reduction_op(reductions[0].op).resolved(len(value.type.dims))
        length = math.prod(self.size(value.type.dims[axis]) for axis in folded)
        again, kept = _stages(task, value.type.elements)
        walked = {"walk": sum(map(self._vectors, again)), "kept": sum(map(self._vectors, kept))}
        if len(value.type.dims) - 1 not in folded:
            walked = {"columns": self._vectors(value) * len(reductions) + sum(walked.values())}
        for name, vectors in walked.items():
            parts[name] += vectors * WALK_CYCLES * self._cycle
        self._add_spill(4 * length, [*again, *kept], parts)

    def _add_spill(self, row: int, again: Sequence[Value], parts: Parts) -> None:
        """Rows of so many bytes that do not stay in the first-level cache while ``again`` are used again."""
        held = row * (1 + len(again))
        if again and held > self.machine.l1.bytes:
            level = self.machine.l3 if held > self.machine.l2.bytes * 4 // 5 else self.machine.l2
            parts["spill"] += sum(map(self._vectors, again)) * 64 / level.moved

    def _contraction(self, anchor: Node) -> float:
        """Nanoseconds of the contraction alone."""
        result = anchor.output
        elements, x, w = self.size(result.type.elements), anchor.operand(0), anchor.operand(1)
        lanes = self.machine.lanes
        if not isinstance(anchor.op, Conv):
            terms = self.size(x.type.dims[-1])
            return self._predicted(Work(fmas=elements * terms, efficiency=GEMM))
        cout, cin, *kernel = (self.size(dim) for dim in w.type.dims)
        taps = math.prod(kernel)
        if cin == 1 and anchor.op.group > 1:
            return self._predicted(blocked_depthwise_work(lanes, -(-elements // lanes), taps))
        plain = kernel == [3, 3] and set(anchor.op.strides) <= {1} and anchor.op.group == 1
        efficiency = WINOGRAD if plain and min(cin, cout) >= lanes else DIRECT
        pixels = elements // max(cout, 1)
        blocks = -(-cout // lanes)
        return self._predicted(Work(fmas=pixels * blocks * lanes * cin * taps, efficiency=efficiency))

    def _predicted(self, work: Work) -> float:
        return _number(predict(work, self.machine))

    def bytes(self, value: Value) -> int:
        """Of all elements."""
        return -(-self.size(value.type.elements) * value.type.dtype.bits // 8)


class _Streams:
    """Where the values of tasks, which run one after the other, lie when a task moves them: in the smallest
    cache that holds what was moved since they were moved before.
    """

    def __init__(self, model: EditModel, tasks: Sequence[Task], outside: Level | None) -> None:
        machine = model.machine
        self._levels = (machine.l1, machine.l2, machine.l3, machine.memory)
        self._outside = outside
        self._moved = [(*task.reads(), *task.writes()) for task in tasks]
        self._bytes = {value: model.bytes(value) for moved in self._moved for value in moved}
        self._total = sum(self._bytes.values())
        self._made = {value for task in tasks for node in task.nodes for value in node.outputs}

    def nanoseconds(self, number: int) -> float:
        """To move all values of task ``number``."""
        return sum(self._bytes[v] / self._level(v, number).moved for v in self._moved[number])

    def _level(self, value: Value, number: int) -> Level:
        earlier = next((k for k in range(number - 1, -1, -1) if value in self._moved[k]), None)
        if earlier is not None:
            return self._holding(self._between(earlier, number))
        if self._outside is not None and value not in self._made and not is_constant(value):
            return max(self._holding(self._total), self._outside, key=lambda level: level.bytes)
        return self._holding(self._total)

    def _between(self, first: int, second: int) -> int:
        """Bytes moved from the middle of one task to the middle of another."""
        ends = sum(self._bytes[v] for k in (first, second) for v in self._moved[k]) // 2
        return ends + sum(self._bytes[v] for k in range(first + 1, second) for v in self._moved[k])

    def _holding(self, total: int) -> Level:
        return next(level for level in self._levels if total <= level.bytes)


def roofline(parts: Mapping[str, float]) -> float:
    """Nanoseconds of one task: streams and arithmetic overlap, launches do not."""
    streams = sum(parts.get(name, 0.0) for name in _STREAMS)
    busy = sum(parts.get(name, 0.0) for name in PARTS if name not in (*_STREAMS, "launch", "crowded"))
    longer, shorter = max(streams, busy), min(streams, busy)
    return parts.get("launch", 0.0) + longer + OVERLAP * shorter


def fits_store(task: Task, anchor: Node) -> bool:
    """Whether the contraction's own store computes the rest: a chain of scale, bias and residual, then of
    clipping, with one result.
    """
    if len(task.writes()) > 1:
        return False
    value, clipped = anchor.output, False
    for node in task.nodes:
        if node is anchor:
            continue
        others = [v for v in node.inputs if v is not value]
        if len(others) != len(node.inputs) - 1:
            return False
        literal = all(v is not None and is_constant(v) and v.type.elements == 1 for v in others)
        if isinstance(node.op, Relu | Clip) or (isinstance(node.op, Max | Min) and literal):
            clipped = True
        elif Trait.VIEW not in node.op.traits and not _is_sum_step(
            node, clipped, literal, value is anchor.output
        ):
            return False
        value = node.output
    return True


def _is_sum_step(node: Node, clipped: bool, literal: bool, first: bool) -> bool:
    """Whether ``node`` adds a tensor before anything is clipped, or scales the contraction's own result."""
    if isinstance(node.op, Add):
        return not clipped and not literal
    return isinstance(node.op, Mul) and literal and first


def _stages(task: Task, elements: Dim) -> tuple[list[Value], list[Value]]:
    """Values of so many ``elements`` that stages behind their first one read: those from outside, and those
    that the task makes; once for each such stage.
    """
    stage: dict[Value, int] = {}
    readers: dict[Value, set[int]] = {}
    for node in task.nodes:
        operands = [v for v in node.inputs if v is not None]
        number = max((stage.get(v, 0) for v in operands), default=0)
        for value in operands:
            readers.setdefault(value, set()).add(number)
        stage[node.output] = number + (Trait.REDUCTION in node.op.traits)
    outside, inside = [], []
    for value, numbers in readers.items():
        if value.type.elements != elements:
            continue
        if value in stage:
            inside += [value] * len(numbers - {stage[value]})
        else:
            outside += [value] * (len(numbers) - 1)
    return outside, inside


def _operations(node: Node) -> int:
    """Simple operations on each element."""
    if Trait.REDUCTION in node.op.traits or not node.op.has_expression():
        return 1
    return _operations_of(node.op, tuple(None if v is None else v.type.dtype for v in node.inputs))


@cache
def _operations_of(op: Op, dtypes: tuple[DType | None, ...]) -> int:
    if is_plugin_op(type(op)):
        return COSTLY
    operands = [None if d is None else Ref(f"x{k}", d.computed) for k, d in enumerate(dtypes)]
    return max(1, sum(FUNCTIONS.get(part.function, 1) for part in set(_applied(op.expression(*operands)))))


def _applied(value: Scalar) -> Iterator[Apply]:
    """Functions in ``value``; what occurs in several places is computed once."""
    match value:
        case Apply(_, operands):
            yield value
            for operand in operands:
                yield from _applied(operand)
        case Cast(operand) | Bits(operand):
            yield from _applied(operand)
