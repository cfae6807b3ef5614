"""From a fused region to the loop IR of one kernel.

The region's nodes lie on one system of axes (``fusion.axes``). Axes that every operand walks together are joined, the
innermost becomes the vector axis, the others are the grid. Reductions cut the work into stages: a stage computes what
the reductions so far allow, in one pass over the reduced axes; values that are costly to compute and needed again in a
later stage are kept in a row buffer, cheap ones are computed again (the row is in the first-level cache by then).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from graphwright.fusion.axes import Axis, Nest, Place, analyse
from graphwright.ir.constant import Constant
from graphwright.ir.graph import ConstantPool, Graph, Node, Value
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Apply,
    Buffer,
    Cast,
    Const,
    Index,
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
    cast,
)
from graphwright.ir.names import UniqueNames, identifier
from graphwright.ir.op import Trait
from graphwright.ir.symbols import Dim, ceildiv, minimum, product, symbol
from graphwright.ir.types import BF16, F16, F32, DType

COLUMN_BLOCK = 256
"""Columns that a reduction over an outer axis carries at a time; its accumulators stay in the first-level cache."""

COSTLY = frozenset(
    "exp expm1 log log1p sigmoid tanh erf sin cos tan asin acos atan sinh cosh asinh acosh atanh atan2 pow".split()
)
"""Functions worth keeping a result of rather than computing it again."""


@dataclass(frozen=True)
class RegionKernel:
    """The kernel, the region value behind each parameter (inputs, then outputs), and the numbers behind its sizes."""

    kernel: Kernel
    parameters: tuple[Value, ...]
    output_count: int
    sizes: tuple[Dim, ...]
    elements: Dim
    cost: float
    """Estimated nanoseconds per element of the domain, on one core."""
    rereads: bool = False
    """Whether operands are read again after the first result was stored."""


def region_kernel(region: Graph, constants: ConstantPool, name: str) -> RegionKernel:
    """The kernel of a region of elementwise ops, views and row reductions."""
    body = [node for node in region if not isinstance(node.op, Constant)]
    return _Region(region, analyse(body), constants, name).build()


def hook_kernel(region: Graph, anchor: Value, groups: tuple[int, int], constants: ConstantPool, name: str) -> RegionKernel:
    """The epilogue of a region whose contraction gives ``anchor``: called on tiles of its [batch, rows, columns].

    ``groups``: how many leading dims of ``anchor`` are batch, and how many after these are rows.
    """
    body = [node for node in region if not isinstance(node.op, Constant) and node is not anchor.producer]
    return _Hook(region, analyse(body), constants, name, anchor, groups).build()


@dataclass
class _Loops:
    """Joined axes: index and extent of each, and which of them a place walks."""

    members: list[tuple[Axis, ...]]
    extents: list[Dim]
    index: list[Dim] = field(default_factory=list)


class _Emitter:
    """What the two kinds of kernels share: joined axes, named sizes, parameters, scalar expressions of nodes."""

    symbolic = False
    """Whether numbers become size arguments too, so that layers of other sizes share the kernel."""

    def __init__(self, region: Graph, nest: Nest, constants: ConstantPool, name: str) -> None:
        self.region, self.nest, self.constants, self.name = region, nest, constants, name
        self.outputs = set(region.outputs)
        self.names = UniqueNames()
        for taken in ("tile", "batch", "row0", "rows", "col0", "cols", "ld"):
            self.names.take(taken)
        self.size_names: dict[Dim, str] = {}
        self.buffers: dict[tuple[Value, tuple[int, ...]], Buffer] = {}
        self.order: list[tuple[Value, Buffer]] = []
        self.loops = _Loops([], [])
        self.cost = 0.0

    def size(self, dim: Dim) -> Dim:
        """``dim`` as the kernel knows it: a number, or a size argument of its own."""
        if isinstance(dim, int) and not self.symbolic:
            return dim
        if dim not in self.size_names:
            self.size_names[dim] = self.names.take(f"n{len(self.size_names)}")
        return symbol(self.size_names[dim])

    def join_axes(self, domain: Sequence[Axis], borders: Callable[[Axis, Axis], bool]) -> None:
        """Merge neighbours that every place walks together, unless ``borders`` keeps them apart."""
        places = [self.nest.axes_of(p) for p in (*self.nest.places.values(), *self.nest.reads.values())]
        groups: list[tuple[Axis, ...]] = []
        for axis in domain:
            if groups and not borders(groups[-1][-1], axis) and all(_together(p, groups[-1][-1], axis) for p in places):
                groups[-1] = (*groups[-1], axis)
            else:
                groups.append((axis,))
        extents = [self.size(product([self.nest.axes.extents[a] for a in group])) for group in groups]
        self.loops = _Loops(groups, extents)

    def walked(self, place: Place) -> tuple[int, ...]:
        """Positions of the joined axes that ``place`` walks, outermost first."""
        axes = set(self.nest.axes_of(place))
        return tuple(i for i, group in enumerate(self.loops.members) if axes & set(group))

    def buffer(self, value: Value, walked: tuple[int, ...]) -> Buffer:
        """The parameter behind ``value``, read or written along these joined axes."""
        key = (value, walked)
        if key not in self.buffers:
            made = Buffer(self.names.take("y" if value in self.outputs else "x"), value.type.dtype, tuple(self.loops.extents[i] for i in walked))
            self.buffers[key] = made
            self.order.append((value, made))
        return self.buffers[key]

    def at(self, walked: Iterable[int]) -> tuple[Index, ...]:
        return tuple(self.loops.index[i] for i in walked)

    def read(self, value: Value) -> Scalar:
        """An operand from outside: a literal if it is a constant inside the region, else a load."""
        if value.producer is not None and isinstance(value.producer.op, Constant):
            return Const(self.constants[value.producer.op.value].item(), _compute(value.type.dtype))
        walked = self.walked(self.nest.reads[value])
        return cast(Load(self.buffer(value, walked), self.at(walked)), _compute(value.type.dtype))

    def store(self, value: Value, scalar: Scalar) -> Store:
        walked = self.walked(self.nest.places[value])
        return Store(self.buffer(value, walked), self.at(walked), cast(scalar, value.type.dtype))

    def scalar(self, node: Node, operands: Sequence[Scalar]) -> Scalar:
        """The expression of a node that folds nothing."""
        if Trait.VIEW in node.op.traits:
            return operands[0]
        if Trait.REDUCTION in node.op.traits:  # over axes of size 1
            result: Scalar = node.op.finish(node.op.prepare(operands[0]), 1)  # type: ignore[attr-defined]
        else:
            result = cast(node.op.expression(*operands), _compute(node.output.type.dtype))
        self.cost += _cost(result)
        return result

    def folds(self, node: Node) -> bool:
        """Whether ``node`` is a reduction over axes of the loop."""
        return bool(self.nest.folded.get(node))

    def temporary(self, node: Node) -> str:
        return self.names.take(identifier(node.op.name.lower(), "t"))

    def finish(self, body: Sequence[Statement]) -> RegionKernel:
        order = sorted(self.order, key=lambda item: item[0] in self.outputs)
        kernel = Kernel(
            self.name,
            tuple(buffer for _, buffer in order),
            tuple(self.size_names.values()),
            tuple(body),
        )
        true_size = {symbol(name): dim for dim, name in self.size_names.items()}
        elements = product([true_size.get(e, e) for e in self.loops.extents])
        return RegionKernel(
            kernel,
            tuple(value for value, _ in order),
            sum(value in self.outputs for value, _ in order),
            tuple(self.size_names),
            elements,
            max(self.cost, 0.05),
        )


class _Region(_Emitter):
    """A kernel of its own: grid over the outer axes, stages between reductions."""

    def build(self) -> RegionKernel:
        nest = self.nest
        reduced = set(nest.reduced)
        self.join_axes(nest.domain, lambda a, b: (a in reduced) != (b in reduced))
        self.is_reduced = [bool(set(group) & reduced) for group in self.loops.members]
        self.columns = any(self.is_reduced) and not self.is_reduced[-1]
        self.stages = self._stages()
        self.bound: dict[Value, Scalar] = {}
        self.kept: dict[Value, Buffer] = {}
        self.accumulators: dict[Value, Buffer] = {}
        self.inner: list[Statement] = []
        self.keep = self._choose_kept()
        self._name_axes()
        body: list[Statement] = []
        for stage in range(1 + max(self.stages.values(), default=0)):
            body += self._rows(stage)
            body += self._pass(stage)
        rereads = bool(nest.reduced)  # a later pass walks the row again
        return replace(self.finish(self._grid(body)), rereads=rereads)

    # -- axes ------------------------------------------------------------------------------------------------------

    def _name_axes(self) -> None:
        """Index expressions of the joined axes; columns under a reduction are walked in blocks."""
        last = len(self.loops.members) - 1
        self.axis_names = [
            self.names.take("r" if reduced else "i" if k < last else "v") for k, reduced in enumerate(self.is_reduced)
        ]
        self.loops.index = [symbol(name) for name in self.axis_names]
        self.lane_extent: Dim = self.loops.extents[last] if self.loops.members else 1
        self.block_name = ""
        if self.columns and not (isinstance(self.lane_extent, int) and self.lane_extent <= COLUMN_BLOCK):
            self.block_name = self.names.take("b")
            first = COLUMN_BLOCK * symbol(self.block_name)
            self.lane_extent = minimum(COLUMN_BLOCK, self.loops.extents[last] - first)
            self.loops.index[last] = first + symbol(self.axis_names[last])

    def _grid(self, body: Sequence[Statement]) -> list[Statement]:
        """Wrap the parallel loops around ``body``."""
        last = len(self.loops.members) - 1
        axes = [
            (name, extent)
            for k, (name, extent) in enumerate(zip(self.axis_names, self.loops.extents, strict=True))
            if not self.is_reduced[k] and k != last
        ]
        if self.block_name:
            axes.append((self.block_name, ceildiv(self.loops.extents[last], COLUMN_BLOCK)))
        statements = list(body)
        for name, extent in reversed(axes):
            statements = [Loop(name, Kind.PARALLEL, extent, tuple(statements))]
        return statements

    def _over_reduced(self, body: Sequence[Statement]) -> list[Statement]:
        """One pass over the reduced axes (and the lanes)."""
        statements = list(body)
        last = len(self.loops.members) - 1
        if last >= 0 and not self.is_reduced[last]:
            statements = [Loop(self.axis_names[last], Kind.VECTOR, self.lane_extent, tuple(statements))]
        for k in reversed([k for k, reduced in enumerate(self.is_reduced) if reduced]):
            kind = Kind.VECTOR if k == last else Kind.REDUCE
            statements = [Loop(self.axis_names[k], kind, self.loops.extents[k], tuple(statements))]
        return statements

    # -- stages ----------------------------------------------------------------------------------------------------

    def _nodes(self) -> list[Node]:
        return [node for node in self.region if node.output in self.nest.places]

    def _stages(self) -> dict[Value, int]:
        """The pass in which each value can be had: a reduction's result one after the pass that folds it."""
        stages: dict[Value, int] = {}
        for node in self._nodes():
            stage = max((stages.get(v, 0) for v in node.inputs if v is not None), default=0)
            stages[node.output] = stage + self.folds(node)
        return stages

    def _is_row(self, value: Value) -> bool:
        """Whether ``value`` does not vary along the reduced axes."""
        axes = set(self.nest.axes_of(self.nest.places[value]))
        return bool(self.nest.reduced) and not axes & set(self.nest.reduced)

    def _choose_kept(self) -> set[Value]:
        """Values that vary along the row, cost more than a load, and are wanted in a later pass."""
        if self.columns:
            return set()
        kept = set()
        for node in self._nodes():
            value = node.output
            if self._is_row(value) or not _is_costly(node, self.nest):
                continue
            later = [n for n in value.users if n.output in self.stages and self._pass_of(n) > self.stages[value]]
            if later:
                kept.add(value)
        return kept

    def _pass_of(self, node: Node) -> int:
        """The pass in which ``node`` itself is computed."""
        return self.stages[node.output] - self.folds(node)

    def _rows(self, stage: int) -> list[Statement]:
        """Values of this stage that do not vary along the reduced axes."""
        nodes = [
            n
            for n in self._nodes()
            if self._is_row(n.output) and not self.folds(n) and self.stages[n.output] == stage
        ]
        finished = [n for n in self._nodes() if self.folds(n) and self.stages[n.output] == stage]
        statements: list[Statement] = []
        for node in (*finished, *nodes):
            statements += self._row_value(node)
        if not self.columns or not statements:
            return statements
        allocations = [s for s in statements if isinstance(s, Alloc)]
        rest = tuple(s for s in statements if not isinstance(s, Alloc))
        last = len(self.loops.members) - 1
        self.bound = {}  # lets end with their loop; the rows are kept
        return [*allocations, Loop(self.axis_names[last], Kind.VECTOR, self.lane_extent, rest)]

    def _row_value(self, node: Node) -> list[Statement]:
        value, name = node.output, self.temporary(node)
        if self.folds(node):
            count = product([e for e, reduced in zip(self.loops.extents, self.is_reduced, strict=True) if reduced])
            accumulator = self.accumulators[value]
            scalar = node.op.finish(Load(accumulator, self._lane_index()), count)  # type: ignore[attr-defined]  # REDUCTION trait
        else:
            scalar = self.scalar(node, [self._operand(node, p) for p in range(len(node.inputs))])
        statements: list[Statement] = [Let(name, scalar)]
        self.bound[value] = Ref(name, scalar.dtype)
        if self.columns:
            row = Buffer(self.names.take("row"), scalar.dtype, (COLUMN_BLOCK,), Level.CACHE)
            self.kept[value] = row
            statements = [Alloc(row), *statements, Store(row, self._lane_index(), self.bound[value])]
        if value in self.region.outputs:
            statements.append(self.store(value, self.bound[value]))
        return statements

    def _lane_index(self) -> tuple[Index, ...]:
        return (symbol(self.axis_names[-1]),) if self.columns else ()

    def _pass(self, stage: int) -> list[Statement]:
        """One pass over the row: fold this stage's reductions, keep and store this stage's values."""
        reductions = [n for n in self._nodes() if self.folds(n) and self._pass_of(n) == stage]
        wanted = [
            n.output
            for n in self._nodes()
            if not self._is_row(n.output)
            and self.stages[n.output] == stage
            and (n.output in self.region.outputs or n.output in self.keep)
        ]
        if not reductions and not wanted:
            return []
        outer_bound = dict(self.bound)
        self.inner = []
        allocations: list[Statement] = []
        for value in wanted:
            scalar = self._value(value)
            if value in self.keep:
                row = self._row_buffer(value, scalar.dtype)
                allocations.append(Alloc(row))
                self.inner.append(Store(row, self._reduced_index(), scalar))
            if value in self.region.outputs:
                self.inner.append(self.store(value, scalar))
        for node in reductions:
            accumulator = self._accumulator(node)
            allocations.append(accumulator)
            operand = node.op.prepare(self._operand(node, 0))  # type: ignore[attr-defined]  # REDUCTION trait
            self.cost += _cost(operand) + 0.05
            self.inner.append(
                Accumulate(accumulator.buffer, self._lane_index(), node.op.combiner, operand)  # type: ignore[attr-defined]
            )
        statements = [*allocations, *self._over_reduced(self.inner)]
        self.bound = outer_bound
        return statements

    def _accumulator(self, node: Node) -> Alloc:
        dtype = _compute(node.output.type.dtype)
        shape: tuple[Dim, ...] = (COLUMN_BLOCK,) if self.columns else ()
        level = Level.CACHE if self.columns else Level.REGISTER
        buffer = Buffer(self.names.take("acc"), dtype, shape, level)
        self.accumulators[node.output] = buffer
        return Alloc(buffer, node.op.identity(dtype))  # type: ignore[attr-defined]  # REDUCTION trait

    def _row_buffer(self, value: Value, dtype: DType) -> Buffer:
        extents = tuple(e for e, reduced in zip(self.loops.extents, self.is_reduced, strict=True) if reduced)
        buffer = Buffer(self.names.take("row"), dtype, extents, Level.CACHE)
        self.kept[value] = buffer
        return buffer

    def _reduced_index(self) -> tuple[Index, ...]:
        return tuple(symbol(n) for n, reduced in zip(self.axis_names, self.is_reduced, strict=True) if reduced)

    # -- values ----------------------------------------------------------------------------------------------------

    def _operand(self, node: Node, position: int) -> Scalar:
        value = node.inputs[position]
        if value is None:
            raise ValueError(f"{node.place}: an absent operand in a fused region")
        if value not in self.nest.places:
            return self.read(value)
        return self._value(value)

    def _value(self, value: Value) -> Scalar:
        """A value of the region inside the current loops: bound already, kept from before, or computed here."""
        if value in self.bound:
            return self.bound[value]
        if value in self.kept:
            index = self._lane_index() if self.columns else self._reduced_index()
            return Load(self.kept[value], index)
        node = value.producer
        if node is None:
            raise ValueError(f"{value!r} is not made in the region")
        scalar = self.scalar(node, [self._operand(node, p) for p in range(len(node.inputs))])
        self.bound[value] = scalar
        if Trait.VIEW not in node.op.traits:
            name = self.temporary(node)
            self.inner.append(Let(name, scalar))
            self.bound[value] = Ref(name, scalar.dtype)
        return self.bound[value]


