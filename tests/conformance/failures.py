"""Cases that fail, each with its reason. A case that passes has to leave the list."""

from __future__ import annotations

FAILURES: dict[str, str] = {}
"""By name."""
