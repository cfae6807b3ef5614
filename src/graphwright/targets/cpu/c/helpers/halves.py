"""Functions of f32 vectors that are computed in two f64 vectors of half the lanes, and rounded once."""

from __future__ import annotations

from typing import Final

HALVES: Final = {
    "power_halves": ("power_positive", "ay"),
    "quotient_halves": ("quotient", "ay"),
    "tangent_halves": ("tangent", "a"),
}
"""By function: its implementation for doubles, and the names of its operands."""


def halves(name: str, function: str, operands: str, single: str, part: str, wide: str, lanes: int) -> str:
    """The C function ``name``, which applies ``function`` to both halves of ``operands`` of type ``single``.
    ``part`` is the type of half a vector, ``wide`` that of the same number of doubles.
    """
    half = lanes // 2
    low, high = (", ".join(map(str, range(start, start + half))) for start in (0, half))
    every = ", ".join(map(str, range(lanes)))
    parts = "\n".join(
        f"    const {part} {side} = __builtin_convertvector({function}("
        + ", ".join(
            f"__builtin_convertvector(__builtin_shufflevector({v}, {v}, {index}), {wide})" for v in operands
        )
        + f"), {part});"
        for side, index in (("low", low), ("high", high))
    )
    joined = f"    return __builtin_shufflevector(low, high, {every});"
    declared = ", ".join(f"{single} {v}" for v in operands)
    return f"GW_INLINE {single} {name}({declared}) {{\n{parts}\n{joined}\n}}"
