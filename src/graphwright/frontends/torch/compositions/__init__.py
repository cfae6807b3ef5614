"""Operators that are compositions of others, where PyTorch has no decomposition, or none that serves.

Each is written in PyTorch, as its own decompositions are, and is used where no op of graphwright takes the
call; NotImplementedError leaves that with PyTorch.
"""

from graphwright.frontends.torch.compositions import (
    distances,
    embedding_bag,
    flex_attention,
    memory,
    order,
    products,
    scans,
    scattering,
    search,
    transformers,
    windows,
)
from graphwright.frontends.torch.compositions.registry import COMPOSITIONS

__all__ = [
    "COMPOSITIONS",
    "distances",
    "embedding_bag",
    "flex_attention",
    "memory",
    "order",
    "products",
    "scans",
    "scattering",
    "search",
    "transformers",
    "windows",
]
