"""Direct convolutions that tests build, with random operands."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from graphwright.ir.types import Layout
from graphwright.kernels.conv import direct
from graphwright.layout.transform import pack, unpack
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import guard
from tests.kernels.library.harness import Array, load
from tests.kernels.library.prepared import PreparedKernel
from tests.kernels.library.windows import Window, normal


def bits(value: float) -> int:
    """The int64 whose low half are the bits of an f32; the high half is not read."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0]) | 5 << 32


def blocked(lanes: int) -> Layout:
    return Layout((0, 1, 2, 3), ((1, lanes),))


def to_blocks(x: Any, lanes: int, *, at_end: bool = True) -> Array:
    """``x`` [N, C, H, W] in guarded memory, NaN in the pad lanes."""
    packed = pack(x, blocked(lanes))
    packed[:, x.shape[1] // lanes :, ..., x.shape[1] % lanes :] = np.nan
    return guard(packed, at_end=at_end)


class Direct(PreparedKernel):
    """Operands laid out in guarded memory and ready to run."""

    def __init__(
        self, isa: Isa, x: Any, w: Any, bias: Any, groups: int, window: Window, *, planar: bool = False,
        residual: Any = None, act: int = 0, lo: float = 0, hi: float = 0, gap: int = 0, step: int = 1,
        at_end: bool = True, into_planes: bool = False,
    ) -> None:  # fmt: skip
        """``gap`` rows and columns lie after those of y, its columns stand ``step`` apart."""
        (n, channels, h, width), cout, lanes = x.shape, w.shape[0], isa.lanes
        oh, ow = window.output(h, width)
        self.shape, self.isa = (n, cout, oh, ow), isa
        if planar:
            layout = Layout((0, 1, 2, 3), ((0, lanes),), zero_padded=True)
            x = guard(x, at_end=at_end)
            x_strides = (channels * h * width, h * width, width, 1)
        else:
            layout = Layout((0, 1, 2, 3), ((1, lanes), (0, lanes)), zero_padded=True)
            x = to_blocks(x, lanes, at_end=at_end)
            x_strides = (x[0].size if n else 0, h * width * lanes, width * lanes, lanes)
        blocks, y_lanes = (cout, 1) if into_planes else (-(-cout // lanes), lanes)
        rows, columns = oh + gap, ow * step + gap
        self.y = guard(np.zeros((n, blocks, rows, columns, y_lanes), np.float32), at_end=at_end)
        self.stored = self.y[:, :, :oh, : ow * step : step]
        y_strides = tuple(y_lanes * s for s in (blocks * rows * columns, rows * columns, columns, step))
        if residual is not None:
            residual = to_blocks(residual, lanes, at_end=at_end)
        r_strides = (blocks * oh * ow * lanes, oh * ow * lanes, ow * lanes)
        self.args = direct.DirectArgs(
            n, groups, channels // groups, cout // groups, h, width, oh, ow, *window.kernel, *window.stride,
            *window.pads[:2], *window.dilation, *x_strides, *r_strides, *y_strides, y_lanes, 1, 1,
            act, bits(lo), bits(hi),
        )  # fmt: skip
        w = guard(pack(w, layout), at_end=at_end)
        if bias is not None:
            bias = guard(np.pad(bias, (0, -cout % lanes)), at_end=at_end)
        self.operands = [x, w, bias, residual, self.y]
        self.kernel = load(direct, isa)[direct.PLANAR_SYMBOL if planar else direct.SYMBOL]
        self.grid = direct.grid(isa, self.args)
        scratch = direct.planar_scratch_bytes if planar else direct.scratch_bytes
        self.scratch = scratch(isa, self.args)

    def run(self, chunks: list[tuple[int, int]] | None = None) -> Any:
        untouched = 77
        self.launch(chunks, untouched)
        result = unpack(self.stored, blocked(self.stored.shape[-1]), self.shape).copy()
        self.stored[...] = untouched
        assert np.all(self.y == untouched)
        return result

    def run_hooked(self) -> Any:
        n, cout, oh, ow = self.shape
        lanes = self.stored.shape[-1]
        shape = (n, cout, oh * ow) if lanes == 1 else (n * -(-cout // lanes), oh * ow, lanes)
        stored = self.hooked(*shape)
        return unpack(stored.reshape(n, -1, oh, ow, lanes), blocked(lanes), self.shape)


def operands(
    rng: np.random.Generator, n: int, groups: int, cin: int, cout: int, h: int, w: int, window: Window
) -> Any:
    """Returns x, the weights and the bias."""
    weights = normal(rng, groups * cout, cin, *window.kernel)
    return normal(rng, n, groups * cin, h, w), weights, normal(rng, groups * cout)
