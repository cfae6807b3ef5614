"""Looks bytes up in a table of 256 bytes."""

from __future__ import annotations

from typing import Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import Extent, dense
from graphwright.kernels.library.kernel_call import ArgumentsCall
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_byte_table"
"""``y[i] = table[x[i]]`` for i < count, with VBMI where the CPU has it."""
WITHOUT_VBMI: Final = "gw_byte_table_scalar"
"""The same kernel without VBMI, even on CPUs that have it."""
_UNIT_LOOKUPS: Final = 1 << 14
_ENTRIES: Final = 256
_BYTES_PER_CYCLE: Final = {"v3": 1, "v4": 8}


@dataclass(frozen=True)
class ByteTableCall(ArgumentsCall):
    """A call of either kernel."""

    count: Dim

    @property
    def grid(self) -> Dim:
        """The number of units of work."""
        return ceildiv(self.count, _UNIT_LOOKUPS)

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds."""
        work = Work(cycles=floordiv(self.count, _BYTES_PER_CYCLE[isa.name]), moved=2 * self.count)
        return predict(work, isa.machine)


ABI: Final = Abi("byte_table", ("x", "table", "y"), ByteTableCall.names())


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that the kernels access."""
    a = ByteTableCall.symbols()
    operands = ABI.ordered(x=dense(1, a.count), table=dense(1, _ENTRIES), y=dense(1, a.count))
    return tuple(Extent(name, ABI.args, operands, grid=a.grid) for name in (SYMBOL, WITHOUT_VBMI))


def header(isa: Isa) -> str:
    """The generated header of ``byte_table.c``."""
    return f"{ABI.c_text()}#define UNIT_LOOKUPS {_UNIT_LOOKUPS}\n"
