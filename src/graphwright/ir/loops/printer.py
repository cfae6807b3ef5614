"""Prints kernels of the loop IR; see :mod:`graphwright.ir.loops.text` for the syntax."""

from __future__ import annotations

import re
from typing import Final

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
)
from graphwright.ir.types import BOOL, DType

INFIX: Final[dict[str, tuple[str, int]]] = {
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
"""The operator and the precedence of each function that is written in infix notation."""
COMPARISON: Final = 3
UNARY: Final = 6
BITS_PREFIX: Final = "bits_"
"""The prefix of a dtype in ``bits_f32(x)``, which reinterprets bits; ``f32(x)`` converts."""
RESERVED: Final = frozenset({"inf", "nan", "true", "false", "where", "else", "step"})
"""Words that cannot be names of buffers, variables, axes or sizes."""


def print_kernel(kernel: Kernel) -> str:
    """The text of ``kernel``."""
    parameters = ", ".join(_parameter(buffer) for buffer in kernel.parameters)
    scalars = f" scalars({', '.join(kernel.scalars)})" if kernel.scalars else ""
    head = f"kernel {kernel.name}({parameters}) sizes({', '.join(kernel.sizes)}){scalars} {{"
    return "\n".join([head, *(line for s in kernel.body for line in _lines(s, "  ")), "}"]) + "\n"


def print_statement(statement: Statement) -> str:
    """One statement, over several lines if it is a loop."""
    return "\n".join(_lines(statement, ""))


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
            return f"{BITS_PREFIX}{dtype}({_scalar(operand)})"
        case Apply():
            return _application(value, level)
        case _:
            raise TypeError(f"{value!r} is not a scalar")


def _application(value: Apply, level: int) -> str:
    agreeing = value.operands[1:] if value.function == "select" else value.operands
    known = next((o.dtype for o in agreeing if not isinstance(o, Const)), None)
    expected = [known] * len(value.operands)
    if known is None:  # only literals: the first one is printed with its dtype
        first = len(value.operands) - len(agreeing)
        expected = [agreeing[0].dtype] * len(value.operands)
        expected[first] = None
    if value.function not in INFIX:
        if value.function == "neg" and not isinstance(value.operands[0], Const):
            return f"-{_scalar(value.operands[0], UNARY)}"
        operands = [_scalar(o, 0, e) for o, e in zip(value.operands, expected, strict=True)]
        return f"{value.function}({', '.join(operands)})"
    sign, own = INFIX[value.function]
    left, right = value.operands
    left_level = own + 1 if own == COMPARISON else own
    text = f"{_scalar(left, left_level, expected[0])} {sign} {_scalar(right, own + 1, expected[1])}"
    return f"({text})" if own < level else text
