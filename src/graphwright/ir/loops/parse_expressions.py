"""Parses the expressions of kernels: values, accesses to buffers, indices."""

from __future__ import annotations

import math
import re
from typing import Final

from graphwright.ir.loops.functions import FUNCTIONS
from graphwright.ir.loops.nodes import Bits, Buffer, Cast, Const, Index, Load, Position, Ref, Scalar, apply
from graphwright.ir.loops.printer import BITS_PREFIX, INFIX, UNARY
from graphwright.ir.loops.tokens import KernelTokens
from graphwright.ir.symbols import parse_dim
from graphwright.ir.types import BOOL, DTYPES, DType

_FUNCTION_OF: Final = {sign: (name, level) for name, (sign, level) in INFIX.items()}
"""Function name and precedence of each infix operator."""
_Value = Scalar | float | int


class ExpressionParser(KernelTokens):
    """Parses expressions in the scope of the current statement."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.buffers: dict[str, Buffer] = {}
        self.bindings: dict[str, DType] = {}

    def known_buffer(self) -> Buffer:
        """The name of a declared buffer."""
        name = self.name()
        if name not in self.buffers:
            self.at -= 1
            self.fail(f"no buffer {name!r} here")
        return self.buffers[name]

    def element(self) -> tuple[Buffer, tuple[Index, ...], Scalar | None, float]:
        """``NAME[INDEX, ... where MASK else NUMBER]``: the buffer, the index, the mask, the number."""
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
        """A size expression of axes, or an integer value."""
        stop = self.stop(",", "]", "where")
        inside = [token.text for token in self.tokens[self.at : stop]]
        bound = any(a in self.bindings and b != "(" for a, b in zip(inside, [*inside[1:], ""], strict=True))
        if bound or {"@", "[", ":", "true", "false"} & set(inside):
            return self.typed(self.expression(), None)
        return self.dim(",", "]", "where")

    def typed(self, value: _Value, dtype: DType | None) -> Scalar:
        """``value`` with ``dtype`` if it is a literal without one."""
        if isinstance(value, Scalar):
            return value
        if dtype is None:
            self.fail(f"the literal {value} needs a dtype, as in {value}:f32")
        return Const(value, dtype)

    def number(self) -> float:
        """A literal without a dtype."""
        value = self.expression(UNARY)
        if isinstance(value, Const) and value.dtype == BOOL:
            return value.value
        if isinstance(value, Scalar):
            self.fail("expected a number")
        return value

    def expression(self, level: int = 0) -> _Value:
        """Values joined by infix operators of at least the precedence ``level``."""
        left = self.unary()
        while self.peek() in _FUNCTION_OF and _FUNCTION_OF[self.peek()][1] >= max(level, 1):
            function, own = _FUNCTION_OF[self.take().text]
            left = self.applied(function, left, self.expression(own + 1))
        return left

    def applied(self, function: str, *operands: _Value) -> Scalar:
        """A function of operands, of which at least one has a dtype."""
        if not any(isinstance(o, Scalar) for o in operands):
            self.fail("literals alone need a dtype, as in 1.0:f32 + 2.0")
        return apply(function, *operands)

    def unary(self) -> _Value:
        """An atom, or a minus sign before a value."""
        if self.accept("-"):
            if re.match(r"[\d.]|inf$|nan$", self.peek()):
                return self.literal(-1)
            return self.applied("neg", self.unary())
        return self.atom()

    def literal(self, sign: int) -> _Value:
        """``NUMBER`` or ``NUMBER:DTYPE``, times ``sign``."""
        text = self.take().text
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
        """A literal, a value in parentheses, ``@INDEX``, a function, an element of a buffer, or a binding."""
        head, following = self.peek(), self.peek(1)
        if re.match(r"[\d.]", head) or head in ("inf", "nan"):
            return self.literal(1)
        if head in ("true", "false"):
            return Const(self.take().text == "true", BOOL)
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
            return Ref(self.take().text, self.bindings[head])
        self.fail(f"{head or 'the end'!r} is not a value here (an index expression needs @)")

    def position(self) -> Position:
        """``NAME`` or ``(DIM)`` after ``@``: an index expression as a value."""
        if not self.accept("("):
            return Position(parse_dim(self.take().text))
        index = self.dim(")")
        self.expect(")")
        return Position(index)

    def function(self) -> Scalar:
        """``NAME(VALUE, ...)``; the name of a dtype is a cast."""
        name = self.name()
        self.expect("(")
        operands = self.listed(self.expression, ")")
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
