"""Polynomials as C expressions."""

from __future__ import annotations


def horner(variable: str, *coefficients: str) -> str:
    """A polynomial by Horner's method; coefficients are ordered from the lowest power up."""
    text = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        text = (
            f"{coefficient} + {variable} * ({text})"
            if text != coefficients[-1]
            else f"{coefficient} + {variable} * {text}"
        )
    return text
