"""Attention whose scores a function of the user's changes: all scores are computed, masked ones as well."""

from __future__ import annotations

from torch._higher_order_ops.flex_attention import flex_attention, math_attention

from graphwright.frontends.torch.compositions.registry import composition

composition(flex_attention)(math_attention)
