"""Emits accumulations of the loop IR: into partial sums of a vector loop, variables, or memory."""

from __future__ import annotations

from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Loop,
    Scalar,
    walk,
)
from graphwright.ir.types import BOOL
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.c.dims import depends
from graphwright.targets.cpu.c.dtypes import lane_dtype, stored_dtype
from graphwright.targets.cpu.c.lines import operand
from graphwright.targets.cpu.c.literals import identity, literal
from graphwright.targets.cpu.c.scope import Value, Variable
from graphwright.targets.cpu.c.values import Values, element_text


@dataclass(frozen=True)
class Partial:
    """The vectors of partial sums of one accumulation, one per unrolled copy."""

    statement: Accumulate
    names: tuple[str, ...]


class Accumulations(Values):
    """Emits accumulations: values that are combined with a target."""

    def private_names(self, loop: Loop) -> set[str]:
        """The buffers that are private to each iteration of ``loop``."""
        return {s.buffer.name for s in walk(loop.body) if isinstance(s, Alloc)}

    def open_partials(self, loop: Loop, count: int, unroll: int) -> dict[int, Partial]:
        """Declares partial sums for the accumulations whose target is invariant in the loop."""
        moving = {loop.axis} | {s.axis for s in walk(loop.body) if isinstance(s, Loop)}
        private = self.private_names(loop)
        found: dict[int, Partial] = {}
        for statement in walk(loop.body):
            if not isinstance(statement, Accumulate) or statement.buffer.name in private:
                continue
            if any(isinstance(i, Scalar) or any(depends(i, m) for m in moving) for i in statement.index):
                continue
            dtype = statement.buffer.dtype
            start = self.splat(Value(literal(identity(statement.combiner, dtype), dtype), dtype), count)
            names = [self.fresh(statement.buffer.name) for _ in range(unroll)]
            vector = self.prelude.vector(lane_dtype(dtype), count)
            self.line(f"{vector} {', '.join(f'{n} = {start}' for n in names)};")
            found[id(statement)] = Partial(statement, tuple(names))
        return found

    def close_partials(self, count: int, partials: dict[int, Partial]) -> None:
        """Combines the lanes of partial sums after their loop."""
        for partial in partials.values():
            statement, names = partial.statement, list(partial.names)
            dtype, combiner = lane_dtype(statement.buffer.dtype), _of_lanes(statement)
            while len(names) > 1:
                pair = self.prelude.combine(combiner, dtype, count, names[-2], names[-1])
                names[-2:] = [f"({pair})" if len(names) > 2 else pair]
            total = f"{self.prelude.reduce(combiner, dtype, count)}({names[0]})"
            if statement.buffer.dtype == BOOL:
                total = f"({total} & 1)"
            self.combine_scalar(replace(statement, mask=None), Value(total, statement.buffer.dtype))

    def assign(self, name: str, variable: Variable, value: Value, mask: Scalar | None) -> None:
        """Emits an assignment to a variable that holds a value."""
        if not variable.private:
            guard = "" if mask is None else f"if ({self.value(mask).text}) "
            self.line(f"{guard}{name} = {value.text};")
            return
        text = self.vectorized(value)
        if mask is not None:
            live = self.value(mask)
            taken = live.text if live.vector else self.splat(live, self.count)
            text = self.prelude.call("select", lane_dtype(value.dtype), self.count, taken, text, name)
        self.line(f"{name} = {text};")

    def accumulate(self, statement: Accumulate) -> None:
        """Emits the combination of a value with its target: a partial sum, a variable or memory."""
        value = self.value(statement.value)
        buffer, combiner = statement.buffer, _of_lanes(statement)
        variable = self.variable(buffer)
        if self.lanes is None:
            self.combine_scalar(statement, value)
            return
        lane = lane_dtype(buffer.dtype)
        if variable.private:
            name = self.element(variable, statement.index, buffer)
            total = self.prelude.combine(combiner, lane, self.count, name, operand(self.vectorized(value)))
            total = self.storage.round(buffer.dtype, self.count, total)
            self.assign(name, variable, Value(total, buffer.dtype, vector=True), statement.mask)
            return
        partial = self.scope.partials.get(id(statement))
        if partial is not None:
            part = operand(self.only_live(statement, value))
            self.line(f"{partial} = {self.prelude.combine(combiner, lane, self.count, partial, part)};")
            return
        if variable.value or self.access_uniform(statement):
            total = f"{self.prelude.reduce(combiner, lane, self.count)}({self.only_live(statement, value)})"
            self.combine_scalar(replace(statement, mask=None), Value(total, buffer.dtype))
            return
        self.accumulate_lanes(statement, value)

    def access_uniform(self, statement: Accumulate) -> bool:
        """Whether all lanes accumulate into the same element."""
        assert self.lanes is not None
        return all(
            not (self.value(i).vector if isinstance(i, Scalar) else depends(i, self.lanes.axis))
            for i in statement.index
        )

    def only_live(self, statement: Accumulate, value: Value) -> str:
        """The value, with the identity of the combiner in masked-off lanes."""
        dtype = statement.buffer.dtype
        text, live = self.vectorized(value), self.mask_of(statement.mask)
        if live is None:
            return text
        start = self.splat(Value(literal(identity(statement.combiner, dtype), dtype), dtype), self.count)
        return self.prelude.call("select", lane_dtype(dtype), self.count, live, text, start)

    def accumulate_lanes(self, statement: Accumulate, value: Value) -> None:
        """Emits the accumulation of each lane into its own element."""
        buffer, lane = statement.buffer, lane_dtype(statement.buffer.dtype)
        at, live = self.access(buffer, statement.index), self.mask_of(statement.mask)
        if at.step == "1" and not at.table:
            stored = self.move("load", at, stored_dtype(buffer.dtype), live)
            old = self.storage.widen(buffer.dtype, self.count, stored)
            total = self.prelude.combine(
                _of_lanes(statement), lane, self.count, operand(old), operand(self.vectorized(value))
            )
            total = self.storage.narrow(buffer.dtype, self.count, f"({total})")
            self.line(self.move("store", at, stored_dtype(buffer.dtype), live, total) + ";")
            return
        added = self.fresh("added")
        self.line(f"const {self.prelude.vector(lane, self.count)} {added} = {self.vectorized(value)};")
        mask = self.fresh("live")
        if live is not None:
            self.line(f"const {self.prelude.mask(self.count)} {mask} = {live};")
        with self.block(f"for (int i_ = 0; i_ < {self.count}; ++i_)"):
            if live is not None:
                self.line(f"if (!{mask}[i_])")
                self.line("    continue;")
            offset = f"{at.table}[i_]" if at.table else f"i_ * {operand(at.step)}"
            one = f"({added}[i_] & 1)" if buffer.dtype == BOOL else f"{added}[i_]"
            self.update(f"({at.pointer})[{offset}]", statement, Value(one, buffer.dtype))

    def combine_scalar(self, statement: Accumulate, value: Value) -> None:
        """Emits ``target = combine(target, value)`` for one element."""
        buffer = statement.buffer
        variable = self.variable(buffer)
        lanes, self.lanes = self.lanes, None  # every index is the same for all lanes here
        if variable.value:
            target = self.element(variable, statement.index, buffer)
        else:
            target = element_text(self.access(buffer, statement.index).pointer)
        if statement.mask is None:
            self.update(target, statement, value, variable.value)
        else:
            with self.block(f"if ({self.value(statement.mask).text})"):
                self.update(target, statement, value, variable.value)
        self.lanes = lanes

    def update(self, target: str, statement: Accumulate, value: Value, is_value: bool = False) -> None:
        """Emits the assignment of ``target`` combined with ``value``, for one element."""
        dtype = statement.buffer.dtype
        old = Value(target if is_value else self.widen_scalar(dtype, target), dtype)
        total = self.apply(statement.combiner, (old, value), dtype)
        self.line(f"{target} = {total.text if is_value else self.stored_scalar(total)};")


def _of_lanes(statement: Accumulate) -> str:
    """The combiner on lanes. A bool is a mask in lanes, so it is combined by bitwise operations."""
    if statement.buffer.dtype != BOOL:
        return statement.combiner
    return {"max": "or", "add": "or", "min": "and", "mul": "and"}.get(statement.combiner, statement.combiner)
