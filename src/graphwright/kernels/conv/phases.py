"""The C text that ``phases.h`` uses."""

from __future__ import annotations

from graphwright.kernels.movement import strided
from graphwright.targets.cpu.isa import Isa


def c_text(isa: Isa) -> str:
    """Joins rows of f32 element by element."""
    return f'#include "movement/elements.h"\n\n{strided.weaves(4, isa, (3, 4))}'
