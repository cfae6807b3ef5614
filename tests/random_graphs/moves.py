"""Steps that move or select elements."""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.symbols import product
from graphwright.ir.types import BOOL
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.flatten import Flatten
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.split import Split
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unsqueeze import Unsqueeze

from .values import MOST_ELEMENTS, Known, Values

END = 2**63 - 1


class Moves(Values):
    """Appends ops that move or select elements to a graph."""

    def transpose(self, x: Value) -> None:
        axes = list(range(len(x.type.dims)))
        self.random.shuffle(axes)
        self.same(self.b(Transpose(tuple(axes)), x), self.known[x])

    def view(self, x: Value) -> None:
        rank = len(x.type.dims)
        ones = [a for a, d in enumerate(x.type.dims) if d == 1]
        match self.random.randrange(3):
            case 0 if rank < 5:
                self.same(self.b(Unsqueeze((self.random.randrange(rank + 1),)), x), self.known[x])
            case 1 if ones:
                self.same(self.b(Squeeze((self.random.choice(ones),)), x), self.known[x])
            case 2 if rank:
                self.same(self.b(Flatten(self.random.randrange(rank + 1)), x), self.known[x])

    def merged(self, x: Value) -> None:
        """Merges two neighboring dims, or splits one."""
        dims = list(x.type.dims)
        at = self.random.randrange(max(len(dims), 1))
        if len(dims) >= 2 and at + 1 < len(dims) and self.random.random() < 0.5:
            dims[at : at + 2] = [dims[at] * dims[at + 1]]
        elif dims and len(dims) < 5:
            size = dims[at]
            factors = [f for f in (2, 3, 4, 8) if isinstance(size, int) and size and size % f == 0]
            if not factors:
                return
            factor = self.random.choice(factors)
            dims[at : at + 1] = (
                [factor, size // factor] if self.random.random() < 0.5 else [size // factor, factor]
            )
        self.same(self.b(Reshape(tuple(dims), allow_zero=True), x), self.known[x])

    def expand(self, x: Value) -> None:
        shape = [self.random.choice((1, 2, 5, self.size)) if d == 1 else d for d in x.type.dims]
        shape = [*self.random.choice(([], [], [2], [self.size, 3])), *shape]
        if self.most(product(shape)) <= MOST_ELEMENTS and len(shape) <= 5:
            self.same(self.b(Expand(tuple(shape)), x), self.known[x])

    def slice(self, x: Value) -> None:
        axis = self.axis(x)
        if axis is None:
            return
        size = self.most(x.type.dims[axis])
        start = self.random.randrange(size)
        step = self.random.choice((1, 1, 2, -1))
        end = self.random.choice((END, size)) if step > 0 else -END
        self.same(self.b(Slice((start,), (end,), (axis,), (step,)), x), self.known[x])

    def split(self, x: Value) -> None:
        axis = self.axis(x)
        if axis is None:
            return
        size = self.most(x.type.dims[axis])
        first = self.random.randrange(1, size)
        for value in self.b(Split(2, axis, (first, size - first)), x):
            self.same(value, self.known[x])

    def concat(self, x: Value) -> None:
        rank = len(x.type.dims)
        if not rank:
            return
        axis = self.random.randrange(rank)

        def fits(v: Value) -> bool:
            return v.type.dtype == x.type.dtype and len(v.type.dims) == rank and all(
                a == b for k, (a, b) in enumerate(zip(v.type.dims, x.type.dims, strict=True)) if k != axis
            )  # fmt: skip

        parts = [v for v in (self.pick(fits) for _ in range(self.random.randrange(1, 4))) if v is not None]
        if sum(map(self.elements, parts)) > MOST_ELEMENTS:
            return
        known = [self.known[v] for v in parts]
        self.same(
            self.b(Concat(axis), *parts),
            Known(max(k.bound for k in known), max(k.error for k in known), all(k.integral for k in known)),
        )

    def pad(self, x: Value) -> None:
        rank = len(x.type.dims)
        if rank and x.type.dtype != BOOL and self.elements(x) * 2**rank <= MOST_ELEMENTS:
            pads = tuple(self.random.choice((0, 0, 1)) for _ in range(2 * rank))
            self.same(self.b(Pad(pads), x, self.b.const(np.zeros((), x.type.dtype.numpy))), self.known[x])

    def gather(self, x: Value) -> None:
        axis = self.axis(x)
        if axis is None:
            return
        size = self.most(x.type.dims[axis])
        count = self.random.randrange(1, 4)
        picked = [self.random.randrange(-size, size) for _ in range(count)]
        indices = self.b.const(np.array(picked, np.int64))
        self.same(self.b(Gather(axis), x, indices), self.known[x])
