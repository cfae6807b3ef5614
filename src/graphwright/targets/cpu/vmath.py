"""The vectorized math functions of the C emitter, with their error bounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from graphwright.ir.types import F32
from graphwright.targets.cpu.c.prelude import Prelude
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
"""The largest error over all finite f32, in units in the last place of the exact result."""

MAX_ULP_F64: Final[dict[str, float]] = {"exp": 1.0, "log": 1.0, "sigmoid": 2.5}
"""The same for f64."""


def vmath(isa: Isa, functions: Iterable[str], lanes: int | None = None) -> str:
    """C code that defines ``NAME_f32xL`` for each of ``functions``, which are names in :data:`MAX_ULP`; L is
    ``lanes``, by default the lanes of ``isa``.
    """
    prelude = Prelude(isa)
    for function in functions:
        prelude.function(function, F32, lanes or isa.lanes)
    return prelude.text(for_library=True)
