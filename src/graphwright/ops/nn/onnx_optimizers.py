"""Import of the optimizers of the ONNX domain ai.onnx.preview.training, as elementwise ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer, Op
from graphwright.ir.types import BOOL
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.div import Div
from graphwright.ops.core.pow import Pow
from graphwright.ops.core.unary import Sqrt
from graphwright.ops.core.where import Where

DOMAIN = "ai.onnx.preview.training"
UpdateRule = Callable[["_OptimizerStep", Value, Value, Sequence[Value]], Sequence[Value]]
"""Computes the new values of a tensor and of its optimizer state from the tensor, its gradient and
the state.
"""


class _OptimizerStep:
    """A source node: its learning rate R and update count T, and helpers that emit ops in the dtype of a
    tensor.
    """

    def __init__(self, i: Importer) -> None:
        self.i, self.rate, self.count = i, i.input(0), i.input(1)

    def number(self, value: float, like: Value) -> Value:
        return self.i.const(np.asarray(value, like.type.dtype.numpy))

    def attr(self, name: str, default: float, like: Value) -> Value:
        return self.number(float(self.i.attr(name, default)), like)

    def of(self, op: Op, *operands: Value) -> Value:
        result: Value = self.i.emit(op, *operands)
        return result

    def as_type_of(self, x: Value, like: Value) -> Value:
        return x if x.type.dtype == like.type.dtype else self.of(Cast(like.type.dtype), x)

    def regularized(self, x: Value, gradient: Value) -> Value:
        """The gradient, plus that of the regularization ``norm_coefficient / 2 * sum(x ** 2)``."""
        return self.of(Add(), self.of(Mul(), self.attr("norm_coefficient", 0.0, x), x), gradient)

    def later(self, value: Value, first: Value) -> Value:
        """``value`` if this is not the first update, else ``first``."""
        return self.of(Where(), self.of(Cast(BOOL), self.count), value, first)


def _adagrad(s: _OptimizerStep, x: Value, gradient: Value, kept: Sequence[Value]) -> Sequence[Value]:
    """Adagrad (Duchi, Hazan and Singer 2011)."""
    (squares,) = kept
    decay = s.of(Mul(), s.as_type_of(s.count, x), s.attr("decay_factor", 0.0, x))
    rate = s.of(Div(), s.as_type_of(s.rate, x), s.of(Add(), s.number(1, x), decay))
    gradient = s.regularized(x, gradient)
    squares = s.of(Add(), squares, s.of(Mul(), gradient, gradient))
    divisor = s.of(Add(), s.of(Sqrt(), squares), s.attr("epsilon", 1e-6, x))
    return s.of(Sub(), x, s.of(Div(), s.of(Mul(), rate, gradient), divisor)), squares


def _adam(s: _OptimizerStep, x: Value, gradient: Value, kept: Sequence[Value]) -> Sequence[Value]:
    """Adam (Kingma and Ba 2015)."""
    alpha, beta, one = s.attr("alpha", 0.9, x), s.attr("beta", 0.999, x), s.number(1, x)
    gradient = s.regularized(x, gradient)
    mean, squares = (
        s.of(Add(), s.of(Mul(), factor, old), s.of(Mul(), s.of(Sub(), one, factor), new))
        for factor, old, new in (
            (alpha, kept[0], gradient),
            (beta, kept[1], s.of(Mul(), gradient, gradient)),
        )
    )
    divisor = s.of(Add(), s.of(Sqrt(), squares), s.attr("epsilon", 1e-6, x))
    count, rate = s.as_type_of(s.count, x), s.as_type_of(s.rate, x)
    mean_bias, square_bias = (s.of(Sub(), one, s.of(Pow(), factor, count)) for factor in (alpha, beta))
    corrected = s.of(Div(), s.of(Mul(), rate, s.of(Sqrt(), square_bias)), mean_bias)
    updated = s.of(Sub(), x, s.of(Div(), s.of(Mul(), s.later(corrected, rate), mean), divisor))
    decay = s.of(Sub(), one, s.attr("norm_coefficient_post", 0.0, x))
    return s.of(Mul(), decay, updated), mean, squares


def _momentum(s: _OptimizerStep, x: Value, gradient: Value, kept: Sequence[Value]) -> Sequence[Value]:
    """Gradient descent with momentum (Polyak 1964), or with Nesterov's (1983)."""
    mode = str(s.i.required_attr("mode"))
    if mode not in ("standard", "nesterov"):
        raise s.i.fail(f"mode {mode!r} is neither standard nor nesterov")
    alpha = s.attr("alpha", 0.0, x)
    gradient = s.regularized(x, gradient)
    beta = s.later(s.attr("beta", 1.0, x), s.number(1, x))
    velocity = s.of(Add(), s.of(Mul(), alpha, kept[0]), s.of(Mul(), beta, gradient))
    direction = velocity
    if mode == "nesterov":
        direction = s.of(Add(), gradient, s.of(Mul(), alpha, velocity))
    return s.of(Sub(), x, s.of(Mul(), s.as_type_of(s.rate, x), direction)), velocity


def _import_optimizer(rule: UpdateRule, states: int) -> Callable[[Importer], Any]:
    """Imports an optimizer with ``states`` state tensors for each optimized tensor. The operands after R and
    T are all tensors, all gradients, and a list of tensors for each state; the results are the same without
    the gradients.
    """

    def convert(i: Importer) -> Any:
        operands = [i.input(k) for k in range(2, len(i.inputs()))]
        count, rest = divmod(len(operands), 2 + states)
        if rest or not count:
            raise i.fail(
                f"it has {len(operands)} tensors; each optimized tensor needs a gradient and {states} states"
            )
        lists = [operands[k * count : (k + 1) * count] for k in range(2 + states)]
        updated = [
            rule(_OptimizerStep(i), x, gradient, state) for x, gradient, *state in zip(*lists, strict=True)
        ]
        return tuple(values[k] for k in range(1 + states) for values in updated)

    return convert


Sub.onnx = {
    **Sub.onnx,
    ("Adagrad", 1, DOMAIN): _import_optimizer(_adagrad, 1),
    ("Adam", 1, DOMAIN): _import_optimizer(_adam, 2),
    ("Momentum", 1, DOMAIN): _import_optimizer(_momentum, 1),
}
