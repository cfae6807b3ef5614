"""Replaces elementwise ops that compute bytes from bytes by a table of their results."""

from __future__ import annotations

from graphwright.fusion.rules.base import FUSE, ReplaceRule
from graphwright.passes.byte_tables import BYTE_TABLES

TABLE = ReplaceRule(
    "table",
    "looks up functions of one 8-bit value in a table of 256 results (quantized activations)",
    BYTE_TABLES,
    stage=FUSE,
)
