"""The scope of emitted C: identifiers, values, buffers, and the enclosing vector loop."""

from __future__ import annotations

import re
from typing import Final

from graphwright.ir.types import DType
from graphwright.records import dataclass, field

_RESERVED: Final = frozenset(
    [
        "auto",
        "break",
        "case",
        "char",
        "const",
        "continue",
        "default",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "float",
        "for",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "union",
        "unsigned",
        "void",
        "volatile",
        "while",
        "main",
        "asm",
        "typeof",
        "buf",
        "arg",
        "begin",
        "end",
        "scratch",
        "unit",
        "hook",
        "NULL",
        "exp",
        "expm1",
        "log",
        "log1p",
        "log2",
        "log10",
        "tanh",
        "erf",
        "erfc",
        "lgamma",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "pow",
        "fmod",
        "atan2",
        "floor",
        "ceil",
        "rint",
        "trunc",
        "sqrt",
        "GW_EXPORT",
        "GW_INLINE",
        "linux",
        "unix",
        "i386",
    ]
)


_HELPER_LIKE: Final = re.compile(
    r"_|\d+x\d+|dim_|.*_(bool|b?f\d+|[iu]\d+)(x\d+)?(_any)?$|.*_t$|[fiu]\d+x\d+.*"
)


def c_name(name: str) -> str:
    """``name`` of the IR as a C identifier that differs from all keywords and helpers."""
    return f"{name}_" if name in _RESERVED or _HELPER_LIKE.match(name) or name.endswith("_") else name


@dataclass(frozen=True)
class Value:
    """The C expression of a value; ``vector`` if it has one element per lane."""

    text: str
    dtype: DType
    vector: bool = False
    stored: tuple[DType, str] | None = None
    """The dtype that it was widened from, and the variable with the element as stored in memory."""


@dataclass(frozen=True)
class Lanes:
    """The enclosing vector loop; ``tail`` is the mask of active lanes in the last, partial step, None in full
    steps.
    """

    axis: str
    count: int
    tail: str | None = None


@dataclass(frozen=True)
class Variable:
    """A buffer in C: a pointer, a local array, or (``value``) a variable that holds a value."""

    name: str
    value: bool = False
    private: bool = False
    """Whether each lane of the enclosing vector loop has its own."""


@dataclass(frozen=True)
class Access:
    """The access of each lane i: ``pointer[0]`` (uniform), ``pointer[i * step]``, or
    ``pointer[table[i]]``.
    """

    pointer: str
    step: str = "0"
    table: str = ""
    uniform: bool = False


@dataclass
class Scope:
    """The names in scope; a body starts with a copy."""

    names: dict[str, str] = field(default_factory=dict)
    """The C expressions of axes and sizes."""
    variables: dict[str, Variable] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    partials: dict[int, str] = field(default_factory=dict)
    """By the id of an Accumulate in a vector loop: the variable of its partial sums."""
