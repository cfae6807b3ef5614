"""Replaces two matrix products with a Softmax between them by one attention op."""

from __future__ import annotations

from graphwright.fusion.rules.base import ReplaceRule
from graphwright.passes.fuse_attention import FUSE_ATTENTION

ATTENTION = ReplaceRule(
    "attention",
    "computes softmax(Q K) V with scale, mask and head layouts, without storing the scores",
    FUSE_ATTENTION,
)
