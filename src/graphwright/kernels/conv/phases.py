"""C text for ``phases.h``, which interleaves the phases of transposed convolutions into rows."""

from __future__ import annotations

from graphwright.kernels.movement import strided
from graphwright.targets.cpu.isa import Isa


def c_text(isa: Isa) -> str:
    """``woven_4``, which interleaves three or four phases; two are joined in registers."""
    return f'#include "movement/elements.h"\n\n{strided.woven(4, isa, (3, 4))}'
