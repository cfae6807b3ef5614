"""An op that is its NumPy reference: the median along an axis. It runs in Python, and is counted and shown."""

import numpy as np

from graphwright.plugins import Array, Fact, Inference, Op, TensorType, op


@op("Median")
class Median(Op):
    axis: int = -1

    def infer(self, at: Inference, x: Fact) -> TensorType:
        axis = at.axis(self.axis, x.rank)
        return TensorType(x.dtype, (*x.shape[:axis], *x.shape[axis + 1 :]))

    def reference(self, x: Array) -> Array:
        return np.asarray(np.median(x, axis=self.axis), x.dtype)

    onnx = {("Median", 1, "example"): lambda i: i.emit(Median(i.attr("axis", -1)), i.input(0))}
