"""Statements of the loop IR as C: loops, vector steps with their tails, stores, accumulations,
microkernels."""

from __future__ import annotations

from collections.abc import Iterable

from graphwright.errors import Diagnostic, ToolchainError
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Buffer,
    Call,
    Const,
    Index,
    Kind,
    Let,
    Level,
    Loop,
    Scalar,
    Statement,
    Store,
    Tile,
    walk,
)
from graphwright.ir.symbols import Dim, mod, product
from graphwright.ir.types import BOOL, F32, F64, I32, I64, U32, U64, DType
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.c.analysis import lanes_of, stores_may_wait, unrolling, vectorises
from graphwright.targets.cpu.c.dims import depends, strides_of
from graphwright.targets.cpu.c.literals import identity
from graphwright.targets.cpu.c.matmul import matmul_helper
from graphwright.targets.cpu.c.scope import Lanes, Value, Variable, c_name
from graphwright.targets.cpu.c.support import (
    C_TYPES,
    check_dtype,
    lane_dtype,
    stored_dtype,
)
from graphwright.targets.cpu.c.values import Values, element_text, operand


@dataclass(frozen=True)
class Partial:
    """Vectors that gather the lanes of one accumulation, one per unrolled copy."""

    statement: Accumulate
    names: tuple[str, ...]


@dataclass(frozen=True)
class Rectangle:
    """A tile as arguments (pointer, row stride, column stride) and its sizes."""

    text: str
    sizes: tuple[Dim, Dim]


