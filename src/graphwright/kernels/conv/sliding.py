"""Spatial axes of a window op, reduced to the fewest equivalent axes, for kernels with three axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain

from graphwright.ir.symbols import Dim
from graphwright.ops.nn.spatial import Windows
from graphwright.records import dataclass

_KERNEL_AXES = 3


@dataclass(frozen=True)
class SlidingAxis:
    """Windows along one axis: ``size`` input elements give ``count`` windows."""

    size: Dim
    count: Dim
    kernel: Dim = 1
    stride: int = 1
    pad: Dim = 0
    """The leading padding; the trailing one follows from ``count``."""
    dilation: Dim = 1

    @property
    def is_single(self) -> bool:
        """Whether the axis has one element, and one window over it."""
        return (self.size, self.count, self.kernel, self.pad) == (1, 1, 1, 0)

    @property
    def is_copied(self) -> bool:
        """Whether every element is a window of its own."""
        return self.size == self.count and (self.kernel, self.stride, self.pad) == (1, 1, 0)


@dataclass(frozen=True)
class Sliding:
    """The spatial axes of an op over dense images, outermost first; at most three."""

    axes: tuple[SlidingAxis, ...]

    @cached_property
    def depth_height_width(self) -> tuple[Dim, ...]:
        """Triples (depth, height, width) of sizes, counts, kernel sizes, strides, leading pads, dilations."""
        missing = _KERNEL_AXES - len(self.axes)
        axes = (*(SlidingAxis(1, 1),) * missing, *self.axes)
        columns = zip(*((a.size, a.count, a.kernel, a.stride, a.pad, a.dilation) for a in axes), strict=True)
        return tuple(chain.from_iterable(columns))

    @property
    def height_width(self) -> tuple[Dim, ...]:
        """Like :meth:`depth_height_width`, as pairs for height and width; there must be no depth."""
        assert len(self.axes) < _KERNEL_AXES
        return tuple(entry for k, entry in enumerate(self.depth_height_width) if k % _KERNEL_AXES)

    @property
    def sizes(self) -> tuple[Dim, ...]:
        """The input sizes: depth, height, width."""
        return self.depth_height_width[:_KERNEL_AXES]

    @property
    def counts(self) -> tuple[Dim, ...]:
        """The result sizes: depth, height, width."""
        return self.depth_height_width[_KERNEL_AXES : 2 * _KERNEL_AXES]

    def without_single_axes(self) -> Sliding:
        """Drops axes of one element, so a column becomes a row."""
        return Sliding(tuple(axis for axis in self.axes if not axis.is_single))

    def merged(self) -> Sliding:
        """Joins a last axis without windows to the axis before it. A window of k x 1 over rows of w elements
        is a window of k elements with dilation w. Kernels then read long runs instead of short rows.
        """
        axes = list(self.without_single_axes().axes)
        while len(axes) > 1 and axes[-1].is_copied and axes[-2].stride == 1:
            inner, outer = axes.pop(), axes.pop()
            axes.append(
                SlidingAxis(
                    outer.size * inner.size,
                    outer.count * inner.size,
                    outer.kernel,
                    1,
                    outer.pad * inner.size,
                    outer.dilation * inner.size,
                )
            )
        return Sliding(tuple(axes))


def sliding(window: Windows, sizes: Sequence[Dim], counts: Sequence[Dim]) -> Sliding:
    """The axes of ``window`` over an input of spatial ``sizes``, whose result has ``counts``."""
    pads = window.pads[: window.rank]
    columns = (sizes, counts, window.kernel, window.strides, pads, window.dilations)
    return Sliding(tuple(SlidingAxis(*entries) for entries in zip(*columns, strict=True)))
