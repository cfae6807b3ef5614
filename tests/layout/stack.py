"""Random models of images: the base class of those that the tests of layout passes build."""

from __future__ import annotations

from random import Random

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value


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