class Writer(Values):
    """Writes statements as C lines."""

    late_stores: list[tuple[str, str]] | None = None
    """Of unrolled steps under way: declarations of stored vectors, and their stores behind all steps."""

    def body(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Loop(_, Kind.VECTOR) if self.lanes is None and not self.scalar and vectorises(statement):
                self.vector_loop(statement)
            case Loop():
                self.scalar_loop(statement)
            case Let(name, value):
                self.let(name, value)
            case Alloc(buffer, fill):
                self.alloc(buffer, fill)
            case Store(buffer, index, value, mask):
                self.shared_values(value, mask)
                held = self.variable(buffer).value
                found = self.value(value) if held else self.value_to_store(value)
                self.store(buffer, index, found, mask)
            case Accumulate(value=value, mask=mask):
                self.shared_values(value, mask)
                self.accumulate(statement)
            case Call():
                self.call(statement)

    def scalar_loop(self, loop: Loop, first: str = "0", last: str | None = None) -> None:
        axis = c_name(loop.axis)
        end = self.factor(loop.extent) if last is None else last
        increment = f"++{axis}" if loop.step == 1 else f"{axis} += {loop.step}"
        with self.block(f"for (int64_t {axis} = {first}; {axis} < {end}; {increment})"):
            self.scope.names[loop.axis] = axis
            self.body(loop.body)

    def let(self, name: str, value: Scalar) -> None:
        self.shared_values(value)
        found = self.value_to_bind(value)
        variable = c_name(name)
        self.line(f"const {self.value_type(found)} {variable} = {found.text};")
        if found.stored:  # storing it may be all that is done with it
            self.line(f"(void){variable};")
        self.scope.values[name] = replace(found, text=variable)

    def alloc(self, buffer: Buffer, fill: float | None) -> None:
        check_dtype(buffer.dtype)
        name = c_name(buffer.name)
        if buffer.level is Level.CACHE:  # its memory was set aside at the function's start
            if fill is not None:
                self.fill(name, product(buffer.shape), buffer.dtype, fill)
            return
        private = self.lanes is not None
        self.scope.variables[buffer.name] = Variable(name, value=not buffer.shape or private, private=private)
        elements = product(buffer.shape)
        if not private and buffer.shape:
            self.line(f"{C_TYPES[buffer.dtype.name]} {name}[{max(1, int(str(elements)))}];")
            if fill is not None:
                self.fill(name, elements, buffer.dtype, fill)
            return
        ctype = self.value_type(Value("", buffer.dtype, private))
        start = None if fill is None else self.coerced(Const(fill, buffer.dtype), private)
        if not buffer.shape:
            self.line(
                f"{ctype} {name} = {start or '{0}'};" if private else f"{ctype} {name} = {start or '0'};"
            )
            return
        self.line(f"{ctype} {name}[{max(1, int(str(elements)))}];")
        with self.block(f"for (int i_ = 0; i_ < {elements}; ++i_)"):
            self.line(f"{name}[i_] = {start or f'({ctype}){{0}}'};")

    def fill(self, name: str, elements: Dim, dtype: DType, fill: float) -> None:
        stored = self.stored_scalar(Value(self.literal(fill, dtype), dtype))
        with self.block(f"for (int64_t i_ = 0; i_ < {self.factor(elements)}; ++i_)"):
            self.line(f"{name}[i_] = {stored};")

    def vector_loop(self, loop: Loop, first: str = "0", last: str | None = None) -> None:
        """Whole vectors, then one step with the lanes past the end masked off."""
        count = lanes_of(loop, self.support.isa.vector_bytes)
        axis, end = c_name(loop.axis), self.factor(loop.extent) if last is None else last
        known = loop.extent if last is None and isinstance(loop.extent, int) else None
        if known == 0:
            return
        unroll = unrolling(loop, self.private_names(loop))
        if known is not None and known < count * unroll:
            unroll = 1
        with self.block(""):
            partials = self.open_partials(loop, count, unroll)
            self.line(f"int64_t {axis} = {first};")
            for copies in sorted({unroll, 1}, reverse=True):
                if known is None or known >= count * copies:
                    self.full_steps(loop, axis, end, count, copies, partials)
            whole = last is None and mod(loop.extent, count) == 0
            if not whole:
                self.tail_step(loop, axis, end, count, partials, known)
            self.close_partials(count, partials)

    def full_steps(
        self, loop: Loop, axis: str, end: str, count: int, copies: int, partials: dict[int, Partial]
    ) -> None:
        width = count * copies
        with self.block(f"for (; {axis} + {width} <= {end}; {axis} += {width})"):
            start = len(self.lines)
            self.late_stores = [] if copies > 1 and stores_may_wait(loop) else None
            for copy in range(copies):
                step = f"({axis} + {copy * count})" if copy else axis
                self.one_step(loop, step, Lanes(loop.axis, count), partials, copy, braces=copies > 1)
            waiting, self.late_stores = self.late_stores or [], None
            for _, store in waiting:
                self.line(store)
            indent = "    " * self.depth
            self.lines[start:start] = [indent + declaration for declaration, _ in waiting]

    def tail_step(
        self, loop: Loop, axis: str, end: str, count: int, partials: dict[int, Partial], known: int | None
    ) -> None:
        tail = self.fresh("tail")
        live = f"{end} - {axis}" if known is None else str(known % count)
        guard = f"if ({axis} < {end})" if known is None else ""
        with self.block(guard):
            first = self.support.call("first", lane_dtype(BOOL), count, live)
            self.line(f"const {self.support.mask(count)} {tail} = {first};")
            self.one_step(loop, axis, Lanes(loop.axis, count, tail), partials, 0, braces=False)

    def one_step(
        self, loop: Loop, position: str, lanes: Lanes, partials: dict[int, Partial], copy: int, braces: bool
    ) -> None:
        outer = self.lanes
        self.lanes = lanes
        if braces:
            with self.block(""):
                self.step_body(loop, position, partials, copy)
        else:
            self.step_body(loop, position, partials, copy)
        self.lanes = outer

    def step_body(self, loop: Loop, position: str, partials: dict[int, Partial], copy: int) -> None:
        self.scope.names[loop.axis] = position
        for key, partial in partials.items():
            self.scope.partials[key] = partial.names[min(copy, len(partial.names) - 1)]
        self.body(loop.body)

    def private_names(self, loop: Loop) -> set[str]:
        return {s.buffer.name for s in walk(loop.body) if isinstance(s, Alloc)}

    def open_partials(self, loop: Loop, count: int, unroll: int) -> dict[int, Partial]:
        """Variables for the accumulations whose target stays the same over the whole loop."""
        moving = {loop.axis} | {s.axis for s in walk(loop.body) if isinstance(s, Loop)}
        private = self.private_names(loop)
        found: dict[int, Partial] = {}
        for statement in walk(loop.body):
            if not isinstance(statement, Accumulate) or statement.buffer.name in private:
                continue
            if any(isinstance(i, Scalar) or any(depends(i, m) for m in moving) for i in statement.index):
                continue
            dtype = statement.buffer.dtype
            start = self.splat(Value(self.literal(identity(statement.combiner, dtype), dtype), dtype), count)
            names = [self.fresh(statement.buffer.name) for _ in range(unroll)]
            vector = self.support.vector(lane_dtype(dtype), count)
            self.line(f"{vector} {', '.join(f'{n} = {start}' for n in names)};")
            found[id(statement)] = Partial(statement, tuple(names))
        return found

    def close_partials(self, count: int, partials: dict[int, Partial]) -> None:
        for partial in partials.values():
            statement, names = partial.statement, list(partial.names)
            dtype, combiner = lane_dtype(statement.buffer.dtype), _of_lanes(statement)
            while len(names) > 1:
                pair = self.support.combine(combiner, dtype, count, names[-2], names[-1])
                names[-2:] = [f"({pair})" if len(names) > 2 else pair]
            total = f"{self.support.reduce(combiner, dtype, count)}({names[0]})"
            if statement.buffer.dtype == BOOL:
                total = f"({total} & 1)"
            self.combine_scalar(replace(statement, mask=None), Value(total, statement.buffer.dtype))

    def store(self, buffer: Buffer, index: tuple[Index, ...], value: Value, mask: Scalar | None) -> None:
        variable = self.variable(buffer)
        if variable.value:
            self.assign(self.element(variable, index, buffer), variable, value, mask)
            return
        at = self.access(buffer, index)
        if self.lanes is None:
            guard = "" if mask is None else f"if ({self.value(mask).text}) "
            self.line(f"{guard}{element_text(at.pointer)} = {self.stored_scalar(value)};")
            return
        live = self.mask_of(mask)
        dtype = stored_dtype(buffer.dtype)
        stored = self.stored_vector(value, buffer.dtype)
        if self.late_stores is not None and live is None:
            kept = self.fresh(buffer.name)
            self.line(f"{kept} = {stored};")
            move = self.move("store", at, dtype, None, kept)
            self.late_stores.append((f"{self.support.vector(dtype, self.count)} {kept};", f"{move};"))
            return
        self.line(self.move("store", at, dtype, live, stored) + ";")

    def assign(self, name: str, variable: Variable, value: Value, mask: Scalar | None) -> None:
        if not variable.private:
            guard = "" if mask is None else f"if ({self.value(mask).text}) "
            self.line(f"{guard}{name} = {value.text};")
            return
        text = self.vectorised(value)
        if mask is not None:
            live = self.value(mask)
            taken = live.text if live.vector else self.splat(live, self.count)
            text = self.support.call("select", lane_dtype(value.dtype), self.count, taken, text, name)
        self.line(f"{name} = {text};")

    def accumulate(self, statement: Accumulate) -> None:
        value = self.value(statement.value)
        buffer, combiner = statement.buffer, _of_lanes(statement)
        variable = self.variable(buffer)
        if self.lanes is None:
            self.combine_scalar(statement, value)
            return
        lane = lane_dtype(buffer.dtype)
        if variable.private:
            name = self.element(variable, statement.index, buffer)
            total = self.support.combine(combiner, lane, self.count, name, operand(self.vectorised(value)))
            total = self.support.round(buffer.dtype, self.count, total)
            self.assign(name, variable, Value(total, buffer.dtype, True), statement.mask)
            return
        partial = self.scope.partials.get(id(statement))
        if partial is not None:
            part = operand(self.only_live(statement, value))
            self.line(f"{partial} = {self.support.combine(combiner, lane, self.count, partial, part)};")
            return
        if variable.value or self.access_uniform(statement):
            total = f"{self.support.reduce(combiner, lane, self.count)}({self.only_live(statement, value)})"
            self.combine_scalar(replace(statement, mask=None), Value(total, buffer.dtype))
            return
        self.accumulate_lanes(statement, value)

    def access_uniform(self, statement: Accumulate) -> bool:
        assert self.lanes is not None
        return all(
            not (self.value(i).vector if isinstance(i, Scalar) else depends(i, self.lanes.axis))
            for i in statement.index
        )

    def only_live(self, statement: Accumulate, value: Value) -> str:
        """The value, and in masked-off lanes what leaves the total as it is."""
        dtype = statement.buffer.dtype
        text, live = self.vectorised(value), self.mask_of(statement.mask)
        if live is None:
            return text
        start = self.splat(Value(self.literal(identity(statement.combiner, dtype), dtype), dtype), self.count)
        return self.support.call("select", lane_dtype(dtype), self.count, live, text, start)

    def accumulate_lanes(self, statement: Accumulate, value: Value) -> None:
        buffer, lane = statement.buffer, lane_dtype(statement.buffer.dtype)
        at, live = self.access(buffer, statement.index), self.mask_of(statement.mask)
        if at.step == "1" and not at.table:
            stored = self.move("load", at, stored_dtype(buffer.dtype), live)
            old = self.support.widen(buffer.dtype, self.count, stored)
            total = self.support.combine(
                _of_lanes(statement), lane, self.count, operand(old), operand(self.vectorised(value))
            )
            total = self.support.narrow(buffer.dtype, self.count, f"({total})")
            self.line(self.move("store", at, stored_dtype(buffer.dtype), live, total) + ";")
            return
        added = self.fresh("added")
        self.line(f"const {self.support.vector(lane, self.count)} {added} = {self.vectorised(value)};")
        mask = self.fresh("live")
        if live is not None:
            self.line(f"const {self.support.mask(self.count)} {mask} = {live};")
        with self.block(f"for (int i_ = 0; i_ < {self.count}; ++i_)"):
            if live is not None:
                self.line(f"if (!{mask}[i_])")
                self.line("    continue;")
            offset = f"{at.table}[i_]" if at.table else f"i_ * {operand(at.step)}"
            one = f"({added}[i_] & 1)" if buffer.dtype == BOOL else f"{added}[i_]"
            self.update(f"({at.pointer})[{offset}]", statement, Value(one, buffer.dtype))

    def combine_scalar(self, statement: Accumulate, value: Value) -> None:
        """``target = combine(target, value)`` of one element."""
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
        dtype = statement.buffer.dtype
        old = Value(target if is_value else self.widen_scalar(dtype, target), dtype)
        total = self.apply(statement.combiner, (old, value), dtype)
        self.line(f"{target} = {total.text if is_value else self.stored_scalar(total)};")

    def call(self, call: Call) -> None:
        if call.microkernel != "matmul":
            raise ToolchainError(
                Diagnostic("emit-microkernel", f"no C code for the microkernel {call.microkernel}")
            )
        a, b = call.operands
        dtype = call.out.buffer.dtype
        if dtype not in (F32, F64, I32, U32, I64, U64):
            raise ToolchainError(Diagnostic("emit-microkernel", f"no matmul of {dtype}"))
        helper = matmul_helper(self.support, dtype)
        out, left, right = (self.tile(t) for t in (call.out, a, b))
        sizes = ", ".join(self.dim(d) for d in (*out.sizes, left.sizes[1]))
        self.line(f"{helper}({out.text}, {left.text}, {right.text}, {sizes});")

    def tile(self, tile: Tile) -> Rectangle:
        sizes, strides = list(tile.sizes), list(strides_of(tile.buffer))
        offset: Dim = 0
        for start, stride in zip(tile.offsets, strides, strict=True):
            offset = offset + start * stride
        while len(sizes) > 2:
            drop = next(i for i, s in enumerate(sizes) if isinstance(s, int) and s == 1)
            del sizes[drop], strides[drop]
        if tile.transposed:
            sizes.reverse()
            strides.reverse()
        pointer = self.pointer(self.variable(tile.buffer).name, offset, [])
        return Rectangle(f"{pointer}, {self.dim(strides[0])}, {self.dim(strides[1])}", (sizes[0], sizes[1]))


def _of_lanes(statement: Accumulate) -> str:
    """The combiner on lanes: a bool is a mask there, whose -1 is larger in meaning but not in order."""
    if statement.buffer.dtype != BOOL:
        return statement.combiner
    return {"max": "or", "add": "or", "min": "and", "mul": "and"}.get(statement.combiner, statement.combiner)
