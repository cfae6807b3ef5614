"""Max and average pooling of f32 tensors [N, C, D, H, W]; missing spatial axes have size 1.

Each output row is computed in two steps without border code. First, the rows (and depths) of its windows are
reduced, vectorized along the width, to one padded line in scratch. Then the columns of each window are
reduced from that line. The cost is the sum of the window's sizes instead of their product.
"""

from __future__ import annotations

from typing import ClassVar, Final

from graphwright.cost.images import is_pairwise_pool, planar_pool_work
from graphwright.cost.predict import predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, minimum, product
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import SIGNED, SIZE, STEP, Extent, Reach, arguments, dense, within
from graphwright.kernels.library.kernel_call import KernelCall
from graphwright.kernels.movement import strided
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

Triple = tuple[Dim, Dim, Dim]
_MOST_LANES: Final = 16


_SPATIAL: Final = ("size", "out", "kernel", "stride", "before", "after", "dilation")
ABI: Final = Abi(
    "pool",
    ("x", "y", "indices"),
    (
        *("batch", "channels", "count_include_pad", "column_major"),
        *(f"{what}[3]" for what in _SPATIAL),
        *("xs[4]", "ys[4]"),
    ),
)
"""Arrays of 3 are for depth, height and width; ``xs`` and ``ys`` are strides of N, C, D and H. Max and
average take no indices.
"""


@dataclass(frozen=True)
class Pool(KernelCall):
    """Windows over (depth, height, width).

    Operands: x, y; ``gw_max_pool_indices_f32`` also has indices (int64, dense). The width is contiguous in x
    and y. ``x_strides`` and ``y_strides`` are those of N, C, D, H, in elements. ``pads_after`` only limits
    the divisor of an average that counts padding; ``out`` includes ceil_mode. A window without elements is
    -inf (max) or 0 (average). NaN propagates, as in NumPy.
    """

    MAX: ClassVar[str] = "gw_max_pool_f32"
    AVERAGE: ClassVar[str] = "gw_average_pool_f32"
    MAX_INDICES: ClassVar[str] = "gw_max_pool_indices_f32"

    symbol: str
    batch: Dim
    channels: Dim
    size: Triple
    out: Triple
    kernel: Triple
    strides: Triple
    pads_before: Triple
    pads_after: Triple
    dilations: Triple
    x_strides: tuple[Dim, Dim, Dim, Dim]
    y_strides: tuple[Dim, Dim, Dim, Dim]
    count_include_pad: bool = False
    column_major: bool = False
    """Whether indices count columns first (ONNX storage_order 1)."""

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        return ABI.values(
            batch=self.batch,
            channels=self.channels,
            count_include_pad=int(self.count_include_pad),
            column_major=int(self.column_major),
            size=self.size,
            out=self.out,
            kernel=self.kernel,
            stride=self.strides,
            before=self.pads_before,
            after=self.pads_after,
            dilation=self.dilations,
            xs=self.x_strides,
            ys=self.y_strides,
        )

    @property
    def grid(self) -> Dim:
        """The number of units: rows of the output."""
        return self.batch * self.channels * self.out[0] * self.out[1]

    def scratch_bytes(self, isa: Isa) -> Dim:
        """The bytes of the padded line, of its phases, of the divisors of the columns, and of what the last
        vector of windows reads beyond them.
        """
        reach = (self.out[2] + _MOST_LANES) * self.strides[2] + self.kernel[2] * self.dilations[2]
        line = reach + self.pads_before[2] + self.size[2] + 64
        has_phases = floordiv(minimum(self.strides[2] - 1, 2), 2)  # with strides of 3 and more
        return 4 * (line + has_phases * reach + self.out[2] + 64)

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds: both steps combine vectors of a row."""
        before, after = ceildiv(self.size[2], isa.lanes), ceildiv(self.out[2], isa.lanes)
        vectors = self.kernel[0] * self.kernel[1] * before + self.kernel[2] * after
        moved = 4 * self.batch * self.channels * (product(self.size) + product(self.out))
        last = (self.kernel[2], self.strides[2], self.dilations[2], self.pads_before[2])
        average, pairs = self.symbol == self.AVERAGE, is_pairwise_pool(*last)
        return predict(planar_pool_work(isa.lanes, self.grid, vectors, moved, average, pairs), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that the three kernels access."""
    a = arguments(*ABI.args)
    size, out, kernel, stride, before, after, dilation = (
        (getattr(a, f"{what}0"), getattr(a, f"{what}1"), getattr(a, f"{what}2")) for what in _SPATIAL
    )
    x_strides, y_strides = ([getattr(a, f"{x}s{axis}") for axis in range(4)] for x in "xy")
    x = Reach(4, (*zip((a.batch, a.channels, *size[:2]), x_strides, strict=True), (size[2], 1)))
    y = Reach(4, (*zip((a.batch, a.channels, *out[:2]), y_strides, strict=True), (out[2], 1)))
    indices = dense(8, a.batch, a.channels, *out)
    pool = Pool(
        *("", a.batch, a.channels, size, out, kernel, stride, before, after, dilation),
        *((0, 0, 0, 0), (0, 0, 0, 0)),
    )
    touched = ABI.ordered(x=x, y=y, indices=indices)
    operands = {Pool.MAX: touched[:2], Pool.AVERAGE: touched[:2], Pool.MAX_INDICES: touched}
    strides = (f"{x}s{axis}" for x in "xy" for axis in range(4))
    sizes = (f"{what}{axis}" for what in ("kernel", "before", "after") for axis in range(3))
    steps = (f"{what}{axis}" for what in ("stride", "dilation") for axis in range(3))
    bounds = within(SIGNED, *strides) | within(SIZE, *sizes) | within(STEP, *steps)
    return tuple(
        Extent(
            name,
            ABI.args,
            touched,
            grid=pool.grid,
            scratch=0 if name == Pool.MAX_INDICES else pool.scratch_bytes(isa),
            bounds=bounds,
        )
        for name, touched in operands.items()
    )


def header(isa: Isa) -> str:
    """The generated header of ``pool.c``."""
    return f'{ABI.c_text()}\n#include "movement/elements.h"\n\n{strided.strided(4, isa)}'
