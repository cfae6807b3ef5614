"""Attention with a user function on the scores. All scores are computed, including masked ones."""

from __future__ import annotations

from torch._higher_order_ops.flex_attention import flex_attention, math_attention

from graphwright.frontends.torch.compositions.registry import composition

composition(flex_attention)(math_attention)
