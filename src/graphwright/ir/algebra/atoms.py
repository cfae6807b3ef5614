"""The atoms of expressions: symbols, and functions that a polynomial cannot express."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from graphwright.ir.algebra.expressions import Dim


class Symbol(NamedTuple):
    """A named size, an integer >= 0; the :class:`SymbolTable` of the module holds its range and divisibility.
    A tuple, as symbols are hashed most often.
    """

    name: str

    def __str__(self) -> str:
        return self.name


class Function:
    """``floordiv``, ``mod``, ``min`` or ``max`` of canonical operands. Hash and text are cached."""

    __slots__ = ("_hash", "_text", "name", "operands")

    def __init__(self, name: str, operands: tuple[Dim, ...]) -> None:
        self.name, self.operands = name, operands
        self._hash = hash((name, operands))
        self._text = ""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if other.__class__ is not self.__class__ or self._hash != other._hash:
            return False  # no global names: they are gone at interpreter exit
        return self.name == other.name and self.operands == other.operands

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Function], tuple[str, tuple[Dim, ...]]]:
        return Function, (self.name, self.operands)  # hashes of strings differ between processes

    def __str__(self) -> str:
        self._text = self._text or f"{self.name}({', '.join(map(str, self.operands))})"
        return self._text

    __repr__ = __str__


Atom = Symbol | Function
Monomial = tuple[tuple[Atom, int], ...]
"""Powers of atoms, sorted by text; the empty product is 1."""
