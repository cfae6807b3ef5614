"""Resized images: a convolution of single pixels behind a Resize goes over the pixels in front of it."""

from __future__ import annotations

from graphwright.fusion.rules.base import ReplaceRule
from graphwright.passes.sink_resizes import SINK_RESIZES

RESIZE = ReplaceRule(
    "resize",
    "moves 1x1 convolutions before a Resize, and splits them over a Concat",
    SINK_RESIZES,
)
