"""Estimates the time of kernels before they are built: a roofline of *parts*, which are nanoseconds by kind
of work and by the place where it is done (S. Williams et al., "Roofline", 2009).

An operation costs more in a hook, which a contraction calls on each tile, than in a loop of its own. A row
that several reductions read costs more than its arithmetic.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final

from graphwright.cost.images import blocked_depthwise_work
from graphwright.cost.machine import Level, Machine
from graphwright.cost.operations import COSTLY, operations_of
from graphwright.cost.predict import Work, predict
from graphwright.fusion.benefit import ROW_SHARE
from graphwright.fusion.kernel_nodes import KernelNodes, fits_store, reread_values
from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.graph import Node, Value
from graphwright.ir.op import Trait, reduction_op
from graphwright.ir.symbols import Dim, evaluate
from graphwright.layout.convolution_costs import blocked_efficiency
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.spatial import is_by_channel

OPERATION_CYCLES: Final = 0.625
"""Cycles of a simple operation on 64 bytes."""
WALK_CYCLES: Final = 1.0
"""Cycles to load 64 bytes of a row again."""
TILE: Final = (14, 16)
"""Rows and columns of the tile that a hook processes."""
GEMM: Final = 85
"""Percent of the peak rate that a matrix multiplication reaches."""
OVERLAP: Final = 0.2
"""The share of the shorter of arithmetic and memory streams that does not overlap with the longer."""

PARTS: Final = (
    *("launch", "anchor", "streams", "flat_cheap", "flat_costly"),
    *("row_cheap", "row_costly", "row_scalar", "walk", "kept", "columns", "spill"),
    *("store_cheap", "store_read", "image_read", "hook_cheap", "hook_costly", "crowded"),
    *("hook_read", "hook_call", "aliased"),
)
"""Kinds of work: ``anchor`` is the contraction, ``flat`` a loop over all elements, ``row`` a loop over rows
with reductions, ``store`` the simple epilogue of a library kernel, ``hook`` a generated epilogue. ``walk``
and ``kept``: operands and intermediate values that a row reads again; ``columns``: reductions over other axes
than the last; ``spill``: rows that exceed the L1 cache; ``crowded``: costly operations that share the
registers of a hook with others; ``aliased``: rows of a tile in the same sets of the L1 cache.
"""
_STREAMS: Final = ("streams", "spill")

Parts = defaultdict[str, float]
"""Nanoseconds by part."""


def roofline(parts: Mapping[str, float]) -> float:
    """Nanoseconds of one kernel: memory streams and arithmetic overlap, launches do not."""
    streams = sum(parts.get(name, 0.0) for name in _STREAMS)
    busy = sum(parts.get(name, 0.0) for name in PARTS if name not in (*_STREAMS, "launch", "crowded"))
    longer, shorter = max(streams, busy), min(streams, busy)
    return parts.get("launch", 0.0) + longer + OVERLAP * shorter


def constant_size(dim: Dim) -> int:
    """The value of ``dim``, which has no symbols."""
    return evaluate(dim, {})


class KernelCosts:
    """Estimates the parts of kernels on ``machine``; ``size`` gives a number for each symbolic size."""

    def __init__(self, machine: Machine, size: Callable[[Dim], int]) -> None:
        self.machine = machine
        self.size = cache(size)
        self._cycle = 1000 / machine.clock_mhz
        self._levels = (machine.l1, machine.l2, machine.l3, machine.memory)
        self._known: dict[tuple[KernelNodes | Level | None, ...], list[Parts]] = {}

    def parts(self, kernels: Sequence[KernelNodes], outside: Level | None = None) -> list[Parts]:
        """The parts of ``kernels``, which run one after the other. ``outside``: the memory that holds their
        operands; by default the smallest cache that holds all values of the kernels.
        """
        key = *kernels, outside
        if key not in self._known:
            streams = self._streams(kernels, outside)
            self._known[key] = [self._parts(k, moved) for k, moved in zip(kernels, streams, strict=True)]
        return self._known[key]

    def nanoseconds(self, kernels: Sequence[KernelNodes]) -> float:
        """The estimated time of ``kernels``, which run one after the other."""
        return sum(map(roofline, self.parts(kernels)))

    def _parts(self, kernel: KernelNodes, streams: float) -> Parts:
        parts: Parts = defaultdict(float, launch=self.machine.launch_ns, streams=streams)
        if kernel.anchor is not None:
            parts["anchor"] = self._contraction(kernel.anchor)
            self._add_epilogue(kernel, kernel.anchor, parts)
        elif any(Trait.REDUCTION in node.op.traits for node in kernel.rest):
            self._add_rows(kernel, parts)
        else:
            self._add_arithmetic(kernel.rest, "flat", parts)
        return parts

    def _add_arithmetic(self, nodes: Sequence[Node], place: str, parts: Parts) -> None:
        for node in nodes:
            operations = operations_of(node)
            parts[f"{place}_{'costly' if operations >= COSTLY else 'cheap'}"] += self._arithmetic(
                node, operations
            )

    def _arithmetic(self, node: Node, operations: int) -> float:
        """Nanoseconds of ``operations`` operations on each element. A function of many operations takes as
        long on half a vector; 64-bit elements need longer functions.
        """
        value = _iterated(node)
        slower = 64 / self.machine.vector_bytes if operations >= COSTLY else 1
        wide = 2.5 if value.type.dtype.bits == 64 and operations >= COSTLY else 1
        return self._vectors(value) * operations * OPERATION_CYCLES * slower * wide * self._cycle

    def _vectors(self, value: Value) -> float:
        """The number of 64-byte vectors, with elements as wide as they are in arithmetic."""
        return self.size(value.type.elements) * (8 if value.type.dtype.bits == 64 else 4) / 64

    def _add_epilogue(self, kernel: KernelNodes, anchor: Node, parts: Parts) -> None:
        if not kernel.rest:
            return
        place = "store" if fits_store(kernel, anchor) else "hook"
        self._add_arithmetic(kernel.rest, place, parts)
        elements = anchor.output.type.elements
        others = [v for v in kernel.reads() if v not in anchor.inputs and v.type.elements == elements]
        place_read = "image_read" if isinstance(anchor.op, Conv) and place == "store" else f"{place}_read"
        parts[place_read] = sum(map(self._vectors, others)) * self._cycle
        if not isinstance(anchor.op, Conv) and self._aliases(anchor.output):
            parts["aliased"] = self._vectors(anchor.output) * (1 + len(others)) * self._cycle
        costly = sum(operations_of(node) >= COSTLY for node in kernel.rest)
        parts["crowded"] = parts["hook_costly"] * max(0, costly - 1)
        if place == "hook":
            parts["hook_call"] = self._tiles(anchor) * self.machine.hook_call_ns

    def _tiles(self, anchor: Node) -> int:
        """Tiles of the result of ``anchor``; the columns of an image are its channels."""
        dims = anchor.output.type.dims or (1,)
        columns = max(1, self.size(dims[1 if isinstance(anchor.op, Conv) else -1]))
        rows = self.size(anchor.output.type.elements) // columns
        return -(-rows // TILE[0]) * -(-columns // TILE[1])

    def _aliases(self, value: Value) -> bool:
        """Whether the rows of a tile of ``value`` share sets of the L1 cache."""
        dims = value.type.dims
        return bool(dims) and self.size(dims[-1]) % self.machine.l1_period == 0

    def _add_rows(self, kernel: KernelNodes, parts: Parts) -> None:
        """A kernel with reductions reads rows in passes, each of which ends with a reduction. Values that a
        later pass reads are loaded again, or kept in memory of the thread.
        """
        reductions = [node for node in kernel.rest if Trait.REDUCTION in node.op.traits]
        value = reductions[0].operand(0)
        whole = [node for node in kernel.rest if _iterated(node).type.elements == value.type.elements]
        self._add_arithmetic(whole, "row", parts)
        axes = reduction_op(reductions[0].op).resolved(len(value.type.dims))
        length = math.prod(self.size(value.type.dims[axis]) for axis in axes)
        rows = 1 if length > self.machine.lane_row else self.machine.lanes  # rows that are computed together
        for node in kernel.rest:
            if node not in whole:  # of one element per row
                steps = self.size(node.output.type.elements) * operations_of(node) / rows
                parts["row_scalar"] += steps * OPERATION_CYCLES * self._cycle
        again, kept = reread_values(kernel, value.type.elements)
        reread = {"walk": sum(map(self._vectors, again)), "kept": sum(map(self._vectors, kept))}
        if len(value.type.dims) - 1 not in axes:
            reread = {"columns": self._vectors(value) * len(reductions) + sum(reread.values())}
        for name, vectors in reread.items():
            parts[name] += vectors * WALK_CYCLES * self._cycle
        self._add_spill(4 * length, [*again, *kept], parts)

    def _add_spill(self, row: int, again: Sequence[Value], parts: Parts) -> None:
        """Adds the time for rows of ``row`` bytes that leave the L1 cache before ``again`` are read again."""
        held = row * (1 + len(again))
        if again and held > self.machine.l1.bytes:
            level = self.machine.l3 if held > self.machine.l2.bytes * ROW_SHARE // 100 else self.machine.l2
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
        if is_by_channel(anchor.op.group, w.type.dims):
            return self._predicted(blocked_depthwise_work(lanes, -(-elements // lanes), taps))
        efficiency = blocked_efficiency(anchor.op, w, min(cin, cout), lanes)
        pixels = elements // max(cout, 1)
        blocks = -(-cout // lanes)
        return self._predicted(Work(fmas=pixels * blocks * lanes * cin * taps, efficiency=efficiency))

    def _predicted(self, work: Work) -> float:
        return constant_size(predict(work, self.machine))

    def _bytes(self, value: Value) -> int:
        return -(-self.size(value.type.elements) * value.type.dtype.bits // 8)

    def _streams(self, kernels: Sequence[KernelNodes], outside: Level | None) -> list[float]:
        """Nanoseconds in which each kernel loads its operands and stores its results. A value is in the
        smallest cache that holds the bytes moved since it was moved before.
        """
        moved = [(*kernel.reads(), *kernel.writes()) for kernel in kernels]
        sizes = {value: self._bytes(value) for values in moved for value in values}
        before = [0]  # bytes that the kernels before each one move
        for values in moved:
            before.append(before[-1] + sum(map(sizes.__getitem__, values)))
        middle = [(before[k] + before[k + 1]) // 2 for k in range(len(moved))]
        everything = self._holding(sum(sizes.values()))
        computed = {value for kernel in kernels for node in kernel.nodes for value in node.outputs}
        last: dict[Value, int] = {}
        found = []
        for number, values in enumerate(moved):
            time = 0.0
            for value in values:
                level = everything
                if value in last:
                    level = self._holding(middle[number] - middle[last[value]])
                elif outside is not None and value not in computed and not is_constant(value):
                    level = max(everything, outside, key=lambda each: each.bytes)
                time += sizes[value] / level.moved
            last |= dict.fromkeys(values, number)
            found.append(time)
        return found

    def _holding(self, total: int) -> Level:
        return next((level for level in self._levels if total <= level.bytes), self._levels[-1])


def _iterated(node: Node) -> Value:
    """The value whose elements the loop of ``node`` iterates over."""
    return node.operand(0) if Trait.REDUCTION in node.op.traits else node.output
