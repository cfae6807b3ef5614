"""Runs chains of convolutions band by band, so that the intermediate images stay in the cache."""

from __future__ import annotations

from graphwright.fusion.rules.base import KernelRule

BANDS = KernelRule("bands", "runs chains of convolutions on bands of rows when their images exceed the cache")
