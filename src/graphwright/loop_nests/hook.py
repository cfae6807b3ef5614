"""Epilogue kernels. The library kernel of a contraction, or of a dual GEMM, calls the epilogue on each
finished tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphwright.ir.builtin.fused import Schedule
from graphwright.ir.constants.pool import ConstantPool
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.loops.hook import HOOK_SIZES, tile_of
from graphwright.ir.loops.nodes import (
    Const,
    Index,
    Kernel,
    Kind,
    Let,
    Load,
    Loop,
    Ref,
    Scalar,
    Statement,
    Store,
)
from graphwright.ir.symbols import Dim, names_in, product, symbol
from graphwright.loop_nests.axes import Axis, join_axes
from graphwright.loop_nests.builder import NestBuilder, RegionKernel
from graphwright.records import replace


def hook_kernel(
    region: Graph,
    schedule: Schedule,
    anchors: Sequence[Value],
    groups: tuple[int, int],
    constants: ConstantPool,
    name: str,
) -> RegionKernel:
    """The epilogue of a region whose contractions compute ``anchors``, which have equal shapes.

    ``groups``: the number of batch dims of ``anchors``, and the number of row dims after them.
    """
    return _Hook(region, schedule, constants, name, anchors, groups).build()


class _Hook(NestBuilder):
    """An epilogue over the rows and columns of one tile, in the index space of the contraction's result.

    The row loop is inside the column loop: a tile has few columns, and values that are equal for all rows,
    such as a bias or polynomial coefficients, stay in registers.
    """

    symbolic = True

    def __init__(
        self,
        region: Graph,
        schedule: Schedule,
        constants: ConstantPool,
        name: str,
        anchors: Sequence[Value],
        groups: tuple[int, int],
    ) -> None:
        super().__init__(region, schedule, constants, name)
        self.anchors, self.groups = anchors, groups
        self.tile = tile_of(anchors[0].type.dtype, len(anchors))
        self.invariants: list[Let] = []
        """Loop-invariant operands, read outside the row loop."""

    def build(self) -> RegionKernel:
        region = self.finish(self._body())
        kernel = region.kernel
        hook = Kernel(kernel.name, (self.tile, *kernel.parameters), (*HOOK_SIZES, *kernel.sizes), kernel.body)
        return replace(region, kernel=hook)

    def _body(self) -> list[Statement]:
        parts = self._parts()
        self._index_axes(self._join_axes(parts))
        body = tuple(self._statements(dict(self._loads(symbol("c") if parts[2] else 0))))
        if not parts[2]:  # a single column: vectorize over rows
            return [Loop("r", Kind.VECTOR, symbol("rows"), (*self.invariants, *body))]
        rows = Loop("r", Kind.SERIAL, symbol("rows"), body)
        return [Loop("c", Kind.VECTOR, symbol("cols"), (*self.invariants, rows))]

    def _loads(self, column: Dim) -> Iterator[tuple[Value, Scalar]]:
        """Each contraction result, and its element in the tile."""
        for number, anchor in enumerate(self.anchors):
            side = () if len(self.anchors) == 1 else (number,)
            yield anchor, Load(self.tile, (symbol("r"), *side, column))

    def _statements(self, bound: dict[Value, Scalar]) -> Iterator[Statement]:
        """The statements for one element of the tile. ``bound``: values that already have an expression."""
        for anchor in self.anchors:
            if anchor in self.region.outputs:
                yield self._store_anchor(anchor, bound[anchor])
        contractions = [anchor.producer for anchor in self.anchors]
        for node in self.region:
            if node.is_constant or node in contractions:
                continue
            operands = [self._operand(node, p, bound) for p in range(len(node.inputs))]
            bound[node.output] = scalar = self.scalar(node, operands)
            if not self.is_inlined(node.output):
                name = self.temporary(node)
                yield Let(name, scalar)
                bound[node.output] = Ref(name, scalar.dtype)
            if node.output in self.region.outputs:
                yield self.store(node.output, bound[node.output])

    def _index_axes(self, part_of: Sequence[int]) -> None:
        """Computes the index of a tile element along each axis. ``part_of``: the part (batch, rows or
        columns) of each axis.
        """
        linear: list[Dim] = [symbol("batch"), symbol("row0") + symbol("r"), symbol("col0") + symbol("c")]
        for k, part in enumerate(part_of):
            later = zip(self.loops.extents[k + 1 :], part_of[k + 1 :], strict=True)
            inner = [extent for extent, other in later if other == part]
            index = linear[part] // product(inner) if inner else linear[part]
            self.loops.index.append(index % self.loops.extents[k] if part in part_of[:k] else index)

    def _operand(self, node: Node, position: int, bound: dict[Value, Scalar]) -> Scalar:
        value = node.operand(position)
        if value in bound:
            return bound[value]
        scalar = self.read(value)
        if isinstance(scalar, Const) or any(_varies(i) for i in self.index_along(self.axes_of[value])):
            return scalar
        self.invariants.append(Let(self.names.take("fixed"), scalar))
        bound[value] = Ref(self.invariants[-1].name, scalar.dtype)
        return bound[value]

    def _store_anchor(self, anchor: Value, scalar: Scalar) -> Store:
        axes = tuple(range(len(self.loops.extents)))
        return Store(self.buffer(anchor, axes), self.index_along(axes), scalar)

    def _parts(self) -> list[tuple[Axis, ...]]:
        """The batch, row and column axes."""
        dims, (batch, rows) = self.schedule.dims, self.groups
        axes = self.axes_of[self.anchors[0]]
        first, last = sum(dims[:batch]), sum(dims[: batch + rows])
        return [axes[:first], axes[first:last], axes[last:]]

    def _join_axes(self, parts: Sequence[tuple[Axis, ...]]) -> list[int]:
        """Joins axes of the same part that all values access together. Returns the part of each joined
        axis.
        """
        part_of = {axis: k for k, part in enumerate(parts) for axis in part}
        order = [axis for part in parts for axis in part]
        groups = join_axes(order, list(self.axes_of.values()), lambda a, b: part_of[a] != part_of[b])
        extents = [product([self.schedule.axes[axis] for axis in group]) for group in groups]
        self.loops.extents = [self.size(extent) for extent in extents]
        joined = {axis: k for k, group in enumerate(groups) for axis in group}
        self.axes_of = {v: tuple(dict.fromkeys(joined[a] for a in axes)) for v, axes in self.axes_of.items()}
        return [part_of[group[0]] for group in groups]


def _varies(index: Index) -> bool:
    """Whether ``index`` varies along the rows of a tile."""
    return isinstance(index, Scalar) or "r" in names_in(index)
