"""An op with an expression: Snake, x + sin(alpha x)^2 / alpha (Ziyin, Hartwig and Ueda, 2020)."""

import numpy as np

import graphwright.plugins as gp


@gp.op("Snake")
class Snake(gp.Pointwise):
    """Pointwise infers the type. The expression is compiled to C and fused with the ops around it."""

    alpha: float = 1.0

    def reference(self, x: gp.Array) -> gp.Array:
        return np.asarray(x + np.sin(self.alpha * x) ** 2 / self.alpha, x.dtype)

    def expression(self, x: gp.Scalar) -> gp.Scalar:
        sine = gp.apply("sin", x * self.alpha)
        return x + sine * sine / self.alpha

    onnx = gp.FromNode("Snake", 1, "example")


Snake.samples = (
    gp.Sample(Snake(), (gp.arg(gp.F32, gp.symbol("N"), gp.symbol("M")),)),
    gp.Sample(Snake(0.5), (gp.arg(gp.F16, 3, 7),)),
)
