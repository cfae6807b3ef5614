"""Translates nodes that the import put off, once the ranks of their operands are known."""

from __future__ import annotations

from graphwright.ops.core.ranked_import import RankedImport
from graphwright.passes.decompose import Decompose

TRANSLATE = Decompose(lambda node: not isinstance(node.op, RankedImport), name="translate")
"""The pass."""
