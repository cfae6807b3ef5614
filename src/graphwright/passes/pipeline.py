"""The ordered list of stages."""

from __future__ import annotations

from graphwright.passes.cse import CommonSubexpressions
from graphwright.passes.dead_code import DeadCode
from graphwright.passes.fold_constants import FoldConstants
from graphwright.passes.infer_shapes import InferShapes
from graphwright.passes.manager import Fixpoint, Stage

SHAPES = Fixpoint("infer and fold", (InferShapes(), FoldConstants()))

GRAPH_PASSES: tuple[Stage, ...] = (
    SHAPES,
    CommonSubexpressions(),
    DeadCode(),
)
"""From what a frontend imports to the graph that layouts and fusion start from."""
