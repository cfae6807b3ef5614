"""BucketIndex."""

from __future__ import annotations

from math import prod

import numpy as np

from graphwright.ir.op import Arg, Array, Fact, Inference, InferError, Op, Sample, arg, is_known, op
from graphwright.ir.types import F32, I64, TensorType

OTHERWISE = ("error", "pad", "dynamic")
"""What becomes of sizes that no bucket has: a fault, the next larger bucket, or the number behind the
last.
"""


@op("BucketIndex")
class BucketIndex(Op):
    """The number of the bucket whose sizes are those of the operand: ``buckets[y] == sizes``.

    ``buckets`` are rows of sizes, all dims of all inputs in their order. Sizes that no row holds are a
    ValueError (``otherwise="error"``), the row of the least product of which none is smaller, and none
    differs of which all rows have the same ("pad"; a ValueError if there is none), or ``len(buckets)``
    ("dynamic").
    """

    buckets: tuple[tuple[int, ...], ...]
    otherwise: str = "error"

    def verify(self) -> None:
        if self.otherwise not in OTHERWISE:
            raise InferError(f"otherwise {self.otherwise!r} is not one of {', '.join(OTHERWISE)}")
        if not self.buckets or len(set(map(len, self.buckets))) > 1:
            raise InferError("the buckets must be at least one list of sizes, all of one length")
        if len(set(self.buckets)) < len(self.buckets):
            raise InferError("a bucket is listed twice")

    def infer(self, at: Inference, sizes: Fact) -> TensorType | Fact:
        if sizes.dtype != I64 or sizes.rank != 1:
            raise at.fail(f"its sizes are {sizes.type}, not a vector of i64")
        at.equal(sizes.shape[0], len(self.buckets[0]), "the sizes of its buckets")
        scalar = TensorType(I64, ())
        if not is_known(sizes.elements) or sizes.elements is None:
            return scalar
        found = self.find(tuple(size for size in sizes.elements if isinstance(size, int)))
        return scalar if found is None else Fact(scalar, (found,), np.array(found, np.int64))

    def reference(self, sizes: Array) -> Array:
        found = self.find(tuple(map(int, sizes)))
        if found is None:
            raise ValueError(f"no bucket has the sizes {sizes.tolist()}")
        return np.array(found, np.int64)

    def find(self, sizes: tuple[int, ...]) -> int | None:
        """The index for ``sizes``; None where they are a fault."""
        if sizes in self.buckets:
            return self.buckets.index(sizes)
        if self.otherwise == "pad":
            return self._next(sizes)
        return len(self.buckets) if self.otherwise == "dynamic" else None

    def _next(self, sizes: tuple[int, ...]) -> int | None:
        varied = [len(set(column)) > 1 for column in zip(*self.buckets, strict=True)]
        larger = [
            number
            for number, bucket in enumerate(self.buckets)
            if all(a == b or (v and a > b) for v, a, b in zip(varied, bucket, sizes, strict=True))
        ]
        return min(larger, key=lambda k: prod(self.buckets[k]), default=None)


_BUCKETS = ((1, 3), (4, 3), (4, 8))


def _sizes(*values: int) -> Arg:
    return arg(I64, len(values), values=values)


BucketIndex.samples = (
    Sample(BucketIndex(_BUCKETS), (_sizes(4, 3),)),
    Sample(BucketIndex(_BUCKETS, "pad"), (_sizes(2, 4),)),
    Sample(BucketIndex(_BUCKETS, "dynamic"), (_sizes(2, 4),)),
    Sample(BucketIndex(_BUCKETS), (_sizes(4, 3, 1),), "differ"),
    Sample(BucketIndex(_BUCKETS), (arg(F32, 2),), "vector of i64"),
    Sample(BucketIndex(((1, 3), (4,))), (_sizes(4, 3),), "of one length"),
    Sample(BucketIndex(_BUCKETS, "sideways"), (_sizes(4, 3),), "sideways"),
    Sample(BucketIndex(((4, 3), (4, 3))), (_sizes(4, 3),), "twice"),
)
