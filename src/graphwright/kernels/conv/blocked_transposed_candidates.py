"""Transposed convolutions on channel blocks, as direct convolutions of the image.

Output pixels with the same remainder modulo the stride read the same taps. Each such phase is an ordinary
convolution, whose pixels interleave with those of other phases (Shi et al., "Is the deconvolution layer the
same as a convolutional layer?", 2016). If windows do not overlap, every phase has one tap: then all phases
are the channels of one convolution, which spreads them over the pixels when it stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import gcd

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array
from graphwright.ir.symbols import Dim, ceildiv, minimum, numbers
from graphwright.ir.types import Layout
from graphwright.kernels.candidates.blocks import block_strides
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.contractions import Contraction
from graphwright.kernels.conv import direct
from graphwright.kernels.conv.blocked_convolution import two_axes
from graphwright.kernels.launch import ByteRange, Launch, Run
from graphwright.kernels.ref import KernelRef
from graphwright.kernels.strides import row_major_strides
from graphwright.layout.blocks import is_blocked
from graphwright.layout.transform import pack
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.spatial import Windows
from graphwright.records import dataclass, replace

_ONE_TAP = (1, 1, 1, 1, 0, 0, 1, 1)
"""The kernel sizes, strides, pads and dilations of a 1x1 convolution."""


@dataclass(frozen=True)
class Taps:
    """The convolution along one axis that computes every ``stride``-th element of a transposed one. Its taps
    are ``first``, ``first - step``, ... of the transposed window; ``pad`` may be negative.
    """

    phase: int
    first: int
    step: int
    count: int
    dilation: int
    pad: int


def taps_of(phase: int, kernel: int, stride: int, dilation: int, pad: int) -> Taps:
    """The taps for element ``stride * q + phase``: it sums w[k] * x[q + (phase + pad - k * dilation) /
    stride] over all k for which this index is an integer.
    """
    common = gcd(stride, dilation)
    own = [k for k in range(kernel) if (phase + pad - k * dilation) % stride == 0]
    if not own:
        return Taps(phase, 0, 1, 0, 1, 0)
    last = own[-1]
    begins = (phase + pad - last * dilation) // stride
    return Taps(phase, last, stride // common, len(own), dilation // common, -begins)


@dataclass(frozen=True)
class BlockedTransposed:
    """A transposed convolution of a channel-blocked image; ``w`` and ``bias`` are constants."""

    call: Contraction
    x: Value
    w: Value
    bias: Value | None
    op: ConvTranspose

    def run(self, context: Context) -> Run | str:
        """One launch, or one for each phase; or the reason why the kernel does not support the epilogue."""
        epilogue = self.call.epilogue
        if self.call.hook is not None:
            return "the pixels of a tile are not contiguous in the result"
        if epilogue.scale != 1 or epilogue.bias is not None or epilogue.residual is not None:
            return "the kernel cannot scale or add when it stores pixels that are not contiguous"
        if not self.op.overlaps(self.w.type.dims[2:]):
            return Run((self._at_once(context),))
        return Run(tuple(self._phases(context)))

    def _at_once(self, context: Context) -> Launch:
        """Computes all phases as channels of one 1x1 convolution."""
        lanes, (kh, kw) = context.isa.lanes, self._kernel
        _, _, h, w = two_axes(self.x.type.dims)
        result, group = self.call.node.output, self.op.group
        if is_blocked(result):
            unit = lanes
            n, c, row = block_strides(result)
        else:
            unit = 1
            n, c, row, _ = row_major_strides(two_axes(result.type.dims))
        y_strides = (n, c, kh * row, kw * unit, unit, kh, kw)
        rows = -(-self._features // unit) * unit * kh * kw
        args = self._args(rows, (h, w, h, w), _ONE_TAP, y_strides, lanes)
        layout, kind = _weight_layout(lanes), f"transposed {group} {kh} {kw} {unit} {lanes}"

        def weights(out: Array, source: Array) -> None:
            out[...] = pack(_phases_as_rows(self._by_group(source), unit)[..., None, None], layout)

        def shifts(out: Array, source: Array) -> None:
            shape = (group, self._features, 1, kh, kw)
            everywhere = np.broadcast_to(source.reshape(group, -1, 1, 1, 1), shape)
            out[...] = 0
            out[: group * rows] = _phases_as_rows(everywhere, unit).reshape(-1)

        packed_shape = numbers(layout.physical_shape((group * rows, self._grouped[2], 1, 1)))
        packed = context.derived(self.w, kind, packed_shape, weights)
        bias = None
        if self.bias is not None:
            bias = context.derived(self.bias, kind, (-(-group * rows // lanes) * lanes,), shifts)
        return self._launch(args, packed, bias, self._result, context)

    def _phases(self, context: Context) -> Iterator[Launch]:
        """A convolution for each phase that has pixels."""
        window, lanes = self._window, context.isa.lanes
        _, _, h, w = two_axes(self.x.type.dims)
        _, _, oh, ow = two_axes(self.call.node.output.type.dims)
        n, c, row = block_strides(self.call.node.output)
        pads = numbers(window.pads[:2])
        axes = zip(self._kernel, window.strides, window.dilations, pads, strict=True)
        phases = [[taps_of(p, k, s, d, pad) for p in range(s)] for k, s, d, pad in axes]
        stride_h, stride_w = window.strides
        bias, result = self._bias(context), self._result
        elements = self.x.type.dims[0] * n
        for down, right in product(*phases):
            sizes = (h, w, ceildiv(oh - down.phase, stride_h), ceildiv(ow - right.phase, stride_w))
            if any(isinstance(size, int) and size <= 0 for size in sizes[2:]):
                continue
            both = down.count * right.count
            taps = (down.count, right.count, 1, 1, down.pad, right.pad, down.dilation, right.dilation)
            y_strides = (n, c, stride_h * row, stride_w * lanes, lanes, 1, 1)
            args = self._args(self._features, sizes, taps if both else _ONE_TAP, y_strides, lanes)
            weights = self._phase_weights(down, right, context) if both else self.w
            first = down.phase * row + right.phase * lanes  # beyond the image if the phase has no pixels
            target = ByteRange(result, 4 * minimum(first, elements))
            yield self._launch(args if both else replace(args, cin=0), weights, bias, target, context)

    def _phase_weights(self, down: Taps, right: Taps, context: Context) -> Value:
        layout = _weight_layout(context.isa.lanes)
        shape = (self.op.group * self._features, self._grouped[2], down.count, right.count)

        def fill(out: Array, source: Array) -> None:
            rows, columns = ([t.first - t.step * k for k in range(t.count)] for t in (down, right))
            taken = self._by_group(source)[..., rows, :][..., columns]
            out[...] = pack(taken.reshape(shape), layout)

        kind = f"transposed {self.op.group} {down} {right} {context.isa.lanes}"
        return context.derived(self.w, kind, numbers(layout.physical_shape(shape)), fill)

    def _by_group(self, w: Array) -> Array:
        """Weights [Cin, features, ...] as [group, features, Cin / group, kh, kw]."""
        group, features, cin = self._grouped
        kernel = two_axes(w.shape)[2:]
        return w.reshape(group, cin, features, *numbers(kernel)).swapaxes(1, 2)

    @property
    def _grouped(self) -> tuple[int, int, int]:
        """The number of groups, of features, and of input channels per group."""
        return self.op.group, self._features, self.w.type.sizes[0] // self.op.group

    @property
    def _result(self) -> Value:
        assert self.call.result is not None  # there is no hook that stores
        return self.call.result

    @property
    def _features(self) -> int:
        return self.w.type.sizes[1]

    @property
    def _kernel(self) -> tuple[int, ...]:
        return numbers(self._window.kernel)

    @property
    def _window(self) -> Windows:
        return self.op.windows(self.w.type.dims[2:]).on_two_axes

    def _bias(self, context: Context) -> Value | None:
        if self.bias is None:
            return None
        return context.packed(self.bias, Layout((0,), ((0, context.isa.lanes),), zero_padded=True))

    def _args(
        self, cout: int, sizes: tuple[Dim, ...], taps: tuple[Dim, ...], y_strides: tuple[Dim, ...], lanes: int
    ) -> direct.DirectArgs:
        return direct.DirectArgs(*(
            self.x.type.dims[0], self.op.group, self._grouped[2], cout, *sizes, *taps, *block_strides(self.x),
            lanes, 0, 0, 0, *y_strides, *self.call.epilogue.args,
        ))  # fmt: skip

    def _launch(
        self,
        args: direct.DirectArgs,
        w: Value,
        bias: Value | None,
        target: Value | ByteRange,
        context: Context,
    ) -> Launch:
        isa = context.isa
        return Launch(
            KernelRef(direct.SYMBOL),
            direct.ABI.ordered(x=self.x, w=w, bias=bias, residual=None, y=target),
            direct.ABI.positions("y"),
            tuple(args),
            direct.grid(isa, args),
            direct.scratch_bytes(isa, args),
            direct.work_ns(isa, args),
            takes_hook=True,
        )


def _phases_as_rows(w: Array, unit: int) -> Array:
    """[group, features, Cin, kh, kw] as [-1, Cin]: features in whole units, by group, kh, unit, kw."""
    group, features, cin, kh, kw = w.shape
    padded = np.pad(w, ((0, 0), (0, -features % unit), (0, 0), (0, 0), (0, 0)))
    units = padded.reshape(group, -1, unit, cin, kh, kw)
    return units.transpose(0, 4, 1, 5, 2, 3).reshape(-1, cin)


def _weight_layout(lanes: int) -> Layout:
    return Layout((0, 1, 2, 3), ((1, lanes), (0, lanes)), zero_padded=True)
