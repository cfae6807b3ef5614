"""An op that runs on its NumPy reference, in Python: the median along an axis."""

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


Median.samples = (
    gp.Sample(Median(0), (gp.arg(gp.F32, 5, gp.symbol("N")),)),
    gp.Sample(Median(2), (gp.arg(gp.F32, 5, 3),), error="axis 2 is out of range for rank 2"),
)
