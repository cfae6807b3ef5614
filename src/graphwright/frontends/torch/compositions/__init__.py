"""Compositions: decompositions of PyTorch operators that PyTorch does not have, or not in a suitable form.

A composition is a function on PyTorch tensors. It is used if no import function supports a call. If it raises
NotImplementedError, the operator runs in PyTorch; the message of the error, if it has one, is the reason.
"""

from graphwright.frontends.torch.compositions import (
    attention,
    distances,
    embedding_bag,
    factorizations,
    flex_attention,
    frequencies,
    kaiser_window,
    linear_algebra,
    memory,
    order_statistics,
    padding,
    pooling,
    products,
    quantization,
    scans,
    scattering,
    search,
    selections,
    transformers,
    weight_norm,
    windows,
)
from graphwright.frontends.torch.compositions.registry import COMPOSITIONS, composed

__all__ = [
    "COMPOSITIONS",
    "attention",
    "composed",
    "distances",
    "embedding_bag",
    "factorizations",
    "flex_attention",
    "frequencies",
    "kaiser_window",
    "linear_algebra",
    "memory",
    "order_statistics",
    "padding",
    "pooling",
    "products",
    "quantization",
    "scans",
    "scattering",
    "search",
    "selections",
    "transformers",
    "weight_norm",
    "windows",
]
