"""Moves a 1x1 convolution after a Resize to before it, where there are fewer pixels."""

from __future__ import annotations

from graphwright.fusion.rules.base import ReplaceRule
from graphwright.passes.sink_resizes import SINK_RESIZES

RESIZE = ReplaceRule(
    "resize",
    "moves 1x1 convolutions before a Resize, and splits them over a Concat",
    SINK_RESIZES,
)
