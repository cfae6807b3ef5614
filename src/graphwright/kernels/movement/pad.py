"""Padding of elements of any size: constant, edge, reflect, wrap; negative pads crop."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, product
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import SIGNED, Extent, Reach, arguments, dense, strided, within
from graphwright.kernels.library.kernel_call import KernelCall
from graphwright.kernels.movement import rows
from graphwright.kernels.movement.rows import ELEMENT_SIZES, MAX_RANK, UNITS, pad_left, unit_count
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa


class PadMode(IntEnum):
    """The contents of elements outside the source."""

    CONSTANT = 0
    EDGE = 1
    REFLECT = 2
    WRAP = 3


ABI: Final = Abi(
    "pad",
    ("src", "fill", "dst"),
    ("size", "units", "mode", *(f"{what}[{MAX_RANK}]" for what in ("n", "inside", "before", "d", "s"))),
)
"""The sizes of dst and src, the leading pads, and strides in elements of dst and src."""


@dataclass(frozen=True)
class PadNd(KernelCall):
    """``dst`` of shape ``out_shape`` is ``src`` of ``in_shape`` after ``before`` leading pads.

    Operands: src, fill, dst. ``before`` may be negative, which crops. ``fill`` points to one element; if it
    is absent, pads are zeros. Reflect and wrap repeat as in ``numpy.pad`` if a pad is longer than the axis.
    """

    SYMBOL: ClassVar[str] = "gw_pad_nd"

    element_size: int
    mode: PadMode
    out_shape: tuple[Dim, ...]
    in_shape: tuple[Dim, ...]
    before: tuple[Dim, ...]
    dst_strides: tuple[Dim, ...]
    src_strides: tuple[Dim, ...]

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        return ABI.values(
            size=self.element_size,
            units=self.grid,
            mode=int(self.mode),
            n=pad_left(self.out_shape, 1),
            inside=pad_left(self.in_shape, 1),
            before=pad_left(self.before, 0),
            d=pad_left(self.dst_strides, 0),
            s=pad_left(self.src_strides, 0),
        )

    @property
    def grid(self) -> Dim:
        """The number of units of work, which are of about equal size."""
        return unit_count(product(self.out_shape) * self.element_size)

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds: reading and writing bytes, and the pads of each
        row.
        """
        cycles = product(self.out_shape[:-1]) * (10 if self.mode is PadMode.CONSTANT else 50)
        moved = product(self.out_shape) * 2 * self.element_size
        return predict(Work(cycles=cycles, moved=moved), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that ``gw_pad_nd`` accesses."""
    a = arguments(*ABI.args)
    signed = (f"{what}{axis}" for what in ("before", "d", "s") for axis in range(MAX_RANK))
    return (
        Extent(
            PadNd.SYMBOL,
            ABI.args,
            ABI.ordered(
                src=Reach(a.size, strided(a, "inside", "s", MAX_RANK)),
                fill=dense(a.size, 1, optional=True),
                dst=Reach(a.size, strided(a, "n", "d", MAX_RANK)),
            ),
            grid=a.units,
            bounds=within(SIGNED, *signed) | within(UNITS, "units"),
            choices={"size": ELEMENT_SIZES, "mode": tuple(map(int, PadMode))},
        ),
    )


def header(isa: Isa) -> str:
    """The generated header of ``pad.c``."""
    modes = ", ".join(f"{mode.name} = {mode.value}" for mode in PadMode)
    return "\n".join([ABI.c_text(), f"enum {{ {modes} }};", rows.c_text(isa)])
