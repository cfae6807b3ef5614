"""Windows that slide over the spatial axes of N, C, D1, D2, ...: shared by convolutions and pooling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as cartesian
from typing import Any

import numpy as np

from graphwright.ir.blocked_form import Blocked, BlockedForm, can_be_blocked
from graphwright.ir.graph import Node, Value
from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, UnknownRank, family
from graphwright.ir.padding import Padded, PaddingRule
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum
from graphwright.ir.types import BF16, F16, TensorType, dtype_of
from graphwright.ops.core.shaping import number
from graphwright.records import dataclass, replace

AUTO_PADS = ("", "SAME_UPPER", "SAME_LOWER")

WINDOW_ATTRIBUTES = {
    "strides": "strides",
    "pads": "pads",
    "dilations": "dilations",
    "group": "group",
    "auto_pad": "auto_pad",
}
"""Attributes of ONNX's convolutions, and the fields that they are."""
POOL_ATTRIBUTES = {
    "kernel_shape": "kernel",
    "strides": "strides",
    "pads": "pads",
    "dilations": "dilations",
    "ceil_mode": "ceil",
    "auto_pad": "auto_pad",
}
"""Attributes of ONNX's pooling, and the fields of :class:`Pool`."""


def verify_groups(group: int, auto_pad: str) -> None:
    """An InferError for attributes that no convolution can have."""
    if group < 1:
        raise InferError(f"{group} groups: at least 1 is needed")
    if auto_pad not in AUTO_PADS:
        raise InferError(f"auto_pad {auto_pad!r} is not one of {AUTO_PADS}")


def need_alike_ranks(at: Inference, x: Fact, w: Fact) -> None:
    """Refuse an input and a weight without a spatial axis, or with unequal numbers of them."""
    if x.rank < 3 or w.rank != x.rank:
        raise at.fail(
            f"an input of {x.type} and a weight of {w.type}: their ranks must be equal and at least 3"
        )


def need_groups(at: Inference, x: Fact, w: Fact, group: int) -> None:
    """Demand that channels of ``x`` and features of ``w`` [M, C/group, K...] make ``group`` groups."""
    features = w.shape[0]
    at.equal(x.shape[1], w.shape[1] * group, "channels of the input and of the weight times groups")
    at.equal(floordiv(features, group) * group, features, f"features in {group} groups")


def need_bias(at: Inference, bias: Fact | None, features: Dim) -> None:
    """Demand that the bias, if there is one, has an element for each feature."""
    if bias is None:
        return
    if bias.rank != 1:
        raise at.fail(f"the bias is {bias.type}; it must be a vector")
    at.equal(bias.shape[0], features, "bias and features")


def span(kernel: Dim, dilation: int) -> Dim:
    """Elements from the first to the last tap of a window."""
    return (kernel - 1) * dilation + 1


