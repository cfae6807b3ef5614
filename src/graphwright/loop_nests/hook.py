"""A region as the epilogue of a contraction: called by the library's kernel on each finished tile."""

from __future__ import annotations

from graphwright.ir.constant import Constant
from graphwright.ir.graph import ConstantPool, Graph, Node, Value
from graphwright.ir.loops.hook import HOOK_SIZES
from graphwright.ir.loops.nodes import (
    Buffer,
    Kernel,
    Kind,
    Let,
    Level,
    Load,
    Loop,
    Ref,
    Scalar,
    Statement,
    Store,
)
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.loop_nests.axes import Axis, Nest, analyse
from graphwright.loop_nests.builder import NestBuilder, RegionKernel
from graphwright.records import replace


def hook_kernel(
    region: Graph, anchor: Value, groups: tuple[int, int], constants: ConstantPool, name: str
) -> RegionKernel:
    """The epilogue of a region whose contraction gives ``anchor``: called on tiles of it.

    ``groups``: how many leading dims of ``anchor`` are batch, and how many after these are rows.
    """
    body = [node for node in region if not isinstance(node.op, Constant) and node is not anchor.producer]
    return _Hook(region, analyse(body), constants, name, anchor, groups).build()


class _Hook(NestBuilder):
    """An epilogue: rows x columns of one tile, in the index space of the contraction's output."""

    symbolic = True

    def __init__(
        self,
        region: Graph,
        nest: Nest,
        constants: ConstantPool,
        name: str,
        anchor: Value,
        groups: tuple[int, int],
    ) -> None:
        super().__init__(region, nest, constants, name)
        self.anchor, self.groups = anchor, groups
        shape, strides = (symbol("rows"), symbol("cols")), (symbol("ld"), 1)
        self.tile = Buffer("tile", anchor.type.dtype, shape, Level.CACHE, strides)

    def build(self) -> RegionKernel:
        made = self.finish(self._body())
        kernel = made.kernel
        hook = Kernel(kernel.name, (self.tile, *kernel.parameters), (*HOOK_SIZES, *kernel.sizes), kernel.body)
        return replace(made, kernel=hook)

    def _body(self) -> list[Statement]:
        parts = self._parts()
        part_of = {axis: k for k, part in enumerate(parts) for axis in part}
        self.join_axes([a for part in parts for a in part], lambda a, b: part_of[a] != part_of[b])
        linear: list[Dim] = [symbol("batch"), symbol("row0") + symbol("r"), symbol("col0") + symbol("c")]
        for k, group in enumerate(self.loops.members):
            inner = [e for g, e in zip(self.loops.members[k + 1 :], self.loops.extents[k + 1 :], strict=True)
                     if part_of[g[0]] == part_of[group[0]]]  # fmt: skip
            outer = any(part_of[g[0]] == part_of[group[0]] for g in self.loops.members[:k])
            index = linear[part_of[group[0]]] // product(inner) if inner else linear[part_of[group[0]]]
            self.loops.index.append(index % self.loops.extents[k] if outer else index)
        column = symbol("c") if parts[2] else 0
        bound: dict[Value, Scalar] = {self.anchor: Load(self.tile, (symbol("r"), column))}
        inner_body: list[Statement] = []
        if self.anchor in self.region.outputs:
            inner_body.append(self._store_anchor(bound[self.anchor]))
        for node in self.region:
            if node.output not in self.nest.places:
                continue
            operands = [self._operand(node, p, bound) for p in range(len(node.inputs))]
            name = self.temporary(node)
            scalar = self.scalar(node, operands)
            inner_body.append(Let(name, scalar))
            bound[node.output] = Ref(name, scalar.dtype)
            if node.output in self.region.outputs:
                inner_body.append(self.store(node.output, bound[node.output]))
        if not parts[2]:  # one column: the rows are the vector
            return [Loop("r", Kind.VECTOR, symbol("rows"), tuple(inner_body))]
        columns = Loop("c", Kind.VECTOR, symbol("cols"), tuple(inner_body))
        return [Loop("r", Kind.SERIAL, symbol("rows"), (columns,))]

    def _operand(self, node: Node, position: int, bound: dict[Value, Scalar]) -> Scalar:
        value = node.operand(position)
        return bound[value] if value in bound else self.read(value)

    def _store_anchor(self, scalar: Scalar) -> Store:
        walked = tuple(range(len(self.loops.members)))
        return Store(self.buffer(self.anchor, walked), self.at(walked), scalar)

    def _parts(self) -> list[tuple[Axis, ...]]:
        place, (batch, rows) = self.nest.reads[self.anchor], self.groups
        cuts = (place[:batch], place[batch : batch + rows], place[batch + rows :])
        return [self.nest.axes_of(part) for part in cuts]
