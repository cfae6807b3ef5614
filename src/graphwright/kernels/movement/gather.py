"""Gathers slices of elements of any size along one axis."""

from __future__ import annotations

from typing import ClassVar, Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import SIGNED, Extent, Reach, arguments, within
from graphwright.kernels.library.kernel_call import KernelCall
from graphwright.kernels.movement import rows
from graphwright.kernels.movement.rows import ELEMENT_SIZES, UNITS, unit_count
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

INDEX_OUT_OF_RANGE: Final = 1
"""The error code of ``gw_gather`` when an index is not in ``[-n, n)``."""


ABI: Final = Abi(
    "gather",
    ("src", "indices", "dst"),
    (
        *("size", "units", "index_size", "outer", "axis", "count", "inner"),
        *("dst_outer", "dst", "src_outer", "src"),
    ),
)


@dataclass(frozen=True)
class Gather(KernelCall):
    """``dst[o, k, i] = src[o, indices[k], i]`` for o < outer, k < count, i < inner. Operands: src, indices,
    dst. Indices are int32 or int64, dense; negative ones count from the end of the axis (of ``axis_size``).
    An index out of range ends the kernel with ``INDEX_OUT_OF_RANGE``. The ``inner`` elements are contiguous
    in both.
    """

    SYMBOL: ClassVar[str] = "gw_gather"

    element_size: int
    index_size: int
    outer: Dim
    axis_size: Dim
    count: Dim
    inner: Dim
    dst_outer_stride: Dim
    dst_stride: Dim
    src_outer_stride: Dim
    src_stride: Dim

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        return ABI.values(
            size=self.element_size,
            units=self.grid,
            index_size=self.index_size,
            outer=self.outer,
            axis=self.axis_size,
            count=self.count,
            inner=self.inner,
            dst_outer=self.dst_outer_stride,
            dst=self.dst_stride,
            src_outer=self.src_outer_stride,
            src=self.src_stride,
        )

    @property
    def grid(self) -> Dim:
        """The number of units of work, which are of about equal size."""
        return unit_count(self.outer * self.count * self.inner * self.element_size)

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds: some cycles per index, and moving the slices."""
        rows = self.outer * self.count
        return predict(Work(cycles=4 * rows, moved=rows * self.inner * 2 * self.element_size), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that ``gw_gather`` accesses."""
    a = arguments(*ABI.args)
    return (
        Extent(
            Gather.SYMBOL,
            ABI.args,
            ABI.ordered(
                src=Reach(a.size, ((a.outer, a.src_outer), (a.axis, a.src), (a.inner, 1))),
                indices=Reach(a.index_size, ((a.count, 1),)),
                dst=Reach(a.size, ((a.outer, a.dst_outer), (a.count, a.dst), (a.inner, 1))),
            ),
            grid=a.units,
            bounds=within(SIGNED, "dst_outer", "dst", "src_outer", "src") | within(UNITS, "units"),
            choices={"size": ELEMENT_SIZES, "index_size": (4, 8)},
        ),
    )


def header(isa: Isa) -> str:
    """The generated header of ``gather.c``."""
    return "\n".join([ABI.c_text(), code(), rows.c_text(isa)])


def code() -> str:
    """The error code as C."""
    return f"#define INDEX_OUT_OF_RANGE {INDEX_OUT_OF_RANGE}\n"
