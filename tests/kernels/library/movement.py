"""What the tests of kernels that move elements share: dtypes of every size, and random contents."""

from __future__ import annotations

from functools import partial

import numpy as np
from hypothesis import settings

from tests.kernels.library.cases import AnyArray

DTYPES = (np.uint8, np.int16, np.float32, np.int64, np.complex128)
few = partial(settings, deadline=None, max_examples=40)


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> AnyArray:
    return rng.integers(0, 255, shape).astype(dtype)
