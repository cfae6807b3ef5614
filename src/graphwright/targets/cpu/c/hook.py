"""What an epilogue's caller passes as arguments of the C function, not in ``arg``."""

from __future__ import annotations

HOOK_SIZES = ("batch", "row0", "rows", "col0", "cols", "ld")
