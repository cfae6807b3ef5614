"""Row kernels: a grid over the outer axes, and passes over each row.

Reductions split the work on a row into stages. A stage is one pass over the reduced axes: it computes every
value that does not depend on later reductions. The kernel keeps a costly value that a later stage needs in a
row buffer. It computes cheap values again: their operands are in the L1 cache by then.
"""

from __future__ import annotations

from graphwright.ir.builtin.fused import Strategy
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.moved_axes import MovesAxes
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Buffer,
    Const,
    Index,
    Let,
    Level,
    Load,
    Ref,
    Scalar,
    Statement,
    Store,
)
from graphwright.ir.op import Trait, reduction_op
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import DType
from graphwright.loop_nests.builder import NestBuilder, RegionKernel
from graphwright.loop_nests.row_axes import RowAxes
from graphwright.loop_nests.stages import Stages
from graphwright.records import replace


class Row(NestBuilder):
    """A kernel with a grid over the outer axes, and stages between reductions."""

    def build(self) -> RegionKernel:
        """Builds the kernel: for each stage, the values that are the same for a whole row, then a pass over
        the row.
        """
        schedule = self.schedule
        self.axes = self.make_axes([self.size(extent) for extent in schedule.axes])
        self.loops.extents, self.loops.index = self.axes.extents, self.axes.index
        self.columns = schedule.strategy is Strategy.COLUMNS
        self.stages = Stages(self.region, self.axes_of, schedule, self.is_loaded)
        self.bound: dict[Value, Scalar] = {}
        self.kept: dict[Value, Buffer] = {}
        self.accumulators: dict[Value, Buffer] = {}
        self.inner: list[Statement] = []
        self.invariants: dict[Value, Let] = {}
        self.keep = self.stages.kept() if schedule.keeps_rows else set[Value]()
        body: list[Statement] = []
        for stage in range(self.stages.count):
            body += self._rows(stage)
            body += self._pass(stage)
        rereads = bool(schedule.reduced)  # a later pass reads the row again
        return replace(self.finish(self.axes.grid(body)), rereads=rereads)

    def make_axes(self, extents: list[Dim]) -> RowAxes:
        """The loops of the kernel."""
        return RowAxes(self.schedule, extents, self.names.take)

    def read(self, value: Value) -> Scalar:
        """The element of an operand. An operand that is the same for all short rows is read before the loop
        over these rows.
        """
        scalar = super().read(value)
        axes = self.axes
        if not axes.are_short or isinstance(scalar, Const) or axes.blocked in self.axes_of[value]:
            return scalar
        if value not in self.invariants:
            self.invariants[value] = Let(self.names.take("fixed"), scalar)
        return Ref(self.invariants[value].name, scalar.dtype)

    # -- stages ---------------------------------------------------------------------------------------------

    def _rows(self, stage: int) -> list[Statement]:
        """The statements for values of ``stage`` that do not vary along the reduced axes."""
        stages = self.stages
        available = [n for n in stages.nodes if stages.stage_of[n.output] == stage]
        reductions = [n for n in available if stages.reduces(n)]
        others = [n for n in available if stages.is_row(n.output) and not stages.reduces(n)]
        statements: list[Statement] = []
        for node in (*reductions, *others):
            statements += self._row_value(node)
        if not self.columns or not statements:
            return statements
        allocations = [s for s in statements if isinstance(s, Alloc)]
        rest = tuple(s for s in statements if not isinstance(s, Alloc))
        self.bound = {}  # variables end with their loop; row buffers stay
        return [*allocations, self.axes.over_lanes(rest)]

    def _row_value(self, node: Node) -> list[Statement]:
        value, name = node.output, self.temporary(node)
        if self.stages.reduces(node):
            accumulator = Load(self.accumulators[value], self._lane_index())
            count = product(self.axes.reduced_extents())
            scalar = reduction_op(node.op).finish(accumulator, count)
        elif self.is_loaded(value):
            scalar = self.read(value)
        else:
            scalar = self.scalar(node, [self._operand(node, p) for p in range(len(node.inputs))])
        statements: list[Statement] = [Let(name, scalar)]
        self.bound[value] = Ref(name, scalar.dtype)
        if self.columns:
            row = Buffer(self.names.take("row"), scalar.dtype, (self.schedule.block,), Level.CACHE)
            self.kept[value] = row
            statements = [Alloc(row), *statements, Store(row, self._lane_index(), self.bound[value])]
        if value in self.region.outputs:
            statements.append(self.store(value, self.bound[value]))
        return statements

    def _lane_index(self) -> tuple[Index, ...]:
        return (symbol(self.axes.names[-1]),) if self.columns else ()

    def _pass(self, stage: int) -> list[Statement]:
        """One pass over the row: accumulates the reductions of ``stage``, and keeps or stores its values."""
        reductions = [
            n for n in self.stages.nodes if self.stages.reduces(n) and self.stages.pass_of(n) == stage
        ]
        wanted = [
            n.output
            for n in self.stages.nodes
            if not self.stages.is_row(n.output)
            and self.stages.stage_of[n.output] == stage
            and (n.output in self.region.outputs or n.output in self.keep)
        ]
        if not reductions and not wanted:
            return []
        outer_bound = dict(self.bound)
        self.inner = []
        allocations: list[Statement] = []
        for value in wanted:
            allocations += self._keep_or_store(value)
        for node in reductions:
            accumulator = self._accumulator(node)
            allocations.append(accumulator)
            reduction = reduction_op(node.op)
            operand = reduction.prepare(self._operand(node, 0))
            index = self._lane_index()
            self.inner.append(Accumulate(accumulator.buffer, index, reduction.combiner, operand))
        statements = [*allocations, *self.axes.one_pass(self.inner, self.invariants.values())]
        self.bound = outer_bound
        self.kept |= {v: self.buffer(v, self.axes.all) for v in wanted if self._is_read_back(v)}
        return statements

    def _keep_or_store(self, value: Value) -> list[Statement]:
        """Stores ``value`` to its row buffer, if it is kept, and to the output. Returns the allocations."""
        scalar, allocations = self._value(value), list[Statement]()
        if value in self.keep:
            row = self._row_buffer(value, scalar.dtype)
            if row.level is not Level.GLOBAL:
                allocations.append(Alloc(row))
            self.inner.append(Store(row, self._kept_index(value), scalar))
        if value in self.region.outputs:
            self.inner.append(self.store(value, scalar))
        return allocations

    def _is_read_back(self, value: Value) -> bool:
        """Whether later passes load the stored output ``value`` instead of recomputing it from several
        operands.
        """
        return (
            value in self.region.outputs
            and value not in self.kept
            and not self.columns
            and value.type.dtype == value.type.dtype.computed
            and self.axes_of[value] == self.axes.all
            and value not in self.accesses
        )

    def _accumulator(self, node: Node) -> Alloc:
        dtype = node.output.type.dtype.computed
        shape: tuple[Dim, ...] = (self.schedule.block,) if self.columns else ()
        level = Level.CACHE if self.columns else Level.REGISTER
        buffer = Buffer(self.names.take("acc"), dtype, shape, level)
        self.accumulators[node.output] = buffer
        return Alloc(buffer, reduction_op(node.op).identity(dtype))

    def _row_buffer(self, value: Value, dtype: DType) -> Buffer:
        """The buffer that keeps ``value`` for later passes.

        If possible, this is the memory of an output: it is then in the cache when the output is stored.
        """
        output = next((v for v in self.region.outputs if self._may_hold(v, value, dtype)), None)
        if output is None:
            buffer = Buffer(self.names.take("row"), dtype, self.axes.reduced_extents(), Level.CACHE)
        else:
            buffer = self.buffer(output, self.axes.all)
        self.kept[value] = buffer
        return buffer

    def _may_hold(self, output: Value, value: Value, dtype: DType) -> bool:
        """Whether the memory of ``output`` can hold ``value`` until ``output`` is stored."""
        last = self.stages.stage_of.get(output, 0)
        return (
            output.type.dtype == dtype
            and last > self.stages.stage_of[value]
            and self.axes_of[output] == self.axes.all
            and output not in self.accesses
            and all(
                n.output is output or self.stages.pass_of(n) < last
                for n in self.stages.users(value, self.keep)
            )
            and self.buffers.get((output, self.axes.all)) not in self.kept.values()
        )

    def _kept_index(self, value: Value) -> tuple[Index, ...]:
        if self.columns:
            return self._lane_index()
        whole = self.kept[value].level is not Level.CACHE
        return self.index_along(self.axes.all) if whole else self.axes.reduced_index()

    # -- values ---------------------------------------------------------------------------------------------

    def _operand(self, node: Node, position: int) -> Scalar:
        value = node.inputs[position]
        if value is None:
            raise ValueError(f"{node.location}: a node of a fused region has an absent operand")
        if value not in self.stages.stage_of:
            return self.read(value)
        return self._value(value)

    def _value(self, value: Value) -> Scalar:
        """The element of a value of the region: a variable, a load from a row buffer, or a new expression."""
        if value in self.bound:
            return self.bound[value]
        if value in self.kept:
            return Load(self.kept[value], self._kept_index(value))
        node = value.producer
        if node is None:
            raise ValueError(f"{value!r} is not computed in the region")
        if self.is_loaded(value):
            return self.read(value)
        scalar = self.scalar(node, [self._operand(node, p) for p in range(len(node.inputs))])
        self.bound[value] = scalar
        is_view = Trait.VIEW in node.op.traits or isinstance(node.op, MovesAxes)
        if not is_view and not self.is_inlined(value):
            name = self.temporary(node)
            self.inner.append(Let(name, scalar))
            self.bound[value] = Ref(name, scalar.dtype)
        return self.bound[value]
