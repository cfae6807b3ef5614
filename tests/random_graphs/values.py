"""Values of random modules, and what is known of their elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array
from graphwright.ir.symbols import Dim, product
from graphwright.ir.symbols import evaluate as evaluate_dim
from graphwright.ir.types import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, DType

EPSILON = {F64: 1e-13, F32: 2.0**-22, F16: 2.0**-10, BF16: 2.0**-7}
"""The error that one operation may add, relative to the largest element."""
EXACT = {
    F64: 2.0**40,
    F32: 2.0**24,
    F16: 2048.0,
    BF16: 256.0,
    I64: 2.0**31,
    I32: 2.0**30,
    I8: 127.0,
    U8: 255.0,
    BOOL: 1.0,
}
"""Each dtype represents all integers up to this one."""
DTYPES = (F32, F32, F32, F32, F32, F64, F16, BF16, I64, I32, U8, I8, BOOL)
MOST_ELEMENTS = 20_000
MOST_ERROR = 0.02
LARGEST = {"N": 7, "M": 5}


@dataclass(frozen=True)
class Known:
    """``bound`` of the absolute elements, ``error`` in them, and whether all are integers."""

    bound: float
    error: float = 0.0
    integral: bool = True

    @property
    def exact(self) -> bool:
        return self.error == 0


def filled(dtype: DType, shape: Sequence[int], known: Known, rng: np.random.Generator) -> Array:
    """Random numbers as ``known`` describes them."""
    bound = int(known.bound)
    if not known.integral:
        return np.asarray(rng.uniform(-bound, bound, shape)).astype(dtype.numpy)
    low = 0 if dtype.kind in ("bool", "uint") else -bound
    return np.asarray(rng.integers(low, bound + 1, shape)).astype(dtype.numpy)


class Values:
    """The values of a graph that grows, from which operands are picked."""

    def __init__(self, random: Random, b: Builder, depth: int) -> None:
        self.random, self.b, self.depth = random, b, depth
        self.known: dict[Value, Known] = {}
        self.size: Dim = 3
        """A size to broadcast to: a symbol where the inputs give it."""

    def add(self, value: Value, known: Known) -> Value:
        """Keep a value; its error grows by one rounding unless it is exact."""
        exact = known.exact and known.integral and known.bound <= EXACT[value.type.dtype]
        error = 0.0 if exact else known.error + EPSILON.get(value.type.dtype, 0.0) * max(known.bound, 1e-3)
        if error > MOST_ERROR or known.bound > EXACT[value.type.dtype]:
            self.discard(value)
            return value
        self.known[value] = replace(known, error=error, integral=known.integral and exact)
        return value

    def same(self, value: Value, known: Known) -> None:
        """Keep a value that moves or selects elements: no rounding."""
        self.known[value] = known

    def discard(self, value: Value) -> None:
        """Leave it unused: dead code."""

    def elements(self, value: Value) -> int:
        return self.most(product(value.type.dims))

    def most(self, dim: Dim) -> int:
        return evaluate_dim(dim, LARGEST)

    def pick(self, *fits: Callable[[Value], bool]) -> Value | None:
        """A random value that fits; later ones are more likely."""
        found = [v for v in self.known if all(f(v) for f in fits)]
        if not found:
            return None
        return found[max(self.random.randrange(len(found)), self.random.randrange(len(found)))]

    def constant(self, dtype: DType, shape: Sequence[int], bound: int = 3, integral: bool = True) -> Value:
        """A constant; later steps may pick it too."""
        rng = np.random.default_rng(self.random.randrange(1000))
        known = Known(1 if dtype == BOOL else bound, 0.0, integral or not dtype.is_float)
        value: Value = self.b.const(filled(dtype, shape, known, rng))
        self.known[value] = known
        return value

    def partner(self, x: Value) -> Value:
        """A value of the same dtype that broadcasts with ``x``."""
        if self.random.random() < 0.55:
            other = self.pick(lambda v: v.type.dtype == x.type.dtype and self.broadcasts(v, x))
            if other is not None:
                return other
        dims = [d if isinstance(d, int) and self.random.random() < 0.6 else 1 for d in x.type.dims]
        dims = dims[self.random.randrange(len(dims) + 1) :]
        return self.constant(x.type.dtype, dims, integral=self.random.random() < 0.6)

    def broadcasts(self, a: Value, b: Value) -> bool:
        pairs = zip(reversed(a.type.dims), reversed(b.type.dims), strict=False)
        if not all(x == y or x == 1 or y == 1 for x, y in pairs):
            return False
        rank = max(len(a.type.dims), len(b.type.dims))
        shapes = [(1,) * (rank - len(v.type.dims)) + v.type.dims for v in (a, b)]
        return self.most(product([y if x == 1 else x for x, y in zip(*shapes, strict=True)])) <= MOST_ELEMENTS

    def axis(self, x: Value) -> int | None:
        """An axis whose size is a number above 1."""
        axes = [a for a, d in enumerate(x.type.dims) if isinstance(d, int) and d > 1]
        return self.random.choice(axes) if axes else None
