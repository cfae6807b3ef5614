"""Index arithmetic: sizes as C expressions, and the strides of addresses along a vector axis."""

from __future__ import annotations

from collections.abc import Mapping

from graphwright.ir.loops.nodes import Buffer
from graphwright.ir.symbols import Dim, Function, Symbol, names_in, substitute, symbol
from graphwright.records import dataclass


def dim_text(dim: Dim, names: Mapping[str, str]) -> str:
    """``dim`` as a C expression of type int64_t; ``names`` gives the C text of each symbol."""
    if isinstance(dim, int):
        return str(dim)
    text = ""
    for monomial, coefficient in dim.terms:
        factors = [_atom_text(atom, names) for atom, power in monomial for _ in range(power)]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        sign = " - " if coefficient < 0 else " + "
        text += (sign if text else sign.strip().replace("+", "")) + " * ".join(factors)
    return text


def factor_text(dim: Dim, names: Mapping[str, str]) -> str:
    """``dim`` as an operand of a C operator."""
    text = dim_text(dim, names)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _atom_text(atom: Symbol | Function, names: Mapping[str, str]) -> str:
    if isinstance(atom, Symbol):
        return names[atom.name]
    first, *rest = (dim_text(operand, names) for operand in atom.operands)
    for operand in rest:
        first = f"dim_{atom.name}({first}, {operand})"
    return first


DIM_HELPERS = {
    "floordiv": "GW_INLINE int64_t dim_floordiv(int64_t a, int64_t b) {\n"
    "    return a / b - (a % b != 0 && (a ^ b) < 0);\n}",
    "mod": "GW_INLINE int64_t dim_mod(int64_t a, int64_t b) {\n"
    "    return a % b + (a % b != 0 && (a ^ b) < 0 ? b : 0);\n}",
    "min": "GW_INLINE int64_t dim_min(int64_t a, int64_t b) { return a < b ? a : b; }",
    "max": "GW_INLINE int64_t dim_max(int64_t a, int64_t b) { return a > b ? a : b; }",
}
"""C of the functions that :func:`dim_text` calls, each under the name ``dim_NAME``."""


def strides_of(buffer: Buffer) -> tuple[Dim, ...]:
    """The strides of ``buffer``, in elements."""
    if buffer.strides is not None:
        return buffer.strides
    strides: list[Dim] = []
    step: Dim = 1
    for size in reversed(buffer.shape):
        strides.insert(0, step)
        step = step * size
    return tuple(strides)


@dataclass(frozen=True)
class Affine:
    """``base + axis * step``, where ``step`` does not depend on the axis."""

    base: Dim
    step: Dim


def affine_in(dim: Dim, axis: str) -> Affine | None:
    """``dim`` as an affine function of ``axis``; None if it is not affine."""
    if not depends(dim, axis):
        return Affine(dim, 0)
    step = substitute(dim, {axis: symbol(axis) + 1}) - dim
    if depends(step, axis):
        return None
    return Affine(substitute(dim, {axis: 0}), step)


def depends(dim: Dim, axis: str) -> bool:
    """Whether the symbol ``axis`` occurs in ``dim``."""
    return axis in names_in(dim)
