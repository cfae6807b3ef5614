"""Split: a product whose result is split becomes several, of which one kernel can compute two (GLU)."""

from __future__ import annotations

from graphwright.fusion.rules.base import FUSE, ReplaceRule
from graphwright.passes.split_products import SPLIT_PRODUCTS

SPLIT = ReplaceRule(
    "split",
    "splits the weights of a matrix multiplication instead of its result (GLU)",
    SPLIT_PRODUCTS,
    stage=FUSE,
)
