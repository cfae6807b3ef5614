"""Spatial axes of a window op in the fewest that say the same, as kernels over three axes take them."""

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
    """Windows along one axis: ``size`` elements of the input give ``count`` of the result."""

    size: Dim
    count: Dim
    kernel: Dim = 1
    stride: int = 1
    pad: Dim = 0
    """In front of the first element; what follows the last one comes from ``count``."""
    dilation: Dim = 1

    @property
    def is_single(self) -> bool:
        """Whether it has one element, which its one window takes."""
        return (self.size, self.count, self.kernel, self.pad) == (1, 1, 1, 0)

    @property
    def is_copied(self) -> bool:
        """Whether every element is its own window."""
        return self.size == self.count and (self.kernel, self.stride, self.pad) == (1, 1, 0)


@dataclass(frozen=True)
class Sliding:
    """The spatial axes of an op over dense images, outermost first; at most three."""

    axes: tuple[SlidingAxis, ...]

    @cached_property
    def depth_height_width(self) -> tuple[Dim, ...]:
        """Three each of: sizes, counts, kernel sizes, strides, leading pads, dilations."""
        missing = _KERNEL_AXES - len(self.axes)
        axes = (*(SlidingAxis(1, 1),) * missing, *self.axes)
        columns = zip(*((a.size, a.count, a.kernel, a.stride, a.pad, a.dilation) for a in axes), strict=True)
        return tuple(chain.from_iterable(columns))

    @property
    def height_width(self) -> tuple[Dim, ...]:
        """Two each of the same, where there is no depth."""
        assert len(self.axes) < _KERNEL_AXES
        return tuple(entry for k, entry in enumerate(self.depth_height_width) if k % _KERNEL_AXES)

    @property
    def sizes(self) -> tuple[Dim, ...]:
        """Of the input: depth, height, width."""
        return self.depth_height_width[:_KERNEL_AXES]

    @property
    def counts(self) -> tuple[Dim, ...]:
        """Of the result: depth, height, width."""
        return self.depth_height_width[_KERNEL_AXES : 2 * _KERNEL_AXES]

    def without_single_axes(self) -> Sliding:
        """Drops axes of one element, so that a column becomes a row."""
        return Sliding(tuple(axis for axis in self.axes if not axis.is_single))

    def merged(self) -> Sliding:
        """Joins a last axis without windows to the one before it.

        A window of k x 1 over rows of w elements is one of k over all elements, w apart: kernels then read
        long runs where there were short rows.
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
