"""MapIndex."""

from __future__ import annotations

from math import prod

import numpy as np

from graphwright.ir.op import Arg, Array, Fact, Inference, InferError, Op, Sample, arg, is_known, op
from graphwright.ir.types import F32, I64, TensorType

BETWEEN = ("error", "pad", "dynamic")
"""What becomes of sizes that are no gear's: a fault, the next gear, or the number behind the last."""


@op("MapIndex")
class MapIndex(Op):
    """The number of the gear whose sizes are those of the operand: ``gears[y] == sizes``.

    ``gears`` are rows of sizes, all dims of all inputs in their order. Sizes that no row holds are a
    ValueError (``between="error"``), the row of the least product of which none is smaller, and none differs
    of which all rows have the same ("pad"; a ValueError if there is none), or ``len(gears)`` ("dynamic").
    """

    gears: tuple[tuple[int, ...], ...]
    between: str = "error"

    def verify(self) -> None:
        if self.between not in BETWEEN:
            raise InferError(f"between {self.between!r} is not one of {', '.join(BETWEEN)}")
        if not self.gears or len(set(map(len, self.gears))) > 1:
            raise InferError("the gears must be at least one list of sizes, all of one length")
        if len(set(self.gears)) < len(self.gears):
            raise InferError("a gear is listed twice")

    def infer(self, at: Inference, sizes: Fact) -> TensorType | Fact:
        if sizes.dtype != I64 or sizes.rank != 1:
            raise at.fail(f"its sizes are {sizes.type}, not a vector of i64")
        at.equal(sizes.shape[0], len(self.gears[0]), "the sizes of its gears")
        scalar = TensorType(I64, ())
        if not is_known(sizes.elements) or sizes.elements is None:
            return scalar
        found = self.find(tuple(size for size in sizes.elements if isinstance(size, int)))
        return scalar if found is None else Fact(scalar, (found,), np.array(found, np.int64))

    def reference(self, sizes: Array) -> Array:
        found = self.find(tuple(map(int, sizes)))
        if found is None:
            raise ValueError(f"no gear has the sizes {sizes.tolist()}")
        return np.array(found, np.int64)

    def find(self, sizes: tuple[int, ...]) -> int | None:
        """The index for ``sizes``; None where they are a fault."""
        if sizes in self.gears:
            return self.gears.index(sizes)
        if self.between == "pad":
            return self._next(sizes)
        return len(self.gears) if self.between == "dynamic" else None

    def _next(self, sizes: tuple[int, ...]) -> int | None:
        varied = [len(set(column)) > 1 for column in zip(*self.gears, strict=True)]
        larger = [
            number
            for number, gear in enumerate(self.gears)
            if all(a == b or (v and a > b) for v, a, b in zip(varied, gear, sizes, strict=True))
        ]
        return min(larger, key=lambda k: prod(self.gears[k]), default=None)


_GEARS = ((1, 3), (4, 3), (4, 8))


def _sizes(*values: int) -> Arg:
    return arg(I64, len(values), values=values)


MapIndex.samples = (
    Sample(MapIndex(_GEARS), (_sizes(4, 3),)),
    Sample(MapIndex(_GEARS, "pad"), (_sizes(2, 4),)),
    Sample(MapIndex(_GEARS, "dynamic"), (_sizes(2, 4),)),
    Sample(MapIndex(_GEARS), (_sizes(4, 3, 1),), "differ"),
    Sample(MapIndex(_GEARS), (arg(F32, 2),), "vector of i64"),
    Sample(MapIndex(((1, 3), (4,))), (_sizes(4, 3),), "rows"),
    Sample(MapIndex(_GEARS, "sideways"), (_sizes(4, 3),), "sideways"),
    Sample(MapIndex(((4, 3), (4, 3))), (_sizes(4, 3),), "twice"),
)
