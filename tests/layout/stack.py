"""Random models of images: the base class of those that the tests of layout passes build."""

from __future__ import annotations

from random import Random

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ops.core.binary import Add
from graphwright.ops.core.unary import Relu
from graphwright.ops.nn.conv import Conv


class ImageStack:
    """An image on which random ops are stacked."""

    def __init__(self, b: Builder, random: Random, image: Value) -> None:
        self.b, self.random, self.image = b, random, image
        self.dtype = image.type.dtype
        self.seed = np.random.default_rng(random.randrange(1000))

    @property
    def channels(self) -> int:
        channels = self.image.type.dims[1]
        assert isinstance(channels, int)
        return channels

    def weights(self, *shape: int) -> Value:
        weights = self.seed.normal(size=shape) / np.prod(shape[1:]) ** 0.5
        return self.b.const(weights.astype(self.dtype.numpy))

    def grouped(self) -> Value:
        doubled = self.b(Conv(), self.image, self.weights(32, self.channels, 1, 1))
        return self.b(Conv(group=2, pads=(1, 1, 1, 1)), doubled, self.weights(64, 16, 3, 3))

    def residual(self) -> Value:
        straight = self.b(Conv(pads=(1,) * 4), self.image, self.weights(self.channels, self.channels, 3, 3))
        return self.b(Relu(), self.b(Add(), straight, self.image))
