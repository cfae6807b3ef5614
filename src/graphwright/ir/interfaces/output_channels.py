"""Interface of contractions whose output channels can be scaled and shifted by changing weights and bias."""

from __future__ import annotations

from typing import Self

from graphwright.ir.op import Array


class OutputChannels:
    """Interface of contractions of x, weights and an optional bias, with the output channels as axis 1 of the
    result.
    """

    __slots__ = ()

    def weights_by_channel(self, weights: Array) -> Array:
        """``weights`` as a matrix with a row for each output channel."""
        raise NotImplementedError(f"{type(self).__name__} must define weights_by_channel")

    def along_channels(self, scale: Array, weights: tuple[int, ...]) -> Array:
        """``scale``, an element per output channel, in a shape that broadcasts to that of ``weights``."""
        raise NotImplementedError(f"{type(self).__name__} must define along_channels")

    def with_whole_bias(self) -> tuple[Self, float]:
        """The same op without a factor of the bias, and the factor that this op multiplies its bias by."""
        return self, 1.0
