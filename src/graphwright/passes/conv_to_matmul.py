"""Computes a convolution over a single window as a matrix multiplication: y[N, M] = x[N, C * K...] @ w^T.

Two examples are the 1x1 convolutions of squeeze-and-excitation, on images of one pixel, and classifiers whose
window is the whole image.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, Opt, P, Rule, Var
from graphwright.ops.core.binary import Add
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.nn.conv import Conv
from graphwright.passes.rule_pass import RulePass

X, BIAS = Var("x"), Opt("bias")
W: Final = Const("w", where=lambda array: array.ndim > 2 and array.size > 0)
CONV: Final = P(Conv, X, W, BIAS, where=lambda op: op.is_plain)


def _has_more_windows(m: Match) -> str | None:
    window, image = m[W].type.sizes[2:], m[X].type.shape
    if image is None or image[2:] != window:
        return f"the {_text(window)} window does not have the size of the image {m[X].type}"
    steps = m.op(CONV).dilations or (1,) * len(window)
    is_dilated = any(size > 1 and step > 1 for size, step in zip(window, steps, strict=True))
    return "the window has the size of the image, but is dilated" if is_dilated else None


def _text(window: tuple[int, ...]) -> str:
    return "x".join(map(str, window))


def _product(b: Builder, m: Match) -> Value:
    weights, bias, images = m.array(W), m.optional(BIAS), m[X].type.dims[0]
    features = len(weights)
    matrix = np.ascontiguousarray(weights.reshape(features, -1).T)
    rows = reshaped(b, m[X], (images, len(matrix)))
    product = b(MatMul(), rows, b.const(matrix))
    if bias is not None:
        product = b(Add(), product, bias)
    return reshaped(b, product, (images, features, *(1 for _ in weights.shape[2:])))


CONV_TO_MATMUL = RulePass(
    "conv_to_matmul", (Rule("convolution over a single window", CONV, _has_more_windows, _product),)
)
"""The pass."""
