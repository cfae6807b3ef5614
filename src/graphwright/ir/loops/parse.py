"""Parses kernels of the loop IR; see :mod:`graphwright.ir.loops.text` for the syntax."""

from __future__ import annotations

import math
import re
from typing import Final, NoReturn

from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.loops.functions import FUNCTIONS
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Bits,
    Buffer,
    Call,
    Cast,
    Const,
    Index,
    Kernel,
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
    apply,
)
from graphwright.ir.loops.printer import BITS_PREFIX, INFIX, UNARY
from graphwright.ir.symbols import Dim, SymbolError, parse_dim
from graphwright.ir.types import BOOL, DTYPES, DType
from graphwright.records import dataclass, replace

_FUNCTION_OF: Final = {sign: (name, level) for name, (sign, level) in INFIX.items()}
"""Function name and precedence of each infix operator."""


def parse_kernel(text: str) -> Kernel:
    """Parse the result of :func:`print_kernel`. Raises :class:`ModelError` with line and column."""
    parser = _Parser(text)
    try:
        return parser.kernel()
    except (TypeError, SymbolError, ValueError) as error:
        parser.fail(str(error))


def parse_kernels(text: str) -> list[Kernel]:
    """Parse the concatenated texts of several kernels."""
    return [parse_kernel(part) for part in re.split(r"(?m)^(?=kernel )", text) if part.strip()]


@dataclass(frozen=True)
class _Token:
    text: str
    start: int


