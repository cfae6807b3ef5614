"""The operands and arguments of a kernel, defined once: Python builds launches from the definition, and
:meth:`Abi.c_text` generates the C code that reads them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cached_property
from typing import TypeVar

from graphwright.ir.symbols import Dim
from graphwright.records import dataclass, field

T = TypeVar("T")
_FIELD = re.compile(r"(?:(\w+) )?(\w+)((?:\[\d+\])*)")


@dataclass(frozen=True)
class Abi:
    """The operands (``buf``) and the arguments (``arg``) of a kernel by name, in the order of the call.
    ``fields`` names the arguments; for a kernel with :class:`Arguments`, they are its ``names()``.
    ``"n[8]"`` stands for ``n0`` to ``n7``, and ``"double clip"`` for the bits of a double. ``"stages first"``
    stands for the fields that ``records`` has under ``stages``, with the prefix ``first_`` (in arrays, a
    suffix follows: ``count0``, ...). If a kernel takes an epilogue, the hook follows the operands, and the
    hook's own operands and arguments follow those of the kernel.
    """

    name: str
    operands: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    records: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def args(self) -> tuple[str, ...]:
        """The names of all arguments."""
        return tuple(name for field in self.fields for name in self._names(field))

    def ordered(self, **operands: T) -> tuple[T, ...]:
        """The values of ``operands`` in the order of the call. Raises ValueError if one is missing or
        unknown.
        """
        if operands.keys() != set(self.operands):
            wrong = sorted(operands.keys() ^ set(self.operands))
            raise ValueError(f"{self.name} takes {', '.join(self.operands)}: wrong or missing {wrong}")
        return tuple(operands[name] for name in self.operands)

    def positions(self, *operands: str) -> tuple[int, ...]:
        """The positions of these operands in the call."""
        return tuple(self.operands.index(name) for name in operands)

    def values(self, **fields: Dim | tuple[Dim, ...]) -> tuple[Dim, ...]:
        """All arguments in the order of the call; arrays and records are given as tuples. Raises ValueError
        if one is missing or unknown.
        """
        lengths = self._lengths
        given = {name: value if isinstance(value, tuple) else (value,) for name, value in fields.items()}
        if lengths != {name: len(value) for name, value in given.items()}:
            wrong = [name for name in lengths | given if lengths.get(name) != len(given.get(name, ()))]
            raise ValueError(f"{self.name} takes {', '.join(self.fields)}: wrong or missing {sorted(wrong)}")
        return tuple(value for name in lengths for value in given[name])

    def c_text(self) -> str:
        """C declarations, for example for ``gemm``: ``GEMM_A`` and so on, the positions of operands in
        ``buf``, and their number ``GEMM_OPERANDS``; ``struct gemm_args`` with the function ``gemm_args(arg)``
        that reads it, and the number of arguments ``GEMM_ARGS``.
        """
        name, upper = self.name, self.name.upper()
        text = "".join(f"typedef {_struct(fields)} {record};\n" for record, fields in self.records.items())
        if self.operands:
            positions = (f"{upper}_{operand.upper()}" for operand in self.operands)
            text += f"enum {{ {', '.join(positions)}, {upper}_OPERANDS }};\n"
        if self.fields:
            struct = f"struct {name}_args"
            text += f"{_struct(self.fields, f'{name}_args')};\nenum {{ {upper}_ARGS = {len(self.args)} }};\n"
            text += f"GW_INLINE const {struct} *{name}_args(const int64_t *arg) {{\n"
            text += f"    return (const {struct} *)arg;\n}}\n"
        return text

    @cached_property
    def _lengths(self) -> dict[str, int]:
        """The number of arguments of each field."""
        return {_parts(field)[1]: len(self._names(field)) for field in self.fields}

    def _names(self, field: str) -> list[str]:
        type, name, count = _parts(field)
        words = [word for inner in self.records.get(type, ()) for word in self._names(inner)]
        if count is None:
            return [f"{name}_{word}" for word in words] or [name]
        return [f"{word}{k}" for k in range(count) for word in words or [name]]


def _parts(field: str) -> tuple[str, str, int | None]:
    """The type, the name, and for arrays the length of a field."""
    found = _FIELD.fullmatch(field)
    if found is None:
        raise ValueError(f"{field!r} is not a field")
    sizes = [int(size) for size in re.findall(r"\d+", found[3])]
    return found[1] or "int64_t", found[2], math.prod(sizes) if sizes else None


def _struct(fields: tuple[str, ...], name: str = "") -> str:
    lines = (f"    {field if ' ' in field else f'int64_t {field}'};" for field in fields)
    return "\n".join([f"struct {name} {{".replace("  ", " "), *lines, "}"])
