"""Sliding windows over the spatial axes of [N, C, D...], for convolutions and pooling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as cartesian
from typing import Any

import numpy as np

from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.blocked_form import Blocked, BlockedForm, can_be_blocked
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, UnknownRank, family
from graphwright.ir.op.exporter import Exporter, Operand
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum
from graphwright.ir.types import BF16, F16, TensorType, dtype_of
from graphwright.ops.core.size_inference import number
from graphwright.records import dataclass, replace

AUTO_PADS = ("", "SAME_UPPER", "SAME_LOWER")

WINDOW_ATTRIBUTES = {
    "strides": "strides",
    "pads": "pads",
    "dilations": "dilations",
    "group": "group",
    "auto_pad": "auto_pad",
}
"""The attributes of ONNX's convolutions, and the corresponding fields of the ops."""
POOL_ATTRIBUTES = {
    "kernel_shape": "kernel",
    "strides": "strides",
    "pads": "pads",
    "dilations": "dilations",
    "ceil_mode": "ceil",
    "auto_pad": "auto_pad",
}
"""The attributes of ONNX's pooling ops, and the corresponding fields of :class:`Pool`."""


def verify_groups(group: int, auto_pad: str) -> None:
    """Raises InferError for attributes of a convolution that are invalid."""
    if group < 1:
        raise InferError(f"{group} groups: there must be at least 1")
    if auto_pad not in AUTO_PADS:
        raise InferError(f"auto_pad {auto_pad!r} is not one of {AUTO_PADS}")


def need_equal_ranks(at: Inference, x: Fact, w: Fact) -> None:
    """Raises InferError unless input and weight have the same rank, and a spatial axis."""
    if x.rank < 3 or w.rank != x.rank:
        raise at.fail(
            f"the input is {x.type} and the weight {w.type}: their ranks must be equal and at least 3"
        )


def need_groups(at: Inference, x: Fact, w: Fact, group: int) -> None:
    """Raises InferError unless the channels of ``x`` and the features of ``w`` [M, C/group, K...] are divided
    into ``group`` groups.
    """
    at.equal(x.shape[1], w.shape[1] * group, "channels of the input, and channels of the weight times groups")
    at.divide(w.shape[0], group, "features of the weight")


def need_bias(at: Inference, bias: Fact | None, features: Dim) -> None:
    """Raises InferError unless the bias is absent, or a vector with one element for each feature."""
    if bias is None:
        return
    if bias.rank != 1:
        raise at.fail(f"the bias is {bias.type}; it must be a vector")
    at.equal(bias.shape[0], features, "bias and features")


def span(kernel: Dim, dilation: int) -> Dim:
    """The number of elements from the first to the last tap of a dilated window."""
    return (kernel - 1) * dilation + 1


