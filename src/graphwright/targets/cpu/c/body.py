"""Emits statements of the loop IR: declarations, stores, and calls of microkernels."""

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
    vectorizes,
)
from graphwright.ir.symbols import Dim, product
from graphwright.ir.types import F32, F64, I32, I64, U32, U64, DType
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.c.dims import strides_of
from graphwright.targets.cpu.c.dtypes import C_TYPES, check_dtype, stored_dtype
from graphwright.targets.cpu.c.literals import literal
from graphwright.targets.cpu.c.loops import Loops
from graphwright.targets.cpu.c.matmul import matmul_helper
from graphwright.targets.cpu.c.scope import Value, Variable, c_name
from graphwright.targets.cpu.c.values import element_text


@dataclass(frozen=True)
class Rectangle:
    """A tile as C arguments (pointer, row stride, column stride), and its sizes."""

    text: str
    sizes: tuple[Dim, Dim]


class Writer(Loops):
    """Emits statements as lines of C."""

    def body(self, statements: Iterable[Statement]) -> None:
        """Emits ``statements`` in order."""
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        """Emits one statement. Raises ToolchainError for statements that have no C code."""
        match statement:
            case Loop(_, Kind.VECTOR) if self.lanes is None and not self.scalar and vectorizes(statement):
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
            self.late_stores.append((f"{self.prelude.vector(dtype, self.count)} {kept};", f"{move};"))
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
        helper = matmul_helper(self.prelude, dtype)
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
