"""The C text that ``phases.h`` uses."""

from __future__ import annotations

from graphwright.kernels.movement import strided
from graphwright.targets.cpu.isa import Isa


def c_text(isa: Isa) -> str:
    """``woven_4`` for three and four phases; two are joined in registers."""
    return f'#include "movement/elements.h"\n\n{strided.woven(4, isa, (3, 4))}'
