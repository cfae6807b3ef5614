"""Replaces the multiplication of an image by a factor per channel: it scales the weights of the next
convolution instead.
"""

from __future__ import annotations

from graphwright.fusion.rules.base import FUSE, ReplaceRule
from graphwright.passes.scale_weights import SCALE_WEIGHTS

SCALE = ReplaceRule(
    "scale",
    "scales the weights of a 1x1 convolution instead of its input (squeeze-and-excitation)",
    SCALE_WEIGHTS,
    stage=FUSE,
)
