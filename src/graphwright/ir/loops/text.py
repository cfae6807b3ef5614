"""The loop IR as text: :func:`print_kernel` and its exact inverse, :func:`parse_kernel`.

A kernel reads like a small program::

    kernel scale(x: f32[N], y: f32[N]) sizes(N) {
      vector i < N { y[i] = x[i] * 2.0 }
    }

Line breaks mean nothing. ``@i`` is an index expression used as a value, ``1.0:f32`` a literal whose dtype its
neighbours do not give, ``x[i where @i < @N else 1.0]`` a masked load, ``a[r:12, 0:K]`` a tile of 12 rows.
"""

from __future__ import annotations

import math
import re
from typing import Final, NoReturn

from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.loops.functions import FUNCTIONS
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Apply,
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
from graphwright.ir.symbols import Dim, SymbolError, parse_dim
from graphwright.ir.types import BOOL, DTYPES, DType
from graphwright.records import dataclass, replace

_INFIX: Final[dict[str, tuple[str, int]]] = {
    "or": ("|", 1),
    "and": ("&", 2),
    "lt": ("<", 3),
    "le": ("<=", 3),
    "eq": ("==", 3),
    "ne": ("!=", 3),
    "add": ("+", 4),
    "sub": ("-", 4),
    "mul": ("*", 5),
    "div": ("/", 5),
}
"""Function to its sign and how tightly that binds."""
_FUNCTION_OF: Final = {sign: (name, level) for name, (sign, level) in _INFIX.items()}
_COMPARISON: Final = 3
_UNARY: Final = 6
_BITS: Final = "bits_"
"""Before a dtype: the same bits, where the dtype alone converts."""
RESERVED: Final = frozenset({"inf", "nan", "true", "false", "where", "else", "step"})
"""Names that a buffer, binding, axis or size may not have."""


def print_kernel(kernel: Kernel) -> str:
    """``kernel`` as text that :func:`parse_kernel` reads back."""
    parameters = ", ".join(_parameter(buffer) for buffer in kernel.parameters)
    head = f"kernel {kernel.name}({parameters}) sizes({', '.join(kernel.sizes)}) {{"
    return "\n".join([head, *(line for s in kernel.body for line in _lines(s, "  ")), "}"]) + "\n"


def print_statement(statement: Statement, indent: str = "") -> str:
    """One statement, over several lines if it is a loop."""
    return "\n".join(_lines(statement, indent))


def _lines(statement: Statement, indent: str) -> list[str]:
    if not isinstance(statement, Loop):
        return [indent + _simple(statement)]
    step = f" step {statement.step}" if statement.step != 1 else ""
    head = f"{indent}{statement.kind} {statement.axis} < {statement.extent}{step} {{"
    if len(statement.body) == 1 and not isinstance(statement.body[0], Loop):
        return [f"{head} {_simple(statement.body[0])} }}"]
    inner = [line for s in statement.body for line in _lines(s, indent + "  ")]
    return [head, *inner, indent + "}"]


def _simple(statement: Statement) -> str:
    match statement:
        case Let(name, value):
            return f"{name} = {_scalar(value)}"
        case Alloc(buffer, fill):
            return _buffer(buffer) + (
                f" {buffer.level}" if fill is None else f" {buffer.level} = {_number(fill)}"
            )
        case Store(buffer, index, value, mask):
            return f"{_element(buffer, index, mask)} = {_scalar(value, expected=buffer.dtype)}"
        case Accumulate(buffer, index, combiner, value, mask):
            return f"{_element(buffer, index, mask)} {combiner}= {_scalar(value, expected=buffer.dtype)}"
        case Call(microkernel, out, operands):
            return f"{_tile(out)} += {microkernel}({', '.join(map(_tile, operands))})"
        case _:
            raise TypeError(f"{type(statement).__name__} is not a simple statement")


def _buffer(buffer: Buffer) -> str:
    strides = "" if buffer.strides is None else f" strides({', '.join(map(str, buffer.strides))})"
    return f"{buffer.name}: {buffer.dtype}[{', '.join(map(str, buffer.shape))}]{strides}"


