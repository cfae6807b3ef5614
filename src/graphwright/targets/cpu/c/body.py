"""Emits statements of the loop IR: loops, vector steps with masked tails, and stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

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
)
from graphwright.ir.symbols import Dim, mod, product
from graphwright.ir.types import BOOL, F32, F64, I32, I64, U32, U64, DType
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.c.accumulate import Accumulations, Partial
from graphwright.targets.cpu.c.analysis import lanes_of, rows_inside, stores_may_wait, unrolling, vectorises
from graphwright.targets.cpu.c.dims import strides_of
from graphwright.targets.cpu.c.distribution import BLOCK, Part, distributed
from graphwright.targets.cpu.c.literals import literal
from graphwright.targets.cpu.c.matmul import matmul_helper
from graphwright.targets.cpu.c.prefetch import LINE, Prefetch
from graphwright.targets.cpu.c.scope import Lanes, Value, Variable, c_name
from graphwright.targets.cpu.c.support import (
    C_TYPES,
    check_dtype,
    lane_dtype,
    stored_dtype,
)
from graphwright.targets.cpu.c.values import element_text


@dataclass(frozen=True)
class Rectangle:
    """A tile as C arguments (pointer, row stride, column stride), and its sizes."""

    text: str
    sizes: tuple[Dim, Dim]


class Writer(Accumulations):
    """Emits statements as lines of C."""

    ahead: tuple[Loop, tuple[Prefetch, ...]] | None = None
    """The vector loop that prefetches later rows, and its prefetches."""
    late_stores: list[tuple[str, str]] | None = None
    """While unrolled steps are emitted: declarations of the stored vectors, and their stores, which are
    delayed until after all steps."""

    def body(self, statements: Iterable[Statement]) -> None:
        """Emits ``statements`` in order."""
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        """Emits one statement. Raises ToolchainError for statements that have no C code."""
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
        """Emits a scalar loop from ``first`` up to ``last``."""
        axis = c_name(loop.axis)
        end = self.factor(loop.extent) if last is None else last
        if self.is_row_of_vectors(loop) and (parts := distributed(loop.body)):
            with self.block(""):
                self.line(f"int64_t {axis} = {first};")
                self.distributed_steps(loop, parts, axis, f"{end} - {axis}", 1)
            return
        if self.goes_in_pairs(loop):
            self.pairs(loop, axis, first, end)
            return
        increment = f"++{axis}" if loop.step == 1 else f"{axis} += {loop.step}"
        with self.block(f"for (int64_t {axis} = {first}; {axis} < {end}; {increment})"):
            self.scope.names[loop.axis] = axis
            self.body(loop.body)

    def copies(self, loop: Loop) -> int:
        """The number of copies of the body per step of ``loop``."""
        return unrolling(loop, self.private_names(loop), self.support.isa.chains)

    def is_row_of_vectors(self, loop: Loop) -> bool:
        """Whether each iteration of ``loop`` computes one whole vector."""
        lanes = self.lanes
        return lanes is not None and lanes.tail is None and loop.kind is Kind.SERIAL and loop.step == 1

    def goes_in_pairs(self, loop: Loop) -> bool:
        """Whether ``loop`` is inside a full vector step, and faster if two of its iterations are
        interleaved.
        """
        if self.lanes is None or not self.is_row_of_vectors(loop):
            return False
        return unrolling(loop, self.private_names(loop), 2) == 2 and stores_may_wait(loop, self.lanes.axis)

    def pairs(self, loop: Loop, axis: str, first: str, end: str) -> None:
        """Emits a loop with two iterations per step, whose stores are delayed until after both."""
        with self.block(""):
            self.line(f"int64_t {axis} = {first};")
            with self.block(f"for (; {axis} + 2 <= {end}; {axis} += 2)"), self.late():
                for position in (axis, f"({axis} + 1)"):
                    with self.block(""):
                        self.scope.names[loop.axis] = position
                        self.body(loop.body)
            with self.block(f"if ({axis} < {end})"):
                self.scope.names[loop.axis] = axis
                self.body(loop.body)

    @contextmanager
    def late(self) -> Iterator[None]:
        """Delays stores until the end of the block."""
        start = len(self.lines)
        self.late_stores = []
        yield
        waiting, self.late_stores = self.late_stores, None
        for _, store in waiting:
            self.line(store)
        indent = "    " * self.depth
        self.lines[start:start] = [indent + declaration for declaration, _ in waiting]

    def let(self, name: str, value: Scalar) -> None:
        """Declares a constant in the current block."""
        self.shared_values(value)
        found = self.value_to_bind(value)
        variable = c_name(name)
        self.line(f"const {self.value_type(found)} {variable} = {found.text};")
        if found.stored:  # the variable may only be stored again
            self.line(f"(void){variable};")
        self.scope.values[name] = replace(found, text=variable)

    def alloc(self, buffer: Buffer, fill: float | None) -> None:
        """Declares ``buffer`` and fills it; inside a vector loop, each lane has its own."""
        check_dtype(buffer.dtype)
        name = c_name(buffer.name)
        if buffer.level is Level.CACHE:  # it is in the scratch memory
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
        """Emits a loop that sets all elements of an array to one value."""
        stored = self.stored_scalar(Value(literal(fill, dtype), dtype))
        with self.block(f"for (int64_t i_ = 0; i_ < {self.factor(elements)}; ++i_)"):
            self.line(f"{name}[i_] = {stored};")

    def vector_loop(self, loop: Loop, first: str = "0", last: str | None = None) -> None:
        """Emits steps of whole vectors, then one step with the lanes beyond the end masked off."""
        count = lanes_of(loop, self.support.isa.vector_bytes)
        axis, end = c_name(loop.axis), self.factor(loop.extent) if last is None else last
        known = loop.extent if last is None and isinstance(loop.extent, int) else None
        if known == 0:
            return
        unroll = self.copies(loop)
        while known is not None and unroll > 1 and known < count * unroll:
            unroll //= 2
        with self.block(""):
            partials = self.open_partials(loop, count, unroll)
            self.line(f"int64_t {axis} = {first};")
            if known is None and (rows := rows_inside(loop)) is not None:
                self.one_row(loop, rows, axis, end, count)
            unrolled = [n for n in sorted({unroll, 1}, reverse=True) if known is None or known >= count * n]
            self.whole_steps(loop, axis, end, count, unrolled, partials)
            whole = last is None and mod(loop.extent, count) == 0
            if not whole:
                self.tail_step(loop, axis, end, count, partials, known)
            self.close_partials(count, partials)

    def one_row(self, loop: Loop, rows: Loop, axis: str, end: str, count: int) -> None:
        """Emits a variant of ``loop`` for the case that the inner loop ``rows`` has one iteration, which
        would otherwise load its constants again for each vector: two vectors at a time.
        """
        flat = replace(loop, body=(*loop.body[:-1], *rows.body))
        if self.copies(flat) == 1:
            return
        with self.block(f"if ({self.factor(rows.extent)} == 1)"):
            self.line(f"const int64_t {c_name(rows.axis)} = 0;")
            self.scope.names[rows.axis] = c_name(rows.axis)
            self.whole_steps(flat, axis, end, count, (self.copies(flat),), {})

    def whole_steps(
        self,
        loop: Loop,
        axis: str,
        end: str,
        count: int,
        unrolled: Sequence[int],
        partials: dict[int, Partial],
    ) -> None:
        """Emits all whole vectors of ``loop``: in blocks if its body is distributed, else in steps of
        ``unrolled`` copies."""
        if not partials and unrolled and (parts := distributed(loop.body)):
            self.lanes = Lanes(loop.axis, count)
            self.distributed_steps(loop, parts, axis, f"({end} - {axis}) / {count}", count)
            self.lanes = None
            return
        for copies in unrolled:
            self.full_steps(loop, axis, end, count, copies, partials)

    def full_steps(
        self, loop: Loop, axis: str, end: str, count: int, copies: int, partials: dict[int, Partial]
    ) -> None:
        """Emits the loop over steps of ``copies`` whole vectors."""
        width = count * copies
        late = self.late() if copies > 1 and stores_may_wait(loop, loop.axis) else nullcontext()
        steps = [f"({axis} + {copy * count})" if copy else axis for copy in range(copies)]
        with self.block(f"for (; {axis} + {width} <= {end}; {axis} += {width})"), late:
            self.prefetch(loop, steps, count)
            for copy, step in enumerate(steps):
                self.one_step(loop, step, Lanes(loop.axis, count), partials, copy, braces=copies > 1)

    def prefetch(self, loop: Loop, steps: Sequence[str], count: int) -> None:
        """Emits prefetches of later rows, one per cache line, if ``loop`` is to do so."""
        if self.ahead is None or self.ahead[0] is not loop:
            return
        for each in self.ahead[1]:
            for copy, step in enumerate(steps):
                if copy * count * each.buffer.dtype.bytes % LINE == 0:
                    self.scope.names[loop.axis] = step
                    at = self.access(each.buffer, each.index)
                    self.line(f"__builtin_prefetch({at.pointer}, {int(each.is_written)});")

    def distributed_steps(self, loop: Loop, parts: Sequence[Part], axis: str, steps: str, width: int) -> None:
        """Emits ``steps`` whole vectors, ``width`` apart, in blocks: each of ``parts`` is a loop over a
        block."""
        count, step = self.fresh("count"), self.fresh("k")
        kept = {name: self.fresh(name) for part in parts for name in part.keeps}
        at_most = self.support.dim(f"dim_min({steps}, {BLOCK})")
        advance = count if width == 1 else f"{width} * {count}"
        with self.block(f"for (int64_t {count}; ({count} = {at_most}) > 0; {axis} += {advance})"):
            for array in kept.values():
                self.line(f"{self.support.vector(F32, self.count)} {array}[{BLOCK}];")
            self.line(f"int64_t {step};")
            for part in parts:
                self.line(f"{step} = 0;")
                for copies in sorted({self.copies(loop), 1}, reverse=True):
                    head = f"for (; {step} + {copies} <= {count}; {step} += {copies})"
                    with self.block(head), self.late():
                        numbers = [f"{step} + {copy}" if copy else step for copy in range(copies)]
                        positions = [self.fresh(loop.axis) for _ in numbers]
                        for number, position in zip(numbers, positions, strict=True):
                            offset = number if width == 1 else f"{width} * ({number})"
                            self.line(f"const int64_t {position} = {axis} + {offset};")
                        for number, position in zip(numbers, positions, strict=True):
                            with self.block(""):
                                self.scope.names[loop.axis] = position
                                self.part_step(part, {name: f"{kept[name]}[{number}]" for name in kept})

    def part_step(self, part: Part, kept: Mapping[str, str]) -> None:
        """Emits one vector of ``part``; ``kept``: the addresses of values that are passed between loops."""
        for name in part.reads:
            self.scope.values[name] = Value(kept[name], F32, True)
        self.body(part.statements)
        for name in part.keeps:
            self.line(f"{kept[name]} = {self.vectorised(self.scope.values[name])};")

    def tail_step(
        self, loop: Loop, axis: str, end: str, count: int, partials: dict[int, Partial], known: int | None
    ) -> None:
        """Emits the last, partial step."""
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
        """Emits the body for the vector at ``position``; ``copy`` is the index of the unrolled step."""
        outer = self.lanes
        self.lanes = lanes
        if braces:
            with self.block(""):
                self.step_body(loop, position, partials, copy)
        else:
            self.step_body(loop, position, partials, copy)
        self.lanes = outer

    def step_body(self, loop: Loop, position: str, partials: dict[int, Partial], copy: int) -> None:
        """Emits the body in the current scope."""
        self.scope.names[loop.axis] = position
        for key, partial in partials.items():
            self.scope.partials[key] = partial.names[min(copy, len(partial.names) - 1)]
        self.body(loop.body)

    def store(self, buffer: Buffer, index: tuple[Index, ...], value: Value, mask: Scalar | None) -> None:
        """Emits a store of one element per lane to memory, or to a variable."""
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

    def call(self, call: Call) -> None:
        """Emits a call of a microkernel. Raises ToolchainError for an unknown one."""
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
        """A tile as arguments of a microkernel."""
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