@dataclass(frozen=True)
class Windows:
    """The geometry of sliding windows: one entry for each spatial axis; ``pads`` are all begins, then all
    ends.
    """

    kernel: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[Dim, ...]
    partial: bool = False
    """Whether there is a window even if the padded axis is shorter than one, as in ONNX Runtime's pooling."""

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def on_two_axes(self) -> Windows:
        """The same windows; if they have one spatial axis, over images of height 1."""
        if self.rank != 1:
            return self
        begin, end = self.pads
        ones = ((1, *self.kernel), (1, *self.strides), (1, *self.dilations))
        return Windows(*ones, (0, begin, 0, end), self.partial)

    def check(self, at: Inference) -> None:
        """Raises InferError for lists of a wrong length, and for values that are too small."""
        for name, values, length, least in (
            ("strides", self.strides, self.rank, 1),
            ("dilations", self.dilations, self.rank, 1),
            ("pads", self.pads, 2 * self.rank, 0),
            ("kernel sizes", self.kernel, self.rank, 1),
        ):
            if len(values) != length:
                raise at.fail(f"{len(values)} {name} for {self.rank} spatial axes: there must be {length}")
            if any(isinstance(value, int) and value < least for value in values):
                raise at.fail(f"the {name} are {list(values)}; they must be at least {least}")
            for value in values:
                at.at_least(value, least, name)

    def counts(self, dims: Sequence[Dim], ceil: bool = False) -> tuple[Dim, ...]:
        """The number of windows along each axis. With ``ceil``, the last window may extend beyond the end
        pad, if it starts before it.
        """
        return tuple(self._count(axis, dim, ceil) for axis, dim in enumerate(dims))

    def _count(self, axis: int, dim: Dim, ceil: bool) -> Dim:
        begin, end = self.pads[axis], self.pads[axis + self.rank]
        stride, taps = self.strides[axis], span(self.kernel[axis], self.dilations[axis])
        if begin + end == same_padding(dim, stride, taps):  # a simpler expression of the same number
            return ceildiv(dim, stride)
        slack = dim + begin + end - taps
        if not ceil or stride == 1:
            return (truncdiv(slack, stride) if self.partial else floordiv(slack, stride)) + 1
        return minimum(ceildiv(slack, stride) + 1, ceildiv(dim + begin, stride))

    def infer(self, at: Inference, dims: Sequence[Dim], ceil: bool = False) -> tuple[Dim, ...]:
        """:meth:`counts`. Raises InferError unless a window fits; if windows are ``partial``, unless one
        begins.
        """
        self.check(at)
        sizes = list(self.counts(dims, ceil))
        for axis, dim in enumerate(dims):
            taps, stride = span(self.kernel[axis], self.dilations[axis]), self.strides[axis]
            slack = dim + self.pads[axis] + self.pads[axis + self.rank] - taps
            if self.partial:
                at.at_least(dim, 1, f"spatial axis {axis}")
            if slack == same_padding(dim, stride, taps) + dim - taps:
                continue
            fault = (
                f"spatial axis {axis} has {slack + taps} elements after padding, but a window spans {taps}"
            )
            at.require_at_least(slack, 1 - 2 * stride if self.partial else 0, fault)
            if at.symbols.proves_at_least(slack, 1 - stride):
                whole = replace(self, partial=False)._count(axis, dim, ceil)
                sizes[axis] = whole if at.symbols.proves_at_least(slack, 0) else maximum(whole, 1)
        return tuple(sizes)

    def positions(self) -> Iterator[tuple[int, ...]]:
        """The position of every tap in a window, in row-major order."""
        return cartesian(*(range(number(size)) for size in self.kernel))

    def padded(self, x: Array, counts: Sequence[int], fill: Any) -> Array:
        """``x`` with its pads, and with the elements that the last windows read beyond them, filled with
        ``fill``.
        """
        widths = [(0, 0)] * (x.ndim - self.rank)
        for axis, dim in enumerate(x.shape[x.ndim - self.rank :]):
            begin = number(self.pads[axis])
            taps = number(span(self.kernel[axis], self.dilations[axis]))
            widths.append((begin, max(0, (counts[axis] - 1) * self.strides[axis] + taps - dim - begin)))
        return np.pad(x, widths, constant_values=fill) if any(map(any, widths)) else x

    def elements_of_tap(self, position: Sequence[int], counts: Sequence[int]) -> tuple[Any, ...]:
        """The NumPy index, in the padded array, of the elements that tap ``position`` of all
        windows reads.
        """
        starts = [k * dilation for k, dilation in zip(position, self.dilations, strict=True)]
        lengths = [(n - 1) * stride + 1 if n else 0 for n, stride in zip(counts, self.strides, strict=True)]
        return tap([slice(a, a + n, step) for a, n, step in zip(starts, lengths, self.strides, strict=True)])


def truncdiv(a: Dim, b: int) -> Dim:
    """``a / b`` rounded towards 0."""
    return maximum(floordiv(a, b), minimum(ceildiv(a, b), 0))


def tap(position: Sequence[Any]) -> tuple[Any, ...]:
    """A NumPy index of the last axes, with all leading axes complete."""
    return (..., *position)


def windows(
    kernel: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[Dim]
) -> Windows:
    """Windows from attributes; an empty list is the default."""
    ones = (1,) * len(kernel)
    none = (0,) * (2 * len(kernel))
    return Windows(tuple(kernel), tuple(strides) or ones, tuple(dilations) or ones, tuple(pads) or none)


def same_padding(dim: Dim, stride: int, taps: Dim) -> Dim:
    """The total padding of ``auto_pad``: ``ceil(dim / stride)`` windows of span ``taps`` fit."""
    return maximum((ceildiv(dim, stride) - 1) * stride + taps - dim, 0)


def same_pads(dims: Sequence[Dim], shape: Windows, auto_pad: str) -> tuple[Dim, ...]:
    """The pads of ``auto_pad``. If the total is odd, the larger pad is at the end (SAME_UPPER) or at the
    beginning (SAME_LOWER).
    """
    axes = zip(
        dims, shape.kernel, shape.strides, shape.dilations, strict=False
    )  # Windows.check rejects others
    totals = [same_padding(dim, stride, span(size, dilation)) for dim, size, stride, dilation in axes]
    return halves(totals, auto_pad == "SAME_UPPER")


def halves(totals: Sequence[Dim], upper: bool) -> tuple[Dim, ...]:
    """Each total, divided into begin and end; the larger half is the end if ``upper``."""
    small = [floordiv(total, 2) for total in totals]
    large = [total - half for total, half in zip(totals, small, strict=True)]
    return (*small, *large) if upper else (*large, *small)


def with_pad_node(e: Exporter, op: Any, x: Operand, fill: Operand = None) -> tuple[Any, Operand]:
    """``op`` and its input ``x`` for an export: symbolic pads become a Pad node with the value ``fill``, by
    default 0, because an attribute cannot have them.
    """
    if all(isinstance(pad, int) for pad in op.pads):
        return op, x
    half = len(op.pads) // 2
    pads = e.sizes((0, 0, *op.pads[:half], 0, 0, *op.pads[half:]))
    return replace(op, pads=()), e.emit("Pad", x, pads, fill)


