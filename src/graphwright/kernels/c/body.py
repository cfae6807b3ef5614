"""Statements of the loop IR as C: inside a vector loop what depends on its axis is a vector, the rest stays scalar."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from graphwright.errors import Diagnostic, ToolchainError
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Apply,
    Buffer,
    Call,
    Cast,
    Const,
    Index,
    Kind,
    Let,
    Level,
    Load,
    Loop,
    Position,
    Ref,
    Scalar,
    Statement,
    Store,
    Tile,
    walk,
)
from graphwright.ir.symbols import Dim, product
from graphwright.ir.symbols import Symbol as _Symbol
from graphwright.ir.types import BOOL, F32, F64, I64, U32, U64, DType
from graphwright.kernels.c.dims import along, depends, dim_text, factor_text, strides_of
from graphwright.kernels.c.matmul import matmul_helper
from graphwright.kernels.c.support import (
    C_TYPES,
    Support,
    check_dtype,
    lane_dtype,
    stored_dtype,
    value_dtype,
)

_RESERVED: Final = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register"
    " restrict return short signed sizeof static struct switch typedef union unsigned void volatile while main asm"
    " typeof buf arg begin end scratch unit hook NULL exp expm1 log log1p tanh erf sin cos tan asin acos atan sinh cosh"
    " asinh acosh atanh pow fmod atan2 floor ceil rint trunc sqrt GW_EXPORT GW_INLINE linux unix i386".split()
)
_HELPER_LIKE: Final = re.compile(r"_|\d+x\d+|dim_|.*_(bool|b?f\d+|[iu]\d+)(x\d+)?(_any)?$|.*_t$|[fiu]\d+x\d+.*")
_INFIX: Final = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_BITS: Final = {"and": "&", "or": "|", "xor": "^"}
_COMPARE: Final = {"lt": "<", "le": "<=", "eq": "==", "ne": "!="}
_BOOL_MEANING: Final = {
    "add": "({a} | {b})", "mul": "({a} & {b})", "max": "({a} | {b})", "min": "({a} & {b})",
    "and": "({a} & {b})", "or": "({a} | {b})", "xor": "({a} ^ {b})", "ne": "({a} ^ {b})",
}  # fmt: skip
"""Of vectors (masks) and scalars (0 or 1) alike."""
_BOOL_NEGATED: Final = {"eq": "({a} ^ {b})", "lt": "(NOT {b} | {a})", "le": "({a} & NOT {b})"}
"""What to negate."""


def c_name(name: str) -> str:
    """``name`` of the IR as a C identifier that meets no keyword and no helper."""
    return f"{name}_" if name in _RESERVED or _HELPER_LIKE.match(name) or name.endswith("_") else name


@dataclass(frozen=True)
class Value:
    """C text of a value; ``vector``: one per lane."""

    text: str
    dtype: DType
    vector: bool = False


@dataclass(frozen=True)
class Lanes:
    """The vector loop around: ``tail`` names the mask of live lanes in the last, partial step; None in full steps."""

    axis: str
    count: int
    tail: str | None = None


@dataclass(frozen=True)
class Variable:
    """How a buffer is spelled: a pointer, a local array, or (``value``) one variable that holds a value."""

    name: str
    value: bool = False
    private: bool = False
    """Each lane of the vector loop around has its own."""


@dataclass(frozen=True)
class Access:
    """An element for each lane: ``pointer[0]`` (uniform), ``pointer[i * step]``, or ``pointer[table[i]]``."""

    pointer: str
    step: str = "0"
    table: str = ""
    uniform: bool = False


@dataclass
class Scope:
    """Names in force; a body copies it."""

    names: dict[str, str] = field(default_factory=dict)
    """C text of axes and sizes."""
    variables: dict[str, Variable] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    partials: dict[int, str] = field(default_factory=dict)
    """Of an Accumulate (by id) in a vector loop: the variable that gathers its lanes."""


class Writer:
    """Writes statements as C lines. ``scalar``: no vectors at all, a naive version to check against."""

    def __init__(self, support: Support, scalar: bool = False) -> None:
        self.support = support
        self.scalar = scalar
        self.lines: list[str] = []
        self.depth = 1
        self.scope = Scope()
        self.lanes: Lanes | None = None
        self._counts: dict[str, int] = {}

    # lines and names

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """``head { ... }`` with a scope of its own."""
        self.line(f"{head} {{".strip())
        outer = self.scope
        self.scope = Scope(dict(outer.names), dict(outer.variables), dict(outer.values), dict(outer.partials))
        self.depth += 1
        yield
        self.depth -= 1
        self.scope = outer
        self.line("}")

    def fresh(self, stem: str) -> str:
        """A local name: two underscores keep it apart from c_name's."""
        self._counts[stem] = self._counts.get(stem, 0) + 1
        return f"{stem}_{self._counts[stem]}_"

    def dim(self, dim: Dim) -> str:
        return self.support.dim(dim_text(dim, self.scope.names))

    def factor(self, dim: Dim) -> str:
        return self.support.dim(factor_text(dim, self.scope.names))

    # statements

    def body(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Loop(_, Kind.VECTOR) if self.lanes is None and not self.scalar and _vectorises(statement):
                self.vector_loop(statement)
            case Loop():
                self.scalar_loop(statement)
            case Let(name, value):
                self.let(name, value)
            case Alloc(buffer, fill):
                self.alloc(buffer, fill)
            case Store(buffer, index, value, mask):
                self.shared_values(value, mask)
                self.store(buffer, index, self.value(value), mask)
            case Accumulate(buffer, index, combiner, value, mask):
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
        found = self.value(value)
        variable = c_name(name)
        self.line(f"const {self.value_type(found)} {variable} = {found.text};")
        self.scope.values[name] = replace(found, text=variable)

    def value_type(self, value: Value) -> str:
        lane = lane_dtype(value.dtype)
        if value.vector:
            return self.support.vector(lane, self.count)
        return C_TYPES[lane.name]

    @property
    def count(self) -> int:
        assert self.lanes is not None
        return self.lanes.count

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
            self.line(f"{ctype} {name} = {start or '{0}'};" if private else f"{ctype} {name} = {start or '0'};")
            return
        self.line(f"{ctype} {name}[{max(1, int(str(elements)))}];")
        with self.block(f"for (int i_ = 0; i_ < {elements}; ++i_)"):
            self.line(f"{name}[i_] = {start or f'({ctype}){{0}}'};")

    def fill(self, name: str, elements: Dim, dtype: DType, fill: float) -> None:
        stored = self.stored_scalar(Value(self.literal(fill, dtype), dtype))
        with self.block(f"for (int64_t i_ = 0; i_ < {self.factor(elements)}; ++i_)"):
            self.line(f"{name}[i_] = {stored};")

    # vector loops

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
            if known is None or known % count:
                self.tail_step(loop, axis, end, count, partials, known)
            self.close_partials(count, partials)

    def full_steps(
        self, loop: Loop, axis: str, end: str, count: int, copies: int, partials: dict[int, Partial]
    ) -> None:
        width = count * copies
        with self.block(f"for (; {axis} + {width} <= {end}; {axis} += {width})"):
            for copy in range(copies):
                step = f"({axis} + {copy * count})" if copy else axis
                self.one_step(loop, step, Lanes(loop.axis, count), partials, copy, braces=copies > 1)

    def tail_step(
        self, loop: Loop, axis: str, end: str, count: int, partials: dict[int, Partial], known: int | None
    ) -> None:
        tail = self.fresh("tail")
        live = f"{end} - {axis}" if known is None else str(known % count)
        guard = f"if ({axis} < {end})" if known is None else ""
        with self.block(guard):
            self.line(f"const {self.support.mask(count)} {tail} = {self.support.call('first', lane_dtype(BOOL), count, live)};")
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
            dtype, combiner = lane_dtype(statement.buffer.dtype), statement.combiner
            while len(names) > 1:
                pair = self.support.combine(combiner, dtype, count, names[-2], names[-1])
                names[-2:] = [f"({pair})" if len(names) > 2 else pair]
            total = f"{self.support.reduce(combiner, dtype, count)}({names[0]})"
            if statement.buffer.dtype == BOOL:
                total = f"({total} & 1)"
            self.combine_scalar(replace(statement, mask=None), Value(total, statement.buffer.dtype))

    # accesses

    def variable(self, buffer: Buffer) -> Variable:
        return self.scope.variables[buffer.name]

    def access(self, buffer: Buffer, index: tuple[Index, ...]) -> Access:
        check_dtype(buffer.dtype)
        name = self.variable(buffer).name
        dims: Dim = 0
        gathered: list[tuple[Value, Dim]] = []
        for entry, stride in zip(index, strides_of(buffer), strict=True):
            if isinstance(entry, Scalar):
                gathered.append((self.value(entry), stride))
            else:
                dims = dims + entry * stride
        uniform = [f"(int64_t){_operand(v.text)} * {self.factor(s)}" for v, s in gathered if not v.vector]
        varying = [(v, s) for v, s in gathered if v.vector]
        if self.lanes is None:
            return Access(self.pointer(name, dims, uniform), uniform=True)
        affine = along(dims, self.lanes.axis)
        if affine is None or varying:
            return Access(self.pointer(name, 0, uniform), table=self.table(dims, varying))
        pointer = self.pointer(name, dims, uniform)
        return Access(pointer, self.dim(affine.step), uniform=affine.step == 0)

    def pointer(self, name: str, dims: Dim, extra: list[str]) -> str:
        terms = [name, *([self.dim(dims)] if dims != 0 else []), *extra]
        return " + ".join(terms).replace("+ -", "- ")

    def table(self, dims: Dim, varying: list[tuple[Value, Dim]]) -> str:
        """A local array of offsets, one per lane."""
        assert self.lanes is not None
        table, axis = self.fresh("at"), self.lanes.axis
        position = self.scope.names[axis]
        self.line(f"int64_t {table}[{self.count}];")
        with self.block(f"for (int i_ = 0; i_ < {self.count}; ++i_)"):
            self.scope.names[axis] = f"({position} + i_)"
            terms = [f"(int64_t){_operand(v.text)}[i_] * {self.factor(s)}" for v, s in varying]
            self.line(f"{table}[i_] = {' + '.join([self.dim(dims), *terms])};")
        return table

    def mask_of(self, mask: Scalar | None) -> str | None:
        """The lanes that take part in a vector access: None is all."""
        assert self.lanes is not None
        if mask is None:
            return self.lanes.tail
        own = self.value(mask)
        text = own.text if own.vector else self.splat(own, self.count)
        return f"{_operand(text)} & {self.lanes.tail}" if self.lanes.tail else text

    def load(self, load: Load) -> Value:
        buffer = load.buffer
        variable = self.variable(buffer)
        if variable.value:
            return Value(self.element(variable, load.index, buffer), buffer.dtype, variable.private)
        at = self.access(buffer, load.index)
        mask = None if load.mask is None else self.value(load.mask)
        if at.uniform and (mask is None or not mask.vector):
            found = self.widen_scalar(buffer.dtype, _element(at.pointer))
            if mask is None:
                return Value(found, buffer.dtype)
            return Value(f"({mask.text} ? {found} : {self.literal(load.other, buffer.dtype)})", buffer.dtype)
        live = self.mask_of(load.mask)
        stored = self.move("load", at, stored_dtype(buffer.dtype), live)
        value = self.support.widen(buffer.dtype, self.count, stored)
        if load.mask is not None and live is not None and load.other != 0:
            other = self.splat(Value(self.literal(load.other, buffer.dtype), buffer.dtype), self.count)
            value = self.support.call("select", lane_dtype(buffer.dtype), self.count, live, value, other)
        return Value(value, buffer.dtype, True)

    def move(self, verb: str, at: Access, dtype: DType, mask: str | None, value: str | None = None) -> str:
        """A call of the load or store helper that fits ``at``."""
        operands = [at.pointer]
        name = verb
        if at.table:
            name = "gather" if verb == "load" else "scatter"
            operands.append(at.table)
        elif at.step != "1":
            name += "_stride"
            operands.append(at.step)
        operands += [value] if value is not None else []
        if mask is not None:
            name += "_mask"
            operands.append(mask)
        return self.support.call(name, dtype, self.count, *operands)

    def element(self, variable: Variable, index: tuple[Index, ...], buffer: Buffer) -> str:
        """A buffer held in variables: one, or an array of one vector per element."""
        if not buffer.shape:
            return variable.name
        offset: Dim = 0
        for entry, stride in zip(index, strides_of(buffer), strict=True):
            if isinstance(entry, Scalar) or (self.lanes and depends(entry, self.lanes.axis)):
                raise ToolchainError(
                    Diagnostic("emit-private", f"{buffer.name}, private to a vector loop, is indexed by its axis")
                )
            offset = offset + entry * stride
        return f"{variable.name}[{self.dim(offset)}]"

    def store(self, buffer: Buffer, index: tuple[Index, ...], value: Value, mask: Scalar | None) -> None:
        variable = self.variable(buffer)
        if variable.value:
            self.assign(self.element(variable, index, buffer), variable, value, mask)
            return
        at = self.access(buffer, index)
        if self.lanes is None:
            guard = "" if mask is None else f"if ({self.value(mask).text}) "
            self.line(f"{guard}{_element(at.pointer)} = {self.stored_scalar(value)};")
            return
        live = self.mask_of(mask)
        stored = self.support.narrow(buffer.dtype, self.count, self.vectorised(value))
        self.line(self.move("store", at, stored_dtype(buffer.dtype), live, stored) + ";")

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
        buffer, combiner = statement.buffer, statement.combiner
        variable = self.variable(buffer)
        if self.lanes is None:
            self.combine_scalar(statement, value)
            return
        lane = lane_dtype(buffer.dtype)
        if variable.private:
            name = self.element(variable, statement.index, buffer)
            total = self.support.combine(combiner, lane, self.count, name, _operand(self.vectorised(value)))
            total = self.support.round(buffer.dtype, self.count, total)
            self.assign(name, variable, Value(total, buffer.dtype, True), statement.mask)
            return
        partial = self.scope.partials.get(id(statement))
        if partial is not None:
            part = _operand(self.only_live(statement, value))
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
            not (self.value(i).vector if isinstance(i, Scalar) else depends(i, self.lanes.axis)) for i in statement.index
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
            total = self.support.combine(statement.combiner, lane, self.count, _operand(old), _operand(self.vectorised(value)))
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
            offset = f"{at.table}[i_]" if at.table else f"i_ * {_operand(at.step)}"
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
            target = _element(self.access(buffer, statement.index).pointer)
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

    # values

    def shared_values(self, *roots: Scalar | None) -> None:
        """Bind sub-expressions that one statement uses several times, so that text grows with the expression's nodes."""
        self.shared: dict[int, Value] = {}
        uses: dict[int, int] = {}
        order: list[Scalar] = []
        stack: list[tuple[Scalar, bool]] = [(root, False) for root in reversed(roots) if root is not None]
        while stack:
            node, done = stack.pop()
            if done:
                order.append(node)
                continue
            uses[id(node)] = uses.get(id(node), 0) + 1
            if uses[id(node)] == 1:
                stack.append((node, True))
                stack += [(child, False) for child in reversed(children(node))]
        for node in order:
            if uses[id(node)] > 1 and isinstance(node, Apply | Cast | Load):
                found = self.value(node)
                name = self.fresh("v")
                self.line(f"const {self.value_type(found)} {name} = {found.text};")
                self.shared[id(node)] = replace(found, text=name)

    def value(self, value: Scalar) -> Value:
        bound = self.shared.get(id(value))
        if bound is not None:
            return bound
        match value:
            case Const(number, dtype):
                return Value(self.literal(number, dtype), dtype)
            case Ref(name):
                return self.scope.values[name]
            case Position(index):
                return self.position(index)
            case Load():
                return self.load(value)
            case Cast(operand, dtype):
                return self.cast(self.value(operand), dtype)
            case Apply(function, operands):
                special = self.compare_positions(value)
                if special is not None:
                    return special
                return self.apply(function, tuple(self.value(o) for o in operands), value.dtype)
            case _:
                raise TypeError(f"{value!r} is not a scalar")

    shared: dict[int, Value] = {}  # noqa: RUF012  (replaced, never changed)

    def position(self, index: Dim) -> Value:
        if self.lanes is None or not depends(index, self.lanes.axis):
            return Value(f"(int64_t)({self.dim(index)})", I64)
        vector = self.support.vector(I64, self.count)
        affine = along(index, self.lanes.axis)
        if affine is None:
            table = self.table(index, [])
            return Value(self.support.call("load", I64, self.count, table), I64, True)
        iota = self.support.call("iota", I64, self.count)
        step = "" if affine.step == 1 else f" * {self.factor(affine.step)}"
        start = self.support.call("splat", I64, self.count, self.dim(index))
        assert vector
        return Value(f"({start} + {iota}{step})", I64, True)

    def compare_positions(self, value: Apply) -> Value | None:
        """``@a < @b`` over lanes in 32 bits: their difference moves by a small step, so far ones may be clamped."""
        if self.lanes is None or not is_position_test(value):
            return None
        left, right = (_index_of(o) for o in value.operands)
        difference = right - left
        affine = along(difference, self.lanes.axis)
        assert affine is not None
        if affine.step == 0:
            return Value(f"({self.dim(left)} {_COMPARE[value.function]} {self.dim(right)})", BOOL)
        far = 1 << 24
        start = self.support.dim(f"dim_max(-{far}, dim_min({far}, {self.dim(difference)}))")
        splat = self.support.call("splat", lane_dtype(BOOL), self.count, f"(int32_t){start}")
        iota = self.support.call("iota", lane_dtype(BOOL), self.count)
        zero = f"({self.support.mask(self.count)}){{0}}"
        return Value(f"({zero} {_COMPARE[value.function]} {splat} + {iota} * {_operand(str(affine.step))})", BOOL, True)

    def literal(self, number: float, dtype: DType) -> str:
        return literal(number, dtype)

    def splat(self, value: Value, count: int) -> str:
        text = f"-{_operand(value.text)}" if value.dtype == BOOL else value.text
        return self.support.call("splat", lane_dtype(value.dtype), count, text)

    def vectorised(self, value: Value) -> str:
        return value.text if value.vector else self.splat(value, self.count)

    def coerced(self, value: Scalar, vector: bool) -> str:
        found = self.value(value)
        return self.vectorised(found) if vector else found.text

    def widen_scalar(self, dtype: DType, stored: str) -> str:
        if stored_dtype(dtype) != dtype and dtype != BOOL:
            return self.support.scalar_half("widen", dtype, stored)
        return f"({stored} != 0)" if dtype == BOOL else stored

    def stored_scalar(self, value: Value) -> str:
        if stored_dtype(value.dtype) != value.dtype and value.dtype != BOOL:
            return self.support.scalar_half("narrow", value.dtype, value.text)
        return value.text

    def rounded(self, value: Value) -> Value:
        """After a function of f16 or bf16: as NumPy, which rounds each result."""
        if value_dtype(value.dtype) == value.dtype:
            return value
        if value.vector:
            return replace(value, text=self.support.round(value.dtype, self.count, value.text))
        return replace(value, text=self.widen_scalar(value.dtype, self.stored_scalar(value)))

    def apply(self, function: str, operands: tuple[Value, ...], dtype: DType) -> Value:
        vector = any(o.vector for o in operands)
        if function == "select":
            return self.select(operands, vector)
        texts = tuple(_operand(self.vectorised(o) if vector else o.text) for o in operands)
        own = operands[0].dtype
        if own == BOOL:
            return Value(self.logic(function, texts, vector), dtype, vector)
        plain = value_dtype(own)
        if function in _COMPARE:
            text = f"({texts[0]} {_COMPARE[function]} {texts[1]})"
            return Value(self.as_mask(text, plain) if vector else text, BOOL, vector)
        if function in ("isnan", "isinf"):
            return self.classify(function, texts[0], plain, vector)
        return self.rounded(Value(self.arithmetic(function, texts, plain, vector), own, vector))

    def arithmetic(self, function: str, texts: tuple[str, ...], dtype: DType, vector: bool) -> str:
        text = None
        if function in _INFIX and not (function == "div" and dtype.is_integer):
            text = f"({texts[0]} {_INFIX[function]} {texts[1]})"
        elif function in _BITS:
            text = f"({texts[0]} {_BITS[function]} {texts[1]})"
        elif function == "neg":
            text = f"(-{texts[0]})"
        elif function == "not":
            text = f"(~{texts[0]})"
        elif function == "fma":
            text = f"({texts[0]} * {texts[1]} + {texts[2]})"
        if text is not None:
            return f"(({C_TYPES[dtype.name]}){text})" if dtype.is_integer and not vector and dtype.bits < 32 else text
        if vector:
            return self.support.call(function, dtype, self.count, *texts)
        return f"{self.support.scalar(function, dtype)}({', '.join(texts)})"

    def select(self, operands: tuple[Value, ...], vector: bool) -> Value:
        condition, yes, no = operands
        if not vector:
            return Value(f"({condition.text} ? {yes.text} : {no.text})", yes.dtype)
        if not condition.vector:  # one branch for all lanes
            return Value(f"({condition.text} ? {self.vectorised(yes)} : {self.vectorised(no)})", yes.dtype, True)
        texts = (condition.text, self.vectorised(yes), self.vectorised(no))
        return Value(self.support.call("select", lane_dtype(yes.dtype), self.count, *texts), yes.dtype, True)

    def logic(self, function: str, texts: tuple[str, ...], vector: bool) -> str:
        invert = "~" if vector else "!"
        a, b = texts[0], texts[-1]
        if function == "not":
            return f"({invert}{a})"
        if function in _BOOL_MEANING:
            return _BOOL_MEANING[function].format(a=a, b=b)
        if function in _BOOL_NEGATED:
            return f"({invert}{_BOOL_NEGATED[function].format(a=a, b=b).replace('NOT ', invert)})"
        raise ToolchainError(Diagnostic("emit-function", f"no C code for {function} of bool"))

    def classify(self, function: str, text: str, dtype: DType, vector: bool) -> Value:
        if not dtype.is_float:
            return Value("0", BOOL)
        if vector:
            size = self.support.call("abs", dtype, self.count, text)
            limit = self.support.call("splat", dtype, self.count, literal(float("inf"), dtype))
            found = f"({text} != {text})" if function == "isnan" else f"({size} == {limit})"
            return Value(self.as_mask(found, dtype), BOOL, True)
        size = f"{self.support.scalar('abs', dtype)}({text})"
        found = f"({text} != {text})" if function == "isnan" else f"({size} == {literal(float('inf'), dtype)})"
        return Value(found, BOOL)

    def as_mask(self, comparison: str, dtype: DType) -> str:
        """A comparison of vectors as i32 lanes."""
        if dtype.bits == 32:
            return comparison
        return f"__builtin_convertvector({comparison}, {self.support.mask(self.count)})"

    def cast(self, value: Value, dtype: DType) -> Value:
        check_dtype(dtype)
        source, target = value_dtype(value.dtype), value_dtype(dtype)
        if source == target:
            return self.rounded(replace(value, dtype=dtype))
        if not value.vector:
            return self.rounded(Value(self.cast_scalar(value.text, source, target), dtype))
        return self.rounded(Value(self.cast_vector(value.text, source, target), dtype, True))

    def cast_scalar(self, text: str, source: DType, target: DType) -> str:
        if target == BOOL:
            return f"({text} != 0)"
        return f"({C_TYPES[target.name]}){_through(source, target)}{_operand(text)}"

    def cast_vector(self, text: str, source: DType, target: DType) -> str:
        if target == BOOL:
            return self.as_mask(f"({text} != 0)", source)
        final = self.support.vector(target, self.count)
        if source == BOOL:
            return f"__builtin_convertvector(-{_operand(text)}, {final})"
        if source.is_float and target.is_integer and target.bits < 32:
            text = f"__builtin_convertvector({text}, {self.support.vector(lane_dtype(BOOL), self.count)})"
        if source.is_float and target in (U32, U64):
            text = f"__builtin_convertvector({text}, {self.support.vector(I64, self.count)})"
        return f"__builtin_convertvector({text}, {final})"

    # microkernels

    def call(self, call: Call) -> None:
        if call.microkernel != "matmul":
            raise ToolchainError(Diagnostic("emit-microkernel", f"no C code for the microkernel {call.microkernel}"))
        a, b = call.operands
        dtype = call.out.buffer.dtype
        if dtype not in (F32, F64):
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


def _operand(text: str) -> str:
    """``text`` so that a prefix or infix operator may stand beside it."""
    return text if re.fullmatch(r"\w+|[\w.]+|\w+\((?:[^()]|\([^()]*\))*\)|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", text) else f"({text})"


def _element(pointer: str) -> str:
    base, _, offset = pointer.partition(" + ")
    return f"{base}[{offset or '0'}]" if " - " not in base else f"({pointer})[0]"


def _through(source: DType, target: DType) -> str:
    """C leaves float to a narrow or unsigned integer undefined out of range; NumPy goes through a wider one."""
    if not source.is_float or not target.is_integer:
        return ""
    if target.bits < 32:
        return "(int32_t)"
    return "(int64_t)" if target in (U32, U64) else ""


def literal(number: float, dtype: DType) -> str:
    """A C literal of exactly the value that ``number`` has in ``dtype``."""
    if dtype == BOOL:
        return "1" if number else "0"
    if dtype.is_integer:
        return integer_literal(int(number), dtype)
    wide = float(np.asarray(number).astype(dtype.numpy))
    single = value_dtype(dtype) == F32
    if np.isnan(wide):
        return f'__builtin_nan{"f" if single else ""}("")'
    if np.isinf(wide):
        return f"{'-' if wide < 0 else ''}__builtin_inf{'f' if single else ''}()"
    return f"{np.float32(wide)!s}f" if single else repr(wide)


def integer_literal(number: int, dtype: DType) -> str:
    """``number`` wrapped to ``dtype``, of that C type or int."""
    number &= (1 << dtype.bits) - 1
    if dtype.kind == "int" and number >> (dtype.bits - 1):
        number -= 1 << dtype.bits
    if dtype.bits < 32 or dtype.name == "i32":
        return f"(-{-number - 1} - 1)" if number == -(2**31) else str(number)
    if dtype == U32:
        return f"{number}u"
    if dtype == U64:
        return f"UINT64_C({number})"
    return "(-INT64_C(9223372036854775807) - 1)" if number == -(2**63) else f"INT64_C({number})"


def identity(combiner: str, dtype: DType) -> float:
    """What leaves any value as it is when combined with it."""
    if combiner in ("add", "or"):
        return 0
    if combiner == "mul":
        return 1
    if combiner == "and":
        return 1 if dtype == BOOL else -1
    if dtype == BOOL:
        return 0 if combiner == "max" else 1
    if dtype.is_float:
        return float("-inf") if combiner == "max" else float("inf")
    lowest = -(1 << (dtype.bits - 1)) if dtype.kind == "int" else 0
    return lowest if combiner == "max" else lowest + (1 << dtype.bits) - 1


def children(value: Scalar) -> list[Scalar]:
    """Operands, gathered indices and mask of ``value``."""
    match value:
        case Apply(_, operands):
            return list(operands)
        case Cast(operand):
            return [operand]
        case Load(_, index, mask):
            return [*(i for i in index if isinstance(i, Scalar)), *([mask] if mask is not None else [])]
        case _:
            return []


def parts(statement: Statement) -> list[Scalar]:
    """The values that ``statement`` itself computes."""
    match statement:
        case Let(_, value):
            return [value]
        case Store(_, index, value, mask) | Accumulate(_, index, _, value, mask):
            return [value, *(i for i in index if isinstance(i, Scalar)), *([mask] if mask is not None else [])]
        case _:
            return []


def _vectorises(loop: Loop) -> bool:
    return not any(isinstance(s, Call) or (isinstance(s, Loop) and s.kind is Kind.VECTOR) for s in walk(loop.body))


def _index_of(value: Scalar) -> Dim:
    if isinstance(value, Position):
        return value.index
    assert isinstance(value, Const)
    return int(value.value)


def is_position_test(value: Apply) -> bool:
    """Whether ``value`` compares index expressions whose difference moves by a small literal step along any axis."""
    if value.function not in _COMPARE or value.operands[0].dtype != I64:
        return False
    if not all(isinstance(o, Position | Const) for o in value.operands):
        return False
    difference = _index_of(value.operands[1]) - _index_of(value.operands[0])
    if isinstance(difference, int):
        return True
    return all(
        len(m) <= 1 and all(isinstance(a, _Symbol) and p == 1 for a, p in m) and abs(c) < 1 << 16
        for m, c in difference.terms
        if m
    )


def lanes_of(loop: Loop, vector_bytes: int) -> int:
    """Lanes of a vector loop: as many as its widest moving value has in a register, 4 bytes at least."""
    bound = {loop.axis}
    private = set[str]()
    seen: dict[int, bool] = {}

    def moving(value: Scalar) -> bool:
        """Whether ``value`` is a vector; notes 64-bit ones."""
        nonlocal wide
        if id(value) in seen:
            return seen[id(value)]
        if isinstance(value, Apply) and is_position_test(value):
            result = True
        else:
            inner = [moving(child) for child in children(value)]
            result = any(inner) or _moves_itself(value, bound, private)
            wide |= result and value.dtype.bits == 64
        seen[id(value)] = result
        return result

    wide = False
    for statement in walk(loop.body):
        if isinstance(statement, Alloc):
            private.add(statement.buffer.name)
            wide |= statement.buffer.dtype.bits == 64
        vectors = [moving(part) for part in parts(statement)]
        if isinstance(statement, Let) and any(vectors):
            bound.add(statement.name)
        if isinstance(statement, Store | Accumulate):
            wide |= statement.buffer.dtype.bits == 64
    return vector_bytes // (8 if wide else 4)


def _moves_itself(value: Scalar, bound: set[str], private: set[str]) -> bool:
    match value:
        case Ref(name):
            return name in bound
        case Position(index):
            return any(depends(index, b) for b in bound)
        case Load(buffer, index):
            moved = any(depends(i, b) for i in index if not isinstance(i, Scalar) for b in bound)
            return moved or buffer.name in private
        case _:
            return False


_HEAVY: Final = frozenset({"exp", "expm1", "log", "log1p", "sigmoid", "tanh", "erf", "sin", "cos", "pow", "div", "sqrt"})


def unrolling(loop: Loop, private: set[str]) -> int:
    """Copies of the body per step: several partial sums hide the latency of one; heavy bodies have work enough."""
    reduces = any(isinstance(s, Accumulate) and s.buffer.name not in private for s in loop.body)
    if not reduces or any(isinstance(s, Loop) for s in loop.body):
        return 1
    nodes = heavy = 0
    stack = [part for s in loop.body for part in parts(s)]
    while stack:
        node = stack.pop()
        nodes += 1
        heavy += isinstance(node, Apply) and node.function in _HEAVY
        stack += children(node)
        if nodes > 64:
            return 1
    return 2 if heavy or nodes > 16 else 4
