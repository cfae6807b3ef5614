"""Emits scalars of the loop IR as C expressions; values that vary along the axis of a vector loop are
vectors.
"""

from __future__ import annotations

from graphwright.errors import Diagnostic, ToolchainError
from graphwright.ir.loops.nodes import (
    Apply,
    Bits,
    Buffer,
    Cast,
    Const,
    Index,
    Load,
    Position,
    Ref,
    Scalar,
)
from graphwright.ir.symbols import Dim
from graphwright.ir.types import BOOL, F32, I32, I64, DType
from graphwright.records import replace
from graphwright.targets.cpu.c.analysis import (
    COMPARISONS,
    NUMBER_FIRST,
    children,
    index_of,
    is_position_test,
    number_first,
)
from graphwright.targets.cpu.c.arithmetic import Arithmetic
from graphwright.targets.cpu.c.dims import affine_in, depends, strides_of
from graphwright.targets.cpu.c.dtypes import C_TYPES, check_dtype, lane_dtype, stored_dtype
from graphwright.targets.cpu.c.helpers.strided_loads import SMALL_STEPS
from graphwright.targets.cpu.c.lines import operand
from graphwright.targets.cpu.c.literals import literal
from graphwright.targets.cpu.c.scope import Access, Value, Variable


class Values(Arithmetic):
    """Emits values of the loop IR: constants, loads, positions, and functions."""

    def variable(self, buffer: Buffer) -> Variable:
        """The C variable of ``buffer``."""
        return self.scope.variables[buffer.name]

    def access(self, buffer: Buffer, index: tuple[Index, ...]) -> Access:
        """The access of the element at ``index``, for each lane in a vector loop."""
        check_dtype(buffer.dtype)
        name = self.variable(buffer).name
        dims: Dim = 0
        gathered: list[tuple[Value, Dim]] = []
        for entry, stride in zip(index, strides_of(buffer), strict=True):
            if isinstance(entry, Scalar):
                gathered.append((self.value(entry), stride))
            else:
                dims = dims + entry * stride
        uniform = [f"(int64_t){operand(v.text)} * {self.factor(s)}" for v, s in gathered if not v.vector]
        varying = [(v, s) for v, s in gathered if v.vector]
        if self.lanes is None:
            return Access(self.pointer(name, dims, uniform), uniform=True)
        affine = affine_in(dims, self.lanes.axis)
        if affine is None or varying:
            return Access(self.pointer(name, 0, uniform), table=self.table(dims, varying))
        pointer = self.pointer(name, dims, uniform)
        return Access(pointer, self.dim(affine.step), uniform=affine.step == 0)

    def pointer(self, name: str, dims: Dim, extra: list[str]) -> str:
        """The address ``dims`` elements after ``name``, plus ``extra`` terms."""
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
            terms = [f"(int64_t){operand(v.text)}[i_] * {self.factor(s)}" for v, s in varying]
            self.line(f"{table}[i_] = {' + '.join([self.dim(dims), *terms])};")
        return table

    def mask_of(self, mask: Scalar | None) -> str | None:
        """The active lanes of a vector access; None means all."""
        assert self.lanes is not None
        if mask is None:
            return self.lanes.tail
        own = self.value(mask)
        text = own.text if own.vector else self.splat(own, self.count)
        return f"{operand(text)} & {self.lanes.tail}" if self.lanes.tail else text

    def load(self, load: Load) -> Value:
        """The element of each lane, or one for all; masked-off lanes get ``load.other``."""
        buffer = load.buffer
        variable = self.variable(buffer)
        if variable.value:
            return Value(self.element(variable, load.index, buffer), buffer.dtype, variable.private)
        at = self.access(buffer, load.index)
        mask = None if load.mask is None else self.value(load.mask)
        if at.uniform and (mask is None or not mask.vector):
            found = self.widen_scalar(buffer.dtype, element_text(at.pointer))
            if mask is None:
                return Value(found, buffer.dtype)
            return Value(f"({mask.text} ? {found} : {literal(load.other, buffer.dtype)})", buffer.dtype)
        live = self.mask_of(load.mask)
        stored = self.move("load", at, stored_dtype(buffer.dtype), live)
        value = self.storage.widen(buffer.dtype, self.count, stored)
        if load.mask is not None and live is not None and load.other != 0:
            other = self.splat(Value(literal(load.other, buffer.dtype), buffer.dtype), self.count)
            value = self.prelude.call("select", lane_dtype(buffer.dtype), self.count, live, value, other)
        return Value(value, buffer.dtype, vector=True)

    def move(self, verb: str, at: Access, dtype: DType, mask: str | None, value: str | None = None) -> str:
        """A call of the load or store helper for the access ``at``."""
        operands = [at.pointer]
        name = verb
        if at.table:
            name = "gather" if verb == "load" else "scatter"
            operands.append(at.table)
        elif verb == "load" and mask is None and at.step in SMALL_STEPS:
            name = f"load_step_{at.step}"
        elif at.step != "1":
            name += "_stride"
            operands.append(at.step)
        operands += [value] if value is not None else []
        if mask is not None:
            name += "_mask"
            operands.append(mask)
        return self.prelude.call(name, dtype, self.count, *operands)

    def element(self, variable: Variable, index: tuple[Index, ...], buffer: Buffer) -> str:
        """An element of a buffer that is held in variables: a variable, or an array with one vector per
        element.
        """
        if not buffer.shape:
            return variable.name
        offset: Dim = 0
        for entry, stride in zip(index, strides_of(buffer), strict=True):
            if isinstance(entry, Scalar) or (self.lanes and depends(entry, self.lanes.axis)):
                raise ToolchainError(
                    Diagnostic(
                        "emit-private", f"{buffer.name}, private to a vector loop, is indexed by its axis"
                    )
                )
            offset = offset + entry * stride
        return f"{variable.name}[{self.dim(offset)}]"

    def shared_values(self, *roots: Scalar | None) -> None:
        """Binds sub-expressions that a statement uses several times to variables, so that the code is linear
        in the number of nodes.
        """
        self.shared = {}
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
        """Emits ``value`` in the current loops. Raises ToolchainError for values without C code."""
        bound = self.shared.get(id(value))
        if bound is not None:
            return bound
        match value:
            case Const(number, dtype):
                return Value(literal(number, dtype), dtype)
            case Ref(name):
                return self.scope.values[name]
            case Position(index):
                return self.position(index)
            case Load():
                return self.load(value)
            case Cast():
                return self.rounded(self.conversion(value))
            case Bits(operand, dtype):
                return self.same_bits(self.value(operand), dtype)
            case Apply(function, operands):
                special = self.compare_positions(value)
                if special is not None:
                    return special
                if function in NUMBER_FIRST and (ordered := number_first(operands)) is not None:
                    function, operands = NUMBER_FIRST[function], ordered
                return self.apply(function, tuple(self.value(o) for o in operands), value.dtype)
            case _:
                raise TypeError(f"{value!r} is not a scalar")

    def position(self, index: Dim) -> Value:
        """An index as an i64 value."""
        if self.lanes is None or not depends(index, self.lanes.axis):
            return Value(f"(int64_t)({self.dim(index)})", I64)
        affine = affine_in(index, self.lanes.axis)
        if affine is None:
            table = self.table(index, [])
            return Value(self.prelude.call("load", I64, self.count, table), I64, vector=True)
        iota = self.prelude.call("iota", I64, self.count)
        step = "" if affine.step == 1 else f" * {self.factor(affine.step)}"
        start = self.prelude.call("splat", I64, self.count, self.dim(index))
        return Value(f"({start} + {iota}{step})", I64, vector=True)

    def compare_positions(self, value: Apply) -> Value | None:
        """Emits ``@a < @b`` over lanes in 32 bits: the difference changes by a small step, so large
        differences may be clamped.
        """
        if self.lanes is None or not is_position_test(value):
            return None
        left, right = (index_of(o) for o in value.operands)
        difference = right - left
        affine = affine_in(difference, self.lanes.axis)
        assert affine is not None
        if affine.step == 0:
            return Value(f"({self.dim(left)} {COMPARISONS[value.function]} {self.dim(right)})", BOOL)
        far = 1 << 24
        start = self.prelude.dim(f"dim_max(-{far}, dim_min({far}, {self.dim(difference)}))")
        splat = self.prelude.call("splat", lane_dtype(BOOL), self.count, f"(int32_t){start}")
        iota = self.prelude.call("iota", lane_dtype(BOOL), self.count)
        zero = f"({self.prelude.mask(self.count)}){{0}}"
        return Value(
            f"({zero} {COMPARISONS[value.function]} {splat} + {iota} * {operand(str(affine.step))})",
            BOOL,
            vector=True,
        )

    def coerced(self, value: Scalar, vector: bool) -> str:
        """The C expression of ``value``, as a vector or a scalar."""
        found = self.value(value)
        return self.vectorized(found) if vector else found.text

    def value_to_bind(self, value: Scalar) -> Value:
        """``value``, to be bound to a variable. The stored form that it was widened from gets a name too, so
        that storing it needs no conversion.
        """
        inner = value.operand if isinstance(value, Cast) else None
        if not isinstance(inner, Cast) or inner.dtype == value.dtype or inner.dtype.computed != value.dtype:
            return self.value(value)
        found, name, dtype = self.value_to_store(inner), self.fresh("stored"), stored_dtype(inner.dtype)
        if found.vector:
            kind, text = self.prelude.vector(dtype, self.count), self.stored_vector(found, inner.dtype)
            widened = self.storage.widen(inner.dtype, self.count, name)
        else:
            kind, text = C_TYPES[dtype.name], self.stored_scalar(found)
            widened = self.widen_scalar(inner.dtype, name)
        self.line(f"const {kind} {name} = {text};")
        return Value(widened, value.dtype, found.vector, (inner.dtype, name))

    def value_to_store(self, value: Scalar) -> Value:
        """``value``, to be stored. A conversion is not rounded, as the store rounds."""
        if isinstance(value, Cast) and id(value) not in self.shared:
            return self.conversion(value)
        return self.value(value)

    def conversion(self, value: Cast) -> Value:
        """``value``, not yet rounded. Quantized numbers are rounded by the instruction that converts them."""
        match value.operand:
            case Apply("quantize", operands, dtype) if dtype == F32 and value.dtype.is_integer:
                found = [self.value(each) for each in operands]
                if found[0].vector:
                    texts = map(self.vectorized, found)
                    integers = self.prelude.call("quantize_to_integers", F32, self.count, *texts)
                    return self.converted(Value(integers, I32, vector=True), value.dtype)
        return self.converted(self.value(value.operand), value.dtype)


def element_text(pointer: str) -> str:
    """The element at ``pointer``: for ``x + 3`` it is ``x[3]``."""
    base, _, offset = pointer.partition(" + ")
    return f"{base}[{offset or '0'}]" if " - " not in base else f"({pointer})[0]"
