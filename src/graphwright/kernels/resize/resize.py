"""Resizes the last two axes of f32 tensors: nearest, linear and cubic, as ONNX defines them.

All three are one algorithm with 1, 2 or 4 taps per axis (Keys, "Cubic Convolution Interpolation", 1981). A
row of x is resized along the width when an output row first needs it, and kept for later ones; then rows are
blended. If the height shrinks, rows are blended first, so that only one is resized per output row. If the
taps advance by one input per two outputs (a scale of 2), loads and shuffles replace gathers.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, floordiv, maximum, minimum
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.library.extent import BITS, SIGNED, Extent, Reach, arguments, within
from graphwright.kernels.library.kernel_call import KernelCall
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa


class Coordinates(IntEnum):
    """The values of ONNX's ``coordinate_transformation_mode``, except tf_crop_and_resize."""

    HALF_PIXEL = 0
    PYTORCH_HALF_PIXEL = 1
    ALIGN_CORNERS = 2
    ASYMMETRIC = 3
    HALF_PIXEL_SYMMETRIC = 4


class Rounding(IntEnum):
    """ONNX's ``nearest_mode``."""

    ROUND_PREFER_FLOOR = 0
    ROUND_PREFER_CEIL = 1
    FLOOR = 2
    CEIL = 3


RECORDS: Final = {
    "sampling": ("coordinates", "rounding", "exclude_outside", "double cubic_a"),
    "axis": ("in", "out", "double scale"),
}
"""The records of arguments: how taps are computed, and the sizes of an axis."""
ABI: Final = Abi(
    "resize",
    ("x", "y"),
    ("planes", "x_plane", "x_row", "y_plane", "y_row", "sampling how", "axis h", "axis w"),
    RECORDS,
)


@dataclass(frozen=True)
class Resize(KernelCall):
    """``[planes, height, width]`` to ``[planes, out_height, out_width]``.

    Operands: x, y; their widths are contiguous. A scale of 0 means the quotient of the sizes. Strides (of
    planes and rows) are in elements.
    """

    NEAREST: ClassVar[str] = "gw_resize_nearest_f32"
    LINEAR: ClassVar[str] = "gw_resize_linear_f32"
    CUBIC: ClassVar[str] = "gw_resize_cubic_f32"

    symbol: str
    planes: Dim
    height: Dim
    width: Dim
    out_height: Dim
    out_width: Dim
    x_strides: tuple[Dim, Dim]
    y_strides: tuple[Dim, Dim]
    scale_h: float = 0.0
    scale_w: float = 0.0
    coordinates: Coordinates = Coordinates.HALF_PIXEL
    rounding: Rounding = Rounding.ROUND_PREFER_FLOOR
    cubic_a: float = -0.75
    exclude_outside: bool = False

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        flags = int(self.coordinates), int(self.rounding), int(self.exclude_outside)
        return ABI.values(
            planes=self.planes,
            x_plane=self.x_strides[0],
            x_row=self.x_strides[1],
            y_plane=self.y_strides[0],
            y_row=self.y_strides[1],
            how=(*flags, double_bits(self.cubic_a)),
            h=(self.height, self.out_height, double_bits(self.scale_h)),
            w=(self.width, self.out_width, double_bits(self.scale_w)),
        )

    @property
    def taps(self) -> int:
        """Taps per axis."""
        return {self.NEAREST: 1, self.LINEAR: 2, self.CUBIC: 4}[self.symbol]

    @property
    def grid(self) -> Dim:
        """The number of units: rows of the output."""
        return self.planes * self.out_height

    def scratch_bytes(self, isa: Isa) -> Dim:
        """The bytes of indices and weights of rows and columns, and of as many resized rows as there are
        taps, or of one blended row.
        """
        taps, columns = self.taps, self.taps * self.out_width
        return 16 * taps * self.out_height + 8 * columns + 4 * maximum(columns, self.width) + 64

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds: the rows of x that are read are resized, then as
        many as there are taps are blended. Columns are computed one by one, except for a scale of 2.
        """
        rows, taps = self.planes * self.out_height, self.taps
        resized = self.planes * minimum(self.height, taps * self.out_height) * self.out_width
        doubled = self.out_width == 2 * self.width
        columns = floordiv(resized * taps, 5) if doubled else floordiv(5 * resized * taps, 4)
        elements = rows * self.out_width
        cycles = 30 * rows + floordiv(elements * (taps if taps > 1 else 0), 4) + columns
        return predict(Work(cycles=cycles, moved=4 * elements), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that the three kernels access. Column indices have 32 bits."""
    a = arguments(*ABI.args)
    strides = (a.x_plane, a.x_row), (a.y_plane, a.y_row)
    kernels = (
        Resize(name, a.planes, a.h_in, a.w_in, a.h_out, a.w_out, *strides)
        for name in (Resize.NEAREST, Resize.LINEAR, Resize.CUBIC)
    )
    return tuple(
        Extent(
            resize.symbol,
            ABI.args,
            ABI.ordered(
                x=Reach(4, ((a.planes, a.x_plane), (a.h_in, a.x_row), (a.w_in, 1))),
                y=Reach(4, ((a.planes, a.y_plane), (a.h_out, a.y_row), (a.w_out, 1))),
            ),
            grid=resize.grid,
            scratch=resize.scratch_bytes(isa),
            bounds=within(SIGNED, "x_plane", "x_row", "y_plane", "y_row")
            | within(BITS, "how_cubic_a", "h_scale", "w_scale")
            | within((0, (1 << 31) - 1), "w_in"),
        )
        for resize in kernels
    )


def header(isa: Isa) -> str:
    """The generated header of ``resize.c``."""
    return f"{ABI.c_text()}{modes()}"


def modes() -> str:
    """The enumerations as C."""
    return "".join(
        f"enum {{ {', '.join(f'{mode.name} = {mode.value}' for mode in kind)} }};\n"
        for kind in (Coordinates, Rounding)
    )
