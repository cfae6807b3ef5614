"""Translates imported nodes whose translation had to wait for the ranks of their operands."""

from __future__ import annotations

from graphwright.ops.core.ranked_import import RankedImport
from graphwright.passes.decompose import Decompose

TRANSLATE = Decompose(lambda node: not isinstance(node.op, RankedImport), name="translate")
"""The pass."""
