"""Numbers of bytes and durations as texts."""

from __future__ import annotations


def bytes_text(count: int) -> str:
    """A number of bytes with a binary unit, such as ``12.3 MiB``."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.2f} GiB"


def duration_text(nanoseconds: float) -> str:
    """A duration with a unit, such as ``1.234 ms``."""
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3f} {unit}"
    return f"{nanoseconds / 1e3:.1f} us"
