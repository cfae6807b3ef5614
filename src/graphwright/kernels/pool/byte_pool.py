"""Max pooling of bytes, in the two steps of ``pool.py``: rows to a line, then the columns of the line.

Signed bytes are shifted by 128, so that 0 is the least value of both types.
"""

from __future__ import annotations

from typing import Final

from graphwright.kernels.library.extent import Extent
from graphwright.kernels.pool import pool
from graphwright.records import replace
from graphwright.targets.cpu.isa import Isa

UNSIGNED: Final = "gw_max_pool_u8"
SIGNED: Final = "gw_max_pool_s8"


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that the kernels access: that of max pooling in f32, with smaller elements."""
    wide, *_ = pool.extents(isa)
    operands = tuple(replace(operand, item=1) for operand in wide.operands)
    return tuple(replace(wide, symbol=symbol, operands=operands) for symbol in (UNSIGNED, SIGNED))


def header(isa: Isa) -> str:
    """The generated header of ``byte_pool.c``."""
    return pool.ABI.c_text()
