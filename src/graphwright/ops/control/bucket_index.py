"""BucketIndex, which selects the shape bucket of a run. An op of graphwright, without ONNX counterpart."""

from __future__ import annotations

from math import prod

import numpy as np

from graphwright.ir.op import Arg, Array, Fact, Inference, InferError, Op, Sample, arg, is_known, op
from graphwright.ir.types import F32, I64, TensorType

OTHERWISE = ("error", "pad", "dynamic")
"""The result for sizes that are in no bucket: an error, the smallest larger bucket, or the number
of buckets.
"""


@op("BucketIndex")
class BucketIndex(Op):
    """The index of the bucket with the sizes in the operand, an i64 vector: ``buckets[y] == sizes``.

    A bucket lists the sizes of all axes of all inputs, in order. For sizes that are in no bucket,
    ``otherwise`` says:

    - ``error``: ValueError.
    - ``pad``: the bucket with the smallest product of sizes to which the inputs can be padded: none of its
      sizes is smaller, and sizes that are the same in all buckets are equal. ValueError if there is none.
    - ``dynamic``: ``len(buckets)``.
    """

    buckets: tuple[tuple[int, ...], ...]
    otherwise: str = "error"

    def verify(self) -> None:
        if self.otherwise not in OTHERWISE:
            raise InferError(f"otherwise {self.otherwise!r} is not one of {', '.join(OTHERWISE)}")
        if not self.buckets or len(set(map(len, self.buckets))) > 1:
            raise InferError("there must be at least one bucket, and all must have the same number of sizes")
        if len(set(self.buckets)) < len(self.buckets):
            raise InferError("a bucket occurs twice")

    def infer(self, at: Inference, sizes: Fact) -> TensorType | Fact:
        if sizes.dtype != I64 or sizes.rank != 1:
            raise at.fail(f"the sizes are {sizes.type}; they must be an i64 vector")
        at.equal(sizes.shape[0], len(self.buckets[0]), "the number of sizes of a bucket")
        scalar = TensorType(I64, ())
        if not is_known(sizes.elements):
            return scalar
        found = self.find(sizes.elements)
        return scalar if found is None else Fact(scalar, (found,), np.array(found, np.int64))

    def reference(self, sizes: Array) -> Array:
        found = self.find(tuple(map(int, sizes)))
        if found is None:
            raise ValueError(f"no bucket has the sizes {sizes.tolist()}")
        return np.array(found, np.int64)

    def find(self, sizes: tuple[int, ...]) -> int | None:
        """The index for ``sizes``; None if they are an error."""
        if sizes in self.buckets:
            return self.buckets.index(sizes)
        if self.otherwise == "pad":
            return self._smallest_larger(sizes)
        return len(self.buckets) if self.otherwise == "dynamic" else None

    def _smallest_larger(self, sizes: tuple[int, ...]) -> int | None:
        varies = [len(set(column)) > 1 for column in zip(*self.buckets, strict=True)]
        larger = [
            index
            for index, bucket in enumerate(self.buckets)
            if all(a == b or (v and a > b) for v, a, b in zip(varies, bucket, sizes, strict=True))
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
    Sample(BucketIndex(_BUCKETS), (arg(F32, 2),), "must be an i64 vector"),
    Sample(BucketIndex(((1, 3), (4,))), (_sizes(4, 3),), "the same number of sizes"),
    Sample(BucketIndex(_BUCKETS, "sideways"), (_sizes(4, 3),), "sideways"),
    Sample(BucketIndex(((4, 3), (4, 3))), (_sizes(4, 3),), "twice"),
)
