"""An op that is its NumPy reference: the median along an axis. It runs in Python, counted and shown."""

import numpy as np

import graphwright.plugins as gp


@gp.op("Median")
class Median(gp.Op):
    axis: int = -1

    def infer(self, at: gp.Inference, x: gp.Fact) -> gp.TensorType:
        axis = at.axis(self.axis, x.rank)
        return gp.TensorType(x.dtype, (*x.shape[:axis], *x.shape[axis + 1 :]))

    def reference(self, x: gp.Array) -> gp.Array:
        return np.asarray(np.median(x, axis=self.axis), x.dtype)

    onnx = gp.FromNode("Median", 1, "example")