def _parameter(buffer: Buffer) -> str:
    return _buffer(buffer) + ("" if buffer.level is Level.GLOBAL else f" {buffer.level}")


def _tile(tile: Tile) -> str:
    ranges = ", ".join(f"{offset}:{size}" for offset, size in zip(tile.offsets, tile.sizes, strict=True))
    return f"{tile.buffer.name}[{ranges}]{'.T' if tile.transposed else ''}"


def _element(buffer: Buffer, index: tuple[Index, ...], mask: Scalar | None, other: float = 0.0) -> str:
    inside = ", ".join(_scalar(i) if isinstance(i, Scalar) else str(i) for i in index)
    if mask is not None:
        inside = f"{inside} where {_scalar(mask)}".lstrip()
        if repr(other) not in ("0", "0.0"):
            inside += f" else {_number(other)}"
    return f"{buffer.name}[{inside}]"


def _number(value: float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else repr(float(value))


def _scalar(value: Scalar, level: int = 0, expected: DType | None = None) -> str:
    match value:
        case Const(number, dtype):
            if dtype == BOOL:
                return "true" if number else "false"
            text = _number(int(number) if isinstance(number, bool) else number)
            return text if dtype == expected else f"{text}:{dtype}"
        case Ref(name):
            return name
        case Position(index):
            atomic = isinstance(index, int) or re.fullmatch(r"\w+", str(index))
            return f"@{index}" if atomic and str(index)[0] != "-" else f"@({index})"
        case Load(buffer, index, mask, other):
            return _element(buffer, index, mask, other)
        case Cast(operand, dtype):
            return f"{dtype}({_scalar(operand)})"
        case Bits(operand, dtype):
            return f"{_BITS}{dtype}({_scalar(operand)})"
        case Apply():
            return _application(value, level)
        case _:
            raise TypeError(f"{value!r} is not a scalar")


def _application(value: Apply, level: int) -> str:
    agreeing = value.operands[1:] if value.function == "select" else value.operands
    known = next((o.dtype for o in agreeing if not isinstance(o, Const)), None)
    expected = [known] * len(value.operands)
    if known is None:  # the first literal carries the dtype, the others follow it
        first = len(value.operands) - len(agreeing)
        expected = [agreeing[0].dtype] * len(value.operands)
        expected[first] = None
    if value.function not in _INFIX:
        if value.function == "neg" and not isinstance(value.operands[0], Const):
            return f"-{_scalar(value.operands[0], _UNARY)}"
        operands = [_scalar(o, 0, e) for o, e in zip(value.operands, expected, strict=True)]
        return f"{value.function}({', '.join(operands)})"
    sign, own = _INFIX[value.function]
    left, right = value.operands
    left_level = own + 1 if own == _COMPARISON else own
    text = f"{_scalar(left, left_level, expected[0])} {sign} {_scalar(right, own + 1, expected[1])}"
    return f"({text})" if own < level else text


def parse_kernel(text: str) -> Kernel:
    """Read what :func:`print_kernel` wrote; raises :class:`ModelError` with line and column where it
    cannot."""
    parser = _Parser(text)
    try:
        return parser.kernel()
    except (TypeError, SymbolError, ValueError) as error:
        parser.fail(str(error))


def parse_kernels(text: str) -> list[Kernel]:
    """All kernels of a text in which what :func:`print_kernel` wrote stands one behind the other."""
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
    """Recursive descent over a list of tokens; one method per construct of the language."""

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
        """A declaration; without ``level`` the text gives it."""
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
        """Where the first of ``ends`` outside brackets stands."""
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
        value = self.expression(_UNARY)
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
        if name.removeprefix(_BITS) in DTYPES:
            if len(operands) != 1:
                self.fail(f"{name}(...) takes one value")
            return Bits(self.typed(operands[0], None), DTYPES[name.removeprefix(_BITS)])
        if name not in FUNCTIONS:
            self.fail(f"no function {name!r}")
        return self.applied(name, *operands)