def accumulator(array: Array) -> np.dtype[Any]:
    """The dtype in which elements of ``array`` are summed: f32 for 16-bit floats, otherwise its own."""
    return np.dtype(np.float32) if dtype_of(array) in (F16, BF16) else array.dtype


def import_padding(i: Importer) -> tuple[tuple[int, ...], str]:
    """The pads and the ``auto_pad``, one of AUTO_PADS, of a source node."""
    auto = i.attr("auto_pad", "NOTSET") or "NOTSET"
    if auto in ("NOTSET", "VALID"):
        return (tuple(i.attr("pads", ())) if auto == "NOTSET" else ()), ""
    if auto not in AUTO_PADS:
        raise i.fail(
            f"auto_pad {auto!r} is not supported", hint="use NOTSET, VALID, SAME_UPPER or SAME_LOWER"
        )
    return (), auto


def norm_of(i: Importer) -> int:
    """The attribute ``p``, the order of a norm. In opset 1 it is a float."""
    p = i.attr("p", 2)
    if p != int(p):
        raise i.fail(f"a norm of order p = {p} is not supported", hint="p must be an integer")
    return int(p)


@family
class Pool(PaddingRule, Op):
    """Base class of pooling ops over x[N, C, D...]: each window of each channel becomes one element.

    ``pads`` are the begins of all spatial axes, then their ends. Empty lists are the defaults: strides and
    dilations of 1, no pads.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...] = ()
    pads: tuple[Dim, ...] = ()
    dilations: tuple[int, ...] = ()
    ceil: bool = False
    """Whether the last window may extend beyond the end (ONNX: ``ceil_mode``)."""
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
            return "the indices of maxima depend on padded sizes"
        return window_leak(node.operand(0), self.pads, padded, self.ceil)

    def pooled(self, at: Inference, x: Fact) -> TensorType:
        """The type of the result."""
        if x.rank != len(self.kernel) + 2:
            raise at.fail(
                f"the input is {x.type}; for a kernel of {list(self.kernel)} it must have rank "
                f"{len(self.kernel) + 2}"
            )
        if self.auto_pad:
            raise UnknownRank
        return TensorType(x.dtype, (*x.shape[:2], *self.windows.infer(at, x.shape[2:], self.ceil)))

    def window_counts(self, x: Array) -> tuple[int, ...]:
        """The number of windows along each spatial axis of ``x``."""
        return tuple(number(n) for n in self.windows.counts(x.shape[2:], self.ceil))


class BlockedPool(BlockedForm):
    """The channel-blocked form of pooling ops that have a kernel for it."""

    __slots__ = ()

    def blocked_form(self, node: Node, operands: Sequence[Value | None], lanes: int) -> Blocked | str:
        """Pools blocks of channels."""
        if len(node.outputs) > 1:
            return "the indices of maxima are row-major"
        x = node.operand(0)
        return Blocked() if can_be_blocked(x) else f"{x.type} has no channel-blocked layout"


def window_leak(x: Value, pads: Sequence[Dim], padded: Padded, ceil: bool = False) -> str:
    """How padding of ``x`` leaks into windows; empty if it does not. A window of a valid result only contains
    valid elements if no window extends beyond the end of ``x``.
    """
    spatial = len(x.type.dims) - 2
    ends = pads[spatial:] or (0,) * spatial
    for axis in range(spatial):
        if padded.among(x, [axis + 2]) and (ceil or ends[axis] != 0):
            return f"windows extend beyond the end of axis {axis + 2}"
    return "a pad depends on a padded size" if any(map(padded.holds, pads)) else ""


def is_by_channel(group: int, weights: Sequence[Dim]) -> bool:
    """Whether each feature of a convolution reads one channel: each group has one channel, and any number of
    features. ``weights`` are the sizes of w.
    """
    return weights[1] == 1 and group > 1


def is_depthwise(group: int, weights: Sequence[Dim]) -> bool:
    """Whether a convolution has one channel and one feature per group; ``weights`` are the sizes of w."""
    return is_by_channel(group, weights) and weights[0] == group


def import_pool(i: Importer) -> dict[str, Any]:
    """The fields of :class:`Pool` of a source node."""
    pads, auto_pad = import_padding(i)
    valid = i.attr("auto_pad") == "VALID"  # ceil_mode has no effect
    return {
        "kernel": tuple(i.required_attr("kernel_shape")),
        "strides": tuple(i.attr("strides", ())),
        "pads": pads,
        "dilations": tuple(i.attr("dilations", ())),
        "ceil": bool(i.attr("ceil_mode", 0)) and not valid,
        "auto_pad": auto_pad,
    }
