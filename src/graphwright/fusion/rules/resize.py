"""Resized images: a convolution of single pixels behind a Resize goes over the pixels in front of it."""

from __future__ import annotations

from graphwright.fusion.rules.base import ReplaceRule
from graphwright.passes.sink_resizes import SINK_RESIZES

RESIZE = ReplaceRule(
    "resize",
    "computes convolutions of single pixels in front of a Resize, and of joined images without joining them",
    SINK_RESIZES,
)
