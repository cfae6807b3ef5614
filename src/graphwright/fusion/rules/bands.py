"""Bands: what lies between the convolutions of a chain stays in the cache."""

from __future__ import annotations

from graphwright.fusion.rules.base import KernelRule

BANDS = KernelRule("bands", "runs chains of convolutions on bands of rows when their images exceed the cache")