@dataclass(frozen=True)
class Windows:
    """One entry per spatial axis; ``pads`` are all begins, then all ends."""

    kernel: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[Dim, ...]
    partial: bool = False
    """Whether there is a window where less than one fits, as in ONNX Runtime's pooling."""

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def on_two_axes(self) -> Windows:
        """The same windows over rows of height 1, where there is one axis alone."""
        if self.rank != 1:
            return self
        begin, end = self.pads
        ones = ((1, *self.kernel), (1, *self.strides), (1, *self.dilations))
        return Windows(*ones, (0, begin, 0, end), self.partial)

    def check(self, at: Inference) -> None:
        """Refuse lists of another length than the spatial rank, and values that mean nothing."""
        for name, values, length, least in (
            ("strides", self.strides, self.rank, 1),
            ("dilations", self.dilations, self.rank, 1),
            ("pads", self.pads, 2 * self.rank, 0),
            ("kernel sizes", self.kernel, self.rank, 1),
        ):
            if len(values) != length:
                raise at.fail(f"{len(values)} {name} for {self.rank} spatial axes: {length} are needed")
            if any(isinstance(value, int) and value < least for value in values):
                raise at.fail(f"{name} of {list(values)}: at least {least} is needed")
            for value in values:
                at.at_least(value, least, name)

    def counts(self, dims: Sequence[Dim], ceil: bool = False) -> tuple[Dim, ...]:
        """Windows along each axis. With ``ceil`` the last may overhang, starting in front of the end pad."""
        return tuple(self._count(axis, dim, ceil) for axis, dim in enumerate(dims))

    def _count(self, axis: int, dim: Dim, ceil: bool) -> Dim:
        begin, end = self.pads[axis], self.pads[axis + self.rank]
        stride, taps = self.strides[axis], span(self.kernel[axis], self.dilations[axis])
        if begin + end == same_padding(dim, stride, taps):  # ceildiv in a simpler form
            return ceildiv(dim, stride)
        room = dim + begin + end - taps
        if not ceil or stride == 1:
            return (truncdiv(room, stride) if self.partial else floordiv(room, stride)) + 1
        return minimum(ceildiv(room, stride) + 1, ceildiv(dim + begin, stride))

    def infer(self, at: Inference, dims: Sequence[Dim], ceil: bool = False) -> tuple[Dim, ...]:
        """:meth:`counts`, demanding that at least one window fits, or begins where they are ``partial``."""
        self.check(at)
        sizes = list(self.counts(dims, ceil))
        for axis, dim in enumerate(dims):
            taps, stride = span(self.kernel[axis], self.dilations[axis]), self.strides[axis]
            room = dim + self.pads[axis] + self.pads[axis + self.rank] - taps
            if self.partial:
                at.at_least(dim, 1, f"spatial axis {axis}")
            if room == same_padding(dim, stride, taps) + dim - taps:
                continue
            what = f"spatial axis {axis} of {dim} elements, padded, less a window of {taps}"
            at.at_least(room, 1 - 2 * stride if self.partial else 0, what)
            if at.symbols.proves_at_least(room, 1 - stride):
                whole = replace(self, partial=False)._count(axis, dim, ceil)
                sizes[axis] = whole if at.symbols.proves_at_least(room, 0) else maximum(whole, 1)
        return tuple(sizes)

    def positions(self) -> Iterator[tuple[int, ...]]:
        """Every tap of a window, row-major."""
        return cartesian(*(range(number(size)) for size in self.kernel))

    def padded(self, x: Array, counts: Sequence[int], fill: Any) -> Array:
        """``x`` with its pads, and what the last windows overhang, filled."""
        widths = [(0, 0)] * (x.ndim - self.rank)
        for axis, dim in enumerate(x.shape[x.ndim - self.rank :]):
            begin = number(self.pads[axis])
            taps = number(span(self.kernel[axis], self.dilations[axis]))
            widths.append((begin, max(0, (counts[axis] - 1) * self.strides[axis] + taps - dim - begin)))
        return np.pad(x, widths, constant_values=fill) if any(map(any, widths)) else x

    def taken(self, position: Sequence[int], counts: Sequence[int]) -> tuple[Any, ...]:
        """An index of the padded array: what tap ``position`` of every window reads (or a scatter writes)."""
        starts = [k * dilation for k, dilation in zip(position, self.dilations, strict=True)]
        lengths = [(n - 1) * stride + 1 if n else 0 for n, stride in zip(counts, self.strides, strict=True)]
        return tap([slice(a, a + n, step) for a, n, step in zip(starts, lengths, self.strides, strict=True)])


def truncdiv(a: Dim, b: int) -> Dim:
    """``a / b`` rounded towards 0."""
    return maximum(floordiv(a, b), minimum(ceildiv(a, b), 0))


def tap(position: Sequence[Any]) -> tuple[Any, ...]:
    """An index of the last axes, whatever stands in front of them."""
    return (..., *position)


def windows(
    kernel: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[Dim]
) -> Windows:
    """Windows from attributes, of which an empty one stands for its default."""
    ones = (1,) * len(kernel)
    none = (0,) * (2 * len(kernel))
    return Windows(tuple(kernel), tuple(strides) or ones, tuple(dilations) or ones, tuple(pads) or none)


def same_padding(dim: Dim, stride: int, taps: Dim) -> Dim:
    """Total padding with which ``ceil(dim / stride)`` windows of ``taps`` fit."""
    return maximum((ceildiv(dim, stride) - 1) * stride + taps - dim, 0)


def same_pads(dims: Sequence[Dim], shape: Windows, auto_pad: str) -> tuple[Dim, ...]:
    """The pads of ``auto_pad``: the odd one at the end (SAME_UPPER) or at the beginning (SAME_LOWER)."""
    totals = [
        same_padding(dim, stride, span(size, dilation))
        for dim, size, stride, dilation in zip(
            dims, shape.kernel, shape.strides, shape.dilations, strict=False
        )  # lists of other lengths are refused where windows are counted
    ]
    return halves(totals, auto_pad == "SAME_UPPER")


def halves(totals: Sequence[Dim], upper: bool) -> tuple[Dim, ...]:
    """Totals as begins and ends; the larger half at the end if ``upper``."""
    small = [floordiv(total, 2) for total in totals]
    large = [total - half for total, half in zip(totals, small, strict=True)]
    return (*small, *large) if upper else (*large, *small)


