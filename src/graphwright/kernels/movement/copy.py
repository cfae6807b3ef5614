"""Strided N-d copies of elements of any size: Transpose, Slice, Concat, Expand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, minimum, product
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import SIGNED, Extent, Reach, arguments, strided, within
from graphwright.kernels.library.kernel_call import KernelCall
from graphwright.kernels.movement import rows, transposition
from graphwright.kernels.movement.rows import ELEMENT_SIZES, MAX_RANK, UNITS, pad_left, unit_count
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

ABI: Final = Abi(
    "copy",
    ("src", "dst"),
    ("size", "units", "dst_offset", "src_offset", *(f"{what}[{MAX_RANK}]" for what in ("n", "d", "s"))),
)
"""Sizes, then strides of dst and src in elements."""


Axis = tuple[Dim, Dim, Dim]
"""The size, and the strides of dst and src."""


def _merged(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The axes without those of size 1. Neighboring axes become one if dst and src are both contiguous across
    them.
    """
    kept: list[Axis] = []
    for size, dst, src in axes:
        if size == 1:
            continue
        if kept and kept[-1][1:] == (dst * size, src * size):
            kept[-1] = (kept[-1][0] * size, dst, src)
        else:
            kept.append((size, dst, src))
    return tuple(kept)


@dataclass(frozen=True)
class CopyNd(KernelCall):
    """``dst[i] = src[i]`` for every index ``i`` within ``shape``. Operands: src, dst. Strides and offsets in
    elements.

    A source stride may be 0 (expand) or negative; the elements of dst are distinct.
    """

    SYMBOL: ClassVar[str] = "gw_copy_nd"

    element_size: int
    shape: tuple[Dim, ...]
    dst_strides: tuple[Dim, ...]
    src_strides: tuple[Dim, ...]
    dst_offset: Dim = 0
    src_offset: Dim = 0

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the copy, merged if they are more than the kernel takes."""
        axes = tuple(zip(self.shape, self.dst_strides, self.src_strides, strict=True))
        return axes if len(axes) <= MAX_RANK else _merged(axes)

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        n, d, s = (tuple(axis[k] for axis in self.axes) for k in range(3))
        return ABI.values(
            size=self.element_size,
            units=self.grid,
            dst_offset=self.dst_offset,
            src_offset=self.src_offset,
            n=pad_left(n, 1),
            d=pad_left(d, 0),
            s=pad_left(s, 0),
        )

    @property
    def grid(self) -> Dim:
        """The number of units of work, which are of about equal size."""
        return unit_count(product(self.shape) * self.element_size)

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds: copies of whole rows, or of single elements if one
        side is strided.
        """
        elements = product(self.shape)
        each = ceildiv(elements * self.element_size, 8)
        cycles = minimum(15 * product(self.shape[:-1]), each)
        if self.src_strides[-1:] != (1,) or self.dst_strides[-1:] != (1,):
            cycles += each
        return predict(Work(cycles=cycles, moved=2 * self.element_size * elements), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that ``gw_copy_nd`` accesses."""
    a = arguments(*ABI.args)
    strides = (f"{what}{axis}" for what in ("d", "s") for axis in range(MAX_RANK))
    return (
        Extent(
            CopyNd.SYMBOL,
            ABI.args,
            ABI.ordered(
                src=Reach(a.size, strided(a, "n", "s", MAX_RANK), a.src_offset),
                dst=Reach(a.size, strided(a, "n", "d", MAX_RANK), a.dst_offset),
            ),
            grid=a.units,
            bounds=within(SIGNED, *strides) | within(UNITS, "units"),
            choices={"size": ELEMENT_SIZES},
        ),
    )


def header(isa: Isa) -> str:
    """The generated header of ``copy.c``."""
    return "\n".join([ABI.c_text(), rows.c_text(isa), transposition.c_text(isa)])