class _Hook(_Emitter):
    """An epilogue: rows x columns of one tile, in the index space of the contraction's output."""

    symbolic = True

    def __init__(
        self, region: Graph, nest: Nest, constants: ConstantPool, name: str, anchor: Value, groups: tuple[int, int]
    ) -> None:
        super().__init__(region, nest, constants, name)
        self.anchor, self.groups = anchor, groups

    def build(self) -> RegionKernel:
        made = self.finish(self._body())
        kernel = made.kernel
        hook = Kernel(kernel.name, (_TILE, *kernel.parameters), (*HOOK_SIZES, *kernel.sizes), kernel.body)
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
        bound: dict[Value, Scalar] = {self.anchor: Load(_TILE, (symbol("r"), column))}
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


_TILE = Buffer("tile", F32, (symbol("rows"), symbol("cols")), Level.CACHE, (symbol("ld"), 1))

HOOK_SIZES = ("batch", "row0", "rows", "col0", "cols", "ld")
"""The sizes that a hook receives through its C parameters instead of ``arg``."""


def _together(place: tuple[Axis, ...], a: Axis, b: Axis) -> bool:
    """Whether ``place`` walks ``a`` and then at once ``b``, or neither."""
    if a not in place and b not in place:
        return True
    return a in place and b in place and place.index(b) == place.index(a) + 1


def _compute(dtype: DType) -> DType:
    """The type to compute in: 16-bit floats widen to f32."""
    return F32 if dtype in (F16, BF16) else dtype


def _cost(scalar: Scalar) -> float:
    """Rough nanoseconds per element of an expression on one core."""
    if isinstance(scalar, Apply):
        own = 0.5 if scalar.function in COSTLY else 0.2 if scalar.function in ("div", "sqrt", "rem", "mod") else 0.03
        return own + sum(map(_cost, scalar.operands))
    return _cost(scalar.operand) if isinstance(scalar, Cast) else 0.02


def _is_costly(node: Node, nest: Nest) -> bool:
    """Whether the expression of ``node`` holds a function worth keeping the result of."""
    if Trait.VIEW in node.op.traits or Trait.REDUCTION in node.op.traits:
        return False
    dummies = [Ref(f"x{p}", _compute(v.type.dtype)) for p, v in enumerate(node.inputs) if v is not None]
    return _cost(node.op.expression(*dummies)) >= 0.5