def accumulator(array: Array) -> np.dtype[Any]:
    """The dtype to sum in: f32 for halves, else the array's own."""
    return np.dtype(np.float32) if dtype_of(array) in (F16, BF16) else array.dtype


def import_padding(i: Importer) -> tuple[tuple[int, ...], str]:
    """The attributes ``pads`` and ``auto_pad`` as (pads, one of ``AUTO_PADS``)."""
    auto = i.attr("auto_pad", "NOTSET") or "NOTSET"
    if auto in ("NOTSET", "VALID"):
        return (tuple(i.attr("pads", ())) if auto == "NOTSET" else ()), ""
    if auto not in AUTO_PADS:
        raise i.fail(f"auto_pad {auto!r}", hint="it is NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    return (), auto


def norm_of(i: Importer) -> int:
    """The attribute ``p``, a float in opset 1."""
    p = i.attr("p", 2)
    if p != int(p):
        raise i.fail(f"a norm of p = {p}", hint="p is a whole number")
    return int(p)


@family
class Pool(PaddingRule, Op):
    """Attributes of pooling: every window of each channel becomes one element."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...] = ()
    pads: tuple[Dim, ...] = ()
    dilations: tuple[int, ...] = ()
    ceil: bool = False
    """Whether windows may overhang the end."""
    auto_pad: str = ""

    def verify(self) -> None:
        if self.auto_pad not in AUTO_PADS:
            raise InferError(f"auto_pad {self.auto_pad!r} is not one of {AUTO_PADS}")

    @property
    def windows(self) -> Windows:
        return replace(windows(self.kernel, self.strides, self.dilations, self.pads), partial=True)

    def fold_operands(self, x: Fact) -> tuple[Op, tuple[int, ...]] | None:
        if not self.auto_pad or x.type.shape is None or x.rank != len(self.kernel) + 2:
            return None
        pads = same_pads(x.shape[2:], self.windows, self.auto_pad)
        return replace(self, pads=pads, auto_pad="", ceil=False), (0,)

    def padding_leak(self, node: Node, padded: Padded) -> str:
        if len(node.outputs) > 1 and node.outputs[1].uses:
            return "the positions of elements depend on sizes"
        return window_leak(node.operand(0), self.pads, padded, self.ceil)

    def pooled(self, at: Inference, x: Fact) -> TensorType:
        """The type of the result."""
        if x.rank != len(self.kernel) + 2:
            raise at.fail(
                f"the input is {x.type}; a kernel of {list(self.kernel)} needs rank {len(self.kernel) + 2}"
            )
        if self.auto_pad:
            raise UnknownRank
        return TensorType(x.dtype, (*x.shape[:2], *self.windows.infer(at, x.shape[2:], self.ceil)))

    def window_counts(self, x: Array) -> tuple[int, ...]:
        """Windows along each spatial axis of an array."""
        return tuple(number(n) for n in self.windows.counts(x.shape[2:], self.ceil))


class BlockedPool(BlockedForm):
    """The form on channel blocks of pooling that has a kernel for it."""

    __slots__ = ()

    def blocked_form(self, node: Node, operands: Sequence[Value | None], lanes: int) -> Blocked | str:
        """A vector of channels at a time."""
        if len(node.outputs) > 1:
            return "indices of maxima are in row-major order"
        x = node.operand(0)
        return Blocked() if can_be_blocked(x) else f"no pooling of {x.type} on channel blocks"


def window_leak(x: Value, pads: Sequence[Dim], padded: Padded, ceil: bool = False) -> str:
    """A window of a true result reaches true elements alone where none hangs over the end of ``x``."""
    spatial = len(x.type.dims) - 2
    ends = pads[spatial:] or (0,) * spatial
    for axis in range(spatial):
        if padded.among(x, [axis + 2]) and (ceil or ends[axis] != 0):
            return f"windows extend beyond the end of axis {axis + 2}"
    return "a padding depends on sizes" if any(map(padded.holds, pads)) else ""


def import_pool(i: Importer) -> dict[str, Any]:
    """Fields of :class:`Pool` from a source node."""
    pads, auto_pad = import_padding(i)
    valid = i.attr("auto_pad") == "VALID"  # floor(x) + 1 windows, whatever ceil_mode says
    return {
        "kernel": tuple(i.required_attr("kernel_shape")),
        "strides": tuple(i.attr("strides", ())),
        "pads": pads,
        "dilations": tuple(i.attr("dilations", ())),
        "ceil": bool(i.attr("ceil_mode", 0)) and not valid,
        "auto_pad": auto_pad,
    }