_TOKEN: Final = re.compile(
    r"\s*(?:#[^\n]*\s*)*((?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|==|!=|<=|>=|\+=|//|\S)"
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_KINDS: Final = frozenset(kind.value for kind in Kind)
_Value = Scalar | float | int


class _Parser:
    """A recursive descent parser with one method per construct of the language."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [_Token(m[1], m.start(1)) for m in _TOKEN.finditer(text)]
        self.at = 0
        self.buffers: dict[str, Buffer] = {}
        self.bindings: dict[str, DType] = {}

    # tokens

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at].text if at < len(self.tokens) else ""

    def take(self) -> str:
        text = self.peek()
        self.at += 1
        return text

    def accept(self, text: str) -> bool:
        if self.peek() != text:
            return False
        self.at += 1
        return True

    def expect(self, *texts: str) -> None:
        for text in texts:
            if not self.accept(text):
                self.fail(f"expected {text!r}, found {self.peek() or 'the end'!r}")

    def name(self) -> str:
        if not _NAME.fullmatch(self.peek()):
            self.fail(f"expected a name, found {self.peek() or 'the end'!r}")
        return self.take()

    def fail(self, message: str) -> NoReturn:
        start = self.tokens[self.at].start if self.at < len(self.tokens) else len(self.text)
        line = self.text.count("\n", 0, start) + 1
        column = start - (self.text.rfind("\n", 0, start) + 1)
        source = self.text.splitlines()[line - 1] if line <= len(self.text.splitlines()) else ""
        where = f"line {line}, column {column + 1}"
        raise ModelError(Diagnostic("loop-syntax", message, where, f"{source}\n    {' ' * column}^"))

    # declarations

    def kernel(self) -> Kernel:
        self.expect("kernel")
        name = self.name()
        self.expect("(")
        parameters = []
        while not self.accept(")"):
            parameters.append(self.parameter())
            self.separator(")")
        self.expect("sizes", "(")
        sizes = []
        while not self.accept(")"):
            sizes.append(self.name())
            self.separator(")")
        body = self.body()
        if self.peek():
            self.fail(f"{self.peek()!r} after the kernel's end")
        return Kernel(name, tuple(parameters), tuple(sizes), body)

    def separator(self, end: str) -> None:
        if self.peek() != end:
            self.expect(",")

    def parameter(self) -> Buffer:
        buffer = self.buffer(Level.GLOBAL)
        if self.peek() in (",", ")"):
            return buffer
        buffer = replace(buffer, level=Level(self.name()))
        self.buffers[buffer.name] = buffer
        return buffer

    def buffer(self, level: Level | None) -> Buffer:
        """A declaration of a buffer. If ``level`` is None, the text must name the level."""
        name = self.name()
        self.expect(":")
        dtype = self.name()
        if dtype not in DTYPES:
            self.fail(f"{dtype!r} is not a dtype")
        self.expect("[")
        shape = self.dims("]")
        strides = None
        if self.accept("strides"):
            self.expect("(")
            strides = self.dims(")")
        buffer = Buffer(name, DTYPES[dtype], shape, Level(self.name()) if level is None else level, strides)
        self.buffers[name] = buffer
        return buffer

    def dims(self, end: str) -> tuple[Dim, ...]:
        found = []
        while not self.accept(end):
            found.append(self.dim(",", end))
            self.separator(end)
        return tuple(found)

    def dim(self, *ends: str) -> Dim:
        stop = self.stop(*ends)
        text = " ".join(token.text for token in self.tokens[self.at : stop])
        dim = parse_dim(text.replace("/ /", "//"))
        self.at = stop
        return dim

    def stop(self, *ends: str) -> int:
        """The index of the first token in ``ends`` that is outside brackets."""
        depth = 0
        for at in range(self.at, len(self.tokens)):
            text = self.tokens[at].text
            if depth == 0 and text in ends:
                return at
            depth += (text in ("(", "[")) - (text in (")", "]"))
        self.fail(f"expected one of {' '.join(ends)}")

    # statements

    def body(self) -> tuple[Statement, ...]:
        self.expect("{")
        outer = dict(self.buffers), dict(self.bindings)
        statements: list[Statement] = []
        while not self.accept("}"):
            if not self.peek():
                self.fail("expected '}'")
            statements.append(self.statement())
        self.buffers, self.bindings = outer
        return tuple(statements)

    def statement(self) -> Statement:
        following = self.peek(1)
        if following == "=":
            name = self.name()
            self.expect("=")
            value = self.typed(self.expression(), None)
            self.bindings[name] = value.dtype
            return Let(name, value)
        if following == ":":
            buffer = self.buffer(None)
            return Alloc(buffer, self.number() if self.accept("=") else None)
        if following == "[":
            return self.assignment()
        if self.peek() in _KINDS:
            return self.loop()
        self.fail(f"{self.peek()!r} does not begin a statement")

    def loop(self) -> Loop:
        kind, axis = Kind(self.name()), self.name()
        self.expect("<")
        extent = self.dim("{", "step")
        step = int(self.take()) if self.accept("step") else 1
        return Loop(axis, kind, extent, self.body(), step)

    def assignment(self) -> Statement:
        start = self.at
        self.at += 2
        close = self.stop("]")
        self.at = close + 1
        if self.peek() in ("+=", "."):
            self.at = start
            return self.call()
        self.at = start
        buffer, index, mask, _ = self.element()
        combiner = None if self.peek() == "=" else self.name()
        self.expect("=")
        value = self.typed(self.expression(), buffer.dtype)
        if combiner is None:
            return Store(buffer, index, value, mask)
        return Accumulate(buffer, index, combiner, value, mask)

    def call(self) -> Call:
        out = self.tile()
        self.expect("+=")
        microkernel = self.name()
        self.expect("(")
        operands = []
        while not self.accept(")"):
            operands.append(self.tile())
            self.separator(")")
        return Call(microkernel, out, tuple(operands))

    def tile(self) -> Tile:
        buffer = self.known_buffer()
        self.expect("[")
        offsets, sizes = [], []
        while not self.accept("]"):
            offsets.append(self.dim(":"))
            self.expect(":")
            sizes.append(self.dim(",", "]"))
            self.separator("]")
        transposed = self.accept(".")
        if transposed:
            self.expect("T")
        return Tile(buffer, tuple(offsets), tuple(sizes), transposed)

    def known_buffer(self) -> Buffer:
        name = self.name()
        if name not in self.buffers:
            self.at -= 1
            self.fail(f"no buffer {name!r} here")
        return self.buffers[name]

    def element(self) -> tuple[Buffer, tuple[Index, ...], Scalar | None, float]:
        buffer = self.known_buffer()
        self.expect("[")
        index: list[Index] = []
        while self.peek() not in ("]", "where"):
            index.append(self.index())
            if self.peek() not in ("]", "where"):
                self.expect(",")
        mask, other = None, 0.0
        if self.accept("where"):
            mask = self.typed(self.expression(), BOOL)
            other = self.number() if self.accept("else") else 0.0
        self.expect("]")
        return buffer, tuple(index), mask, other

    def index(self) -> Index:
        stop = self.stop(",", "]", "where")
        inside = [token.text for token in self.tokens[self.at : stop]]
        bound = any(a in self.bindings and b != "(" for a, b in zip(inside, [*inside[1:], ""], strict=True))
        if bound or {"@", "[", ":", "true", "false"} & set(inside):
            return self.typed(self.expression(), None)
        return self.dim(",", "]", "where")

    # values

    def typed(self, value: _Value, dtype: DType | None) -> Scalar:
        if isinstance(value, Scalar):
            return value
        if dtype is None:
            self.fail(f"the literal {value} needs a dtype, as in {value}:f32")
        return Const(value, dtype)

    def number(self) -> float:
        value = self.expression(UNARY)
        if isinstance(value, Const) and value.dtype == BOOL:
            return value.value
        if isinstance(value, Scalar):
            self.fail("expected a number")
        return value

    def expression(self, level: int = 0) -> _Value:
        left = self.unary()
        while self.peek() in _FUNCTION_OF and _FUNCTION_OF[self.peek()][1] >= max(level, 1):
            function, own = _FUNCTION_OF[self.take()]
            left = self.applied(function, left, self.expression(own + 1))
        return left

    def applied(self, function: str, *operands: _Value) -> Scalar:
        if not any(isinstance(o, Scalar) for o in operands):
            self.fail("literals alone need a dtype, as in 1.0:f32 + 2.0")
        return apply(function, *operands)

    def unary(self) -> _Value:
        if self.accept("-"):
            if re.match(r"[\d.]|inf$|nan$", self.peek()):
                return self.literal(-1)
            return self.applied("neg", self.unary())
        return self.atom()

    def literal(self, sign: int) -> _Value:
        text = self.take()
        special = {"inf": math.inf, "nan": math.nan}.get(text)
        value = special if special is not None else float(text) if re.search("[.eE]", text) else int(text)
        if sign < 0:
            value = -value
        if not self.accept(":"):
            return value
        dtype = self.name()
        if dtype not in DTYPES:
            self.fail(f"{dtype!r} is not a dtype")
        return Const(value, DTYPES[dtype])

    def atom(self) -> _Value:
        head, following = self.peek(), self.peek(1)
        if re.match(r"[\d.]", head) or head in ("inf", "nan"):
            return self.literal(1)
        if head in ("true", "false"):
            return Const(self.take() == "true", BOOL)
        if self.accept("("):
            value = self.expression()
            self.expect(")")
            return value
        if self.accept("@"):
            return self.position()
        if following == "(":
            return self.function()
        if following == "[":
            return Load(*self.element())
        if head in self.bindings:
            return Ref(self.take(), self.bindings[head])
        self.fail(f"{head or 'the end'!r} is not a value here (an index expression needs @)")

    def position(self) -> Position:
        if not self.accept("("):
            return Position(parse_dim(self.take()))
        index = self.dim(")")
        self.expect(")")
        return Position(index)

    def function(self) -> Scalar:
        name = self.name()
        self.expect("(")
        operands = []
        while not self.accept(")"):
            operands.append(self.expression())
            self.separator(")")
        if name in DTYPES:
            if len(operands) != 1:
                self.fail(f"the cast {name}(...) takes one value")
            return Cast(self.typed(operands[0], None), DTYPES[name])
        if name.removeprefix(BITS_PREFIX) in DTYPES:
            if len(operands) != 1:
                self.fail(f"{name}(...) takes one value")
            return Bits(self.typed(operands[0], None), DTYPES[name.removeprefix(BITS_PREFIX)])
        if name not in FUNCTIONS:
            self.fail(f"no function {name!r}")
        return self.applied(name, *operands)
