"""Scalars of the loop IR as C expressions: inside a vector loop what moves along its axis is a vector."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

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
from graphwright.ir.types import BOOL, F32, I32, I64, U32, U64, DType
from graphwright.records import replace
from graphwright.targets.cpu.c.analysis import COMPARISONS, children, index_of, is_position_test
from graphwright.targets.cpu.c.dims import along, depends, dim_text, factor_text, strides_of
from graphwright.targets.cpu.c.literals import literal
from graphwright.targets.cpu.c.scope import Access, Lanes, Scope, Value, Variable
from graphwright.targets.cpu.c.steps import SMALL_STEPS
from graphwright.targets.cpu.c.support import (
    C_TYPES,
    Support,
    check_dtype,
    lane_dtype,
    stored_dtype,
)

_INFIX: Final = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


_BITS: Final = {"and": "&", "or": "|", "xor": "^"}


_BOOL_MEANING: Final = {
    "add": "({a} | {b})", "mul": "({a} & {b})", "max": "({a} | {b})", "min": "({a} & {b})",
    "and": "({a} & {b})", "or": "({a} | {b})", "xor": "({a} ^ {b})", "ne": "({a} ^ {b})",
}  # fmt: skip
"""Of vectors (masks) and scalars (0 or 1) alike."""


_BOOL_NEGATED: Final = {"eq": "({a} ^ {b})", "lt": "(NOT {b} | {a})", "le": "({a} & NOT {b})"}
"""What to negate."""


class Values:
    """Writes values as C: the names in force, the vector loop around, the lines so far.

    ``scalar``: no vectors at all, a naive version to check against.
    """

    def __init__(self, support: Support, scalar: bool = False) -> None:
        self.support = support
        self.scalar = scalar
        self.lines: list[str] = []
        self.depth = 1
        self.scope = Scope()
        self.lanes: Lanes | None = None
        self._counts: dict[str, int] = {}

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

    def value_type(self, value: Value) -> str:
        lane = lane_dtype(value.dtype)
        if value.vector:
            return self.support.vector(lane, self.count)
        return C_TYPES[lane.name]

    @property
    def count(self) -> int:
        assert self.lanes is not None
        return self.lanes.count

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
        uniform = [f"(int64_t){operand(v.text)} * {self.factor(s)}" for v, s in gathered if not v.vector]
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
            terms = [f"(int64_t){operand(v.text)}[i_] * {self.factor(s)}" for v, s in varying]
            self.line(f"{table}[i_] = {' + '.join([self.dim(dims), *terms])};")
        return table

    def mask_of(self, mask: Scalar | None) -> str | None:
        """The lanes that take part in a vector access: None is all."""
        assert self.lanes is not None
        if mask is None:
            return self.lanes.tail
        own = self.value(mask)
        text = own.text if own.vector else self.splat(own, self.count)
        return f"{operand(text)} & {self.lanes.tail}" if self.lanes.tail else text

    def load(self, load: Load) -> Value:
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
        elif verb == "load" and mask is None and at.step in SMALL_STEPS:
            name = f"load_step_{at.step}"
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
                    Diagnostic(
                        "emit-private", f"{buffer.name}, private to a vector loop, is indexed by its axis"
                    )
                )
            offset = offset + entry * stride
        return f"{variable.name}[{self.dim(offset)}]"

    def shared_values(self, *roots: Scalar | None) -> None:
        """Bind sub-expressions that one statement uses several times, so that text grows with the
        expression's nodes."""
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
                return self.rounded(self.converted(self.value(operand), dtype))
            case Bits(operand, dtype):
                return self.same_bits(self.value(operand), dtype)
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
        """``@a < @b`` over lanes in 32 bits: their difference moves by a small step, so far ones may be
        clamped."""
        if self.lanes is None or not is_position_test(value):
            return None
        left, right = (index_of(o) for o in value.operands)
        difference = right - left
        affine = along(difference, self.lanes.axis)
        assert affine is not None
        if affine.step == 0:
            return Value(f"({self.dim(left)} {COMPARISONS[value.function]} {self.dim(right)})", BOOL)
        far = 1 << 24
        start = self.support.dim(f"dim_max(-{far}, dim_min({far}, {self.dim(difference)}))")
        splat = self.support.call("splat", lane_dtype(BOOL), self.count, f"(int32_t){start}")
        iota = self.support.call("iota", lane_dtype(BOOL), self.count)
        zero = f"({self.support.mask(self.count)}){{0}}"
        return Value(
            f"({zero} {COMPARISONS[value.function]} {splat} + {iota} * {operand(str(affine.step))})",
            BOOL,
            True,
        )

    def literal(self, number: float, dtype: DType) -> str:
        return literal(number, dtype)

    def splat(self, value: Value, count: int) -> str:
        text = f"-{operand(value.text)}" if value.dtype == BOOL else value.text
        return self.support.call("splat", lane_dtype(value.dtype), count, text)

    def vectorised(self, value: Value) -> str:
        return value.text if value.vector else self.splat(value, self.count)

    def coerced(self, value: Scalar, vector: bool) -> str:
        found = self.value(value)
        return self.vectorised(found) if vector else found.text

    def widen_scalar(self, dtype: DType, stored: str) -> str:
        if stored_dtype(dtype) != dtype and dtype != BOOL:
            return self.support.scalar_converted("widen", dtype, stored)
        return f"({stored} != 0)" if dtype == BOOL else stored

    def stored_vector(self, value: Value, dtype: DType) -> str:
        if value.vector and value.stored and value.stored[0] == dtype:
            return value.stored[1]
        return self.support.narrow(dtype, self.count, self.vectorised(value))

    def stored_scalar(self, value: Value) -> str:
        if value.stored and value.stored[0] == value.dtype:
            return value.stored[1]
        if stored_dtype(value.dtype) != value.dtype and value.dtype != BOOL:
            return self.support.scalar_converted("narrow", value.dtype, value.text)
        return value.text

    def rounded(self, value: Value) -> Value:
        """After a function of a dtype that is computed in another: as NumPy, which rounds each result."""
        if value.dtype.computed == value.dtype:
            return value
        if value.vector:
            return replace(value, text=self.support.round(value.dtype, self.count, value.text))
        return replace(value, text=self.widen_scalar(value.dtype, self.stored_scalar(value)))

    def apply(self, function: str, operands: tuple[Value, ...], dtype: DType) -> Value:
        vector = any(o.vector for o in operands)
        if function == "select":
            return self.select(operands, vector)
        own = operands[0].dtype
        if function == "div" and own == F32 and vector and not operands[1].vector:
            text = self.support.call("divided", F32, self.count, operands[0].text, operands[1].text)
            return Value(text, own, True)
        if function == "pow" and own == F32 and vector and not operands[1].vector:
            text = self.support.call("powered", F32, self.count, operands[0].text, operands[1].text)
            return Value(text, own, True)
        texts = tuple(operand(self.vectorised(o) if vector else o.text) for o in operands)
        if own == BOOL:
            return Value(self.logic(function, texts, vector), dtype, vector)
        plain = own.computed
        if function in COMPARISONS:
            text = f"({texts[0]} {COMPARISONS[function]} {texts[1]})"
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
            return (
                f"(({C_TYPES[dtype.name]}){text})"
                if dtype.is_integer and not vector and dtype.bits < 32
                else text
            )
        if vector:
            return self.support.call(function, dtype, self.count, *texts)
        return f"{self.support.scalar(function, dtype)}({', '.join(texts)})"

    def select(self, operands: tuple[Value, ...], vector: bool) -> Value:
        condition, yes, no = operands
        if not vector:
            return Value(f"({condition.text} ? {yes.text} : {no.text})", yes.dtype)
        if not condition.vector:  # one branch for all lanes
            return Value(
                f"({condition.text} ? {self.vectorised(yes)} : {self.vectorised(no)})", yes.dtype, True
            )
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
        found = (
            f"({text} != {text})" if function == "isnan" else f"({size} == {literal(float('inf'), dtype)})"
        )
        return Value(found, BOOL)

    def as_mask(self, comparison: str, dtype: DType) -> str:
        """A comparison of vectors as i32 lanes."""
        if dtype.bits == 32:
            return comparison
        return f"__builtin_convertvector({comparison}, {self.support.mask(self.count)})"

    def value_to_bind(self, value: Scalar) -> Value:
        """``value``; what it was widened from gets a name too: storing it need not narrow it again."""
        inner = value.operand if isinstance(value, Cast) else None
        if not isinstance(inner, Cast) or inner.dtype == value.dtype or inner.dtype.computed != value.dtype:
            return self.value(value)
        found, name, dtype = self.value_to_store(inner), self.fresh("stored"), stored_dtype(inner.dtype)
        if found.vector:
            kind, text = self.support.vector(dtype, self.count), self.stored_vector(found, inner.dtype)
            widened = self.support.widen(inner.dtype, self.count, name)
        else:
            kind, text = C_TYPES[dtype.name], self.stored_scalar(found)
            widened = self.widen_scalar(inner.dtype, name)
        self.line(f"const {kind} {name} = {text};")
        return Value(widened, value.dtype, found.vector, (inner.dtype, name))

    def value_to_store(self, value: Scalar) -> Value:
        """``value``, but of a conversion not yet rounded: storing it does that."""
        if isinstance(value, Cast) and id(value) not in self.shared:
            return self.converted(self.value(value.operand), value.dtype)
        return self.value(value)

    def converted(self, value: Value, dtype: DType) -> Value:
        """``value`` as ``dtype``, in what that is computed in."""
        check_dtype(dtype)
        source, target = value.dtype.computed, dtype.computed
        if source == target:
            return replace(value, dtype=dtype)
        if not value.vector:
            return Value(self.cast_scalar(value.text, source, target), dtype)
        return Value(self.cast_vector(value.text, source, target), dtype, True)

    def same_bits(self, value: Value, dtype: DType) -> Value:
        """As the element would lie in memory, read as ``dtype``."""
        check_dtype(dtype)
        if not value.vector:
            source, target = stored_dtype(value.dtype), stored_dtype(dtype)
            helper = self.support.scalar_bits(source, target)
            return Value(self.widen_scalar(dtype, f"{helper}({self.stored_scalar(value)})"), dtype)
        stored = self.support.narrow(value.dtype, self.count, value.text)
        bits = f"(({self.support.vector(stored_dtype(dtype), self.count)}){operand(stored)})"
        return Value(self.support.widen(dtype, self.count, bits), dtype, True)

    def cast_scalar(self, text: str, source: DType, target: DType) -> str:
        if target == BOOL:
            return f"({text} != 0)"
        return f"({C_TYPES[target.name]}){_through(source, target)}{operand(text)}"

    def cast_vector(self, text: str, source: DType, target: DType) -> str:
        if target == BOOL:
            return self.as_mask(f"({text} != 0)", source)
        final, lanes = self.support.vector(target, self.count), self.support.vector(I32, self.count)
        if source == BOOL:
            text, source = f"(-{operand(text)})", I32
        if source.is_integer and source.bits < 32 <= target.bits:
            text, source = self.support.spread(source, self.count, text), I32
        if target.is_integer and target.bits < 32 and source.bits >= 32:
            if source.is_float:
                text, source = f"__builtin_convertvector({text}, {lanes})", I32
            if source.bits == 32:
                return self.support.gather_low(target, self.count, text)
        if source == target:
            return text
        if source.is_float and target in (U32, U64):
            text = f"__builtin_convertvector({text}, {self.support.vector(I64, self.count)})"
        return f"__builtin_convertvector({text}, {final})"


def operand(text: str) -> str:
    """``text`` so that a prefix or infix operator may stand beside it."""
    return (
        text
        if re.fullmatch(
            r"\w+|[\w.]+|\w+\((?:[^()]|\([^()]*\))*\)|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", text
        )
        else f"({text})"
    )


def element_text(pointer: str) -> str:
    base, _, offset = pointer.partition(" + ")
    return f"{base}[{offset or '0'}]" if " - " not in base else f"({pointer})[0]"


def _through(source: DType, target: DType) -> str:
    """C leaves float to a narrow or unsigned integer undefined out of range; NumPy goes through a wider
    one."""
    if not source.is_float or not target.is_integer:
        return ""
    if target.bits < 32:
        return "(int32_t)"
    return "(int64_t)" if target in (U32, U64) else ""
