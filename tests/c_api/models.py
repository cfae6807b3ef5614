"""Models for tests of the C interface, and their expected results in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphwright as gw

Array = np.ndarray[Any, Any]
FEATURES, CLASSES = 24, 10
WEIGHT = np.random.default_rng(0).standard_normal((FEATURES, CLASSES)).astype(np.float32)


def classifier(rows: int | str = "N") -> gw.GraphBuilder:
    """Softmax of a product: ``scores`` of ``x``, and the class of each row."""
    b = gw.GraphBuilder()
    x = b.input("x", "f32", (rows, FEATURES))
    scores = b.softmax(b.matmul(x, WEIGHT), axis=-1)
    b.output("scores", scores)
    b.output("best", b.arg_max(scores, axis=-1, keepdims=False))
    return b


def classified(x: Array) -> tuple[Array, Array]:
    """The expected results of :func:`classifier`, in f64."""
    logits = x.astype(np.float64) @ WEIGHT.astype(np.float64)
    powers = np.exp(logits - logits.max(-1, keepdims=True, initial=-np.inf))
    scores = powers / powers.sum(-1, keepdims=True)
    return scores, scores.argmax(-1)


def rows(count: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal((count, FEATURES)).astype(np.float32)
