"""Parses kernels of the loop IR; see :mod:`graphwright.ir.loops.text` for the syntax."""

from __future__ import annotations

import re
from typing import Final

from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Buffer,
    Call,
    Kernel,
    Kind,
    Let,
    Level,
    Loop,
    Statement,
    Store,
    Tile,
)
from graphwright.ir.loops.parse_expressions import ExpressionParser
from graphwright.ir.symbols import Dim, SymbolError
from graphwright.ir.types import DTYPES, F32
from graphwright.records import replace

_KINDS: Final = frozenset(kind.value for kind in Kind)


def parse_kernel(text: str) -> Kernel:
    """Parses the result of :func:`print_kernel`. Raises :class:`ModelError` with the line and a caret."""
    parser = _Parser(text)
    try:
        return parser.kernel()
    except (TypeError, SymbolError, ValueError) as error:
        parser.fail(str(error))


def parse_kernels(text: str) -> list[Kernel]:
    """Parses the concatenated texts of several kernels."""
    return [parse_kernel(part) for part in re.split(r"(?m)^(?=kernel )", text) if part.strip()]


class _Parser(ExpressionParser):
    """A recursive descent parser with one method per construct of the language."""

    # declarations

    def kernel(self) -> Kernel:
        """``kernel NAME(PARAMETER, ...) sizes(NAME, ...) scalars(NAME, ...) BODY``, where ``scalars`` is
        optional.
        """
        self.expect("kernel")
        name = self.name()
        self.expect("(")
        parameters = self.listed(self.parameter, ")")
        self.expect("sizes", "(")
        sizes = self.listed(self.name, ")")
        scalars = self.listed(self.name, ")") if self.accept("scalars") and self.accept("(") else ()
        self.bindings.update(dict.fromkeys(scalars, F32))
        body = self.body()
        if self.peek():
            self.fail(f"{self.peek()!r} after the kernel's end")
        return Kernel(name, tuple(parameters), tuple(sizes), body, tuple(scalars))

    def parameter(self) -> Buffer:
        """``NAME: DTYPE[DIM, ...]``, with strides and a level where they are not the default."""
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

    # statements

    def body(self) -> tuple[Statement, ...]:
        """``{ STATEMENT ... }``; names that are declared in it end with it."""
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
        """A binding ``NAME = VALUE``, an allocation ``BUFFER = NUMBER``, an assignment, or a loop."""
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
        """``KIND AXIS < DIM step NUMBER BODY``"""
        kind, axis = Kind(self.name()), self.name()
        self.expect("<")
        extent = self.dim("{", "step")
        step = int(self.take().text) if self.accept("step") else 1
        return Loop(axis, kind, extent, self.body(), step)

    def assignment(self) -> Statement:
        """``ELEMENT = VALUE``, ``ELEMENT COMBINER= VALUE``, or a call of a microkernel."""
        start = self.at
        self.at += 2
        self.at = self.stop("]") + 1
        following = self.peek()
        self.at = start
        if following in ("+=", "."):
            return self.call()
        buffer, index, mask, _ = self.element()
        combiner = None if self.peek() == "=" else self.name()
        self.expect("=")
        value = self.typed(self.expression(), buffer.dtype)
        if combiner is None:
            return Store(buffer, index, value, mask)
        return Accumulate(buffer, index, combiner, value, mask)

    def call(self) -> Call:
        """``TILE += NAME(TILE, ...)``"""
        out = self.tile()
        self.expect("+=")
        microkernel = self.name()
        self.expect("(")
        operands = self.listed(self.tile, ")")
        return Call(microkernel, out, tuple(operands))

    def tile(self) -> Tile:
        """``NAME[OFFSET:SIZE, ...]``, followed by ``.T`` if it is transposed."""
        buffer = self.known_buffer()
        self.expect("[")
        ranges = self.listed(self.tile_range, "]")
        transposed = self.accept(".")
        if transposed:
            self.expect("T")
        offsets, sizes = (tuple(each[k] for each in ranges) for k in range(2))
        return Tile(buffer, offsets, sizes, transposed)

    def tile_range(self) -> tuple[Dim, Dim]:
        """The offset and the size of a tile along one axis."""
        offset = self.dim(":")
        self.expect(":")
        return offset, self.dim(",", "]")
