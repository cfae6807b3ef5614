"""NonZero: counts elements per block, then writes indices after those of earlier blocks."""

from __future__ import annotations

from typing import ClassVar, Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, minimum, product
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import BITS, Extent, arguments, dense, within
from graphwright.kernels.library.kernel_call import KernelCall
from graphwright.kernels.movement.rows import MAX_RANK
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

_BLOCK_ELEMENTS: Final = 1 << 14
_MAX_BLOCKS: Final = 256


ABI: Final = Abi(
    "non_zero",
    ("x", "counts", "indices", "total"),
    ("size", "mask", "elements", "blocks", "rank", f"n[{MAX_RANK}]"),
)


@dataclass(frozen=True)
class NonZero(KernelCall):
    """The indices of the elements of a dense x in which a bit of ``mask`` is set.

    ``COUNT`` takes x and counts i64[grid], a number for each block. ``WRITE`` takes these two, indices and
    total: it writes i64[rank, total], in row-major order of x, to the first elements of indices, and total
    i64[1].
    """

    COUNT: ClassVar[str] = "gw_count_non_zero"
    WRITE: ClassVar[str] = "gw_non_zero"

    element_size: int
    mask: int
    """A signed 64-bit number."""
    shape: tuple[Dim, ...]

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        padding = (1,) * (MAX_RANK - len(self.shape))
        elements = product(self.shape)
        return ABI.values(
            size=self.element_size,
            mask=self.mask,
            elements=elements,
            blocks=self.grid,
            rank=len(self.shape),
            n=(*self.shape, *padding),
        )

    @property
    def grid(self) -> Dim:
        """The number of blocks; at least one, which writes the total."""
        return minimum(ceildiv(product(self.shape), _BLOCK_ELEMENTS) + 1, _MAX_BLOCKS)

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds: two cycles per element."""
        return predict(Work(cycles=2 * product(self.shape)), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that both kernels access; the counts are trusted."""
    a = arguments(*ABI.args)
    written = ABI.ordered(
        x=dense(a.size, a.elements),
        counts=dense(8, a.blocks),
        indices=dense(8, a.rank, a.elements),
        total=dense(8, 1),
    )
    shape = product([getattr(a, f"n{axis}") for axis in range(MAX_RANK)])
    operands = {NonZero.COUNT: written[:2], NonZero.WRITE: written}
    return tuple(
        Extent(
            symbol,
            ABI.args,
            touched,
            grid=a.blocks,
            bounds=within(BITS, "mask") | within((0, MAX_RANK), "rank") | within((1, _MAX_BLOCKS), "blocks"),
            choices={"size": (1, 2, 4, 8)},
            multiples=(shape - a.elements,),
        )
        for symbol, touched in operands.items()
    )


def header(isa: Isa) -> str:
    """The generated header of ``non_zero.c``."""
    return f"{ABI.c_text()}enum {{ MAX_RANK = {MAX_RANK} }};\n"
