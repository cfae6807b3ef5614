"""Vectorised functions of the C emitter, with the error that each keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from graphwright.ir.types import F32
from graphwright.targets.cpu.c.support import Support
from graphwright.targets.cpu.isa import Isa

MAX_ULP: Final[dict[str, float]] = {
    "exp": 1.0,
    "exp_nonpositive": 1.0,
    "expm1": 1.75,
    "log": 1.0,
    "log1p": 1.5,
    "tanh": 1.75,
    "sigmoid": 1.5,
    "erf": 2.0,
    "sin": 1.75,
    "cos": 1.75,
    "tan": 0.51,
    "asin": 2.5,
    "acos": 2.0,
    "atan": 2.0,
    "sinh": 3.0,
    "cosh": 3.0,
    "asinh": 3.0,
    "acosh": 3.0,
    "atanh": 3.0,
    "pow": 0.51,
}
"""Largest error in units in the last place of the exact result, over all finite f32."""

MAX_ULP_F64: Final[dict[str, float]] = {"exp": 1.0, "log": 1.0, "sigmoid": 2.5}
"""The same of f64."""


def vmath(isa: Isa, functions: Iterable[str], lanes: int | None = None) -> str:
    """C text that defines ``NAME_f32xL`` for each function of :data:`MAX_ULP` named, L lanes (of ``isa`` by
    default)."""
    support = Support(isa)
    for function in functions:
        support.function(function, F32, lanes or isa.lanes)
    return support.text(for_library=True)
