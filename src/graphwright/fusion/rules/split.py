"""Replaces a matrix product whose result is split by one product per part; one kernel can compute two of
these (GLU).
"""

from __future__ import annotations

from graphwright.fusion.rules.base import FUSE, ReplaceRule
from graphwright.passes.split_products import SPLIT_PRODUCTS

SPLIT = ReplaceRule(
    "split",
    "splits the weights of a matrix multiplication instead of its result (GLU)",
    SPLIT_PRODUCTS,
    stage=FUSE,
)
