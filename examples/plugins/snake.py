"""An op with an expression: Snake, x + sin(alpha x)^2 / alpha (Ziyin, Hartwig and Ueda, 2020)."""

import numpy as np

from graphwright.plugins import Array, Pointwise, Scalar, apply, op


@op("Snake")
class Snake(Pointwise):
    """Pointwise infers the type. The expression becomes C, in one kernel with the ops around it."""

    alpha: float = 1.0

    def reference(self, x: Array) -> Array:
        return np.asarray(x + np.sin(self.alpha * x) ** 2 / self.alpha, x.dtype)

    def expression(self, x: Scalar) -> Scalar:
        sine = apply("sin", x * self.alpha)
        return x + sine * sine / self.alpha

    onnx = {("Snake", 1, "example"): lambda i: i.emit(Snake(i.attr("alpha", 1.0)), i.input(0))}
