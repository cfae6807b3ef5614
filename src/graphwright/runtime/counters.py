"""Counters of the processor, which recordings have where the machine allows it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from graphwright import _native

COUNTERS: Final = ("cycles", "instructions", "l1d_misses", "llc_misses", "page_faults")
"""By the numbers that ``native/counters.h`` has for them."""
HARDWARE: Final = COUNTERS[:4]
"""Those of the processor: virtual machines and containers often have none."""


def available(names: Iterable[str]) -> tuple[str, ...]:
    """Those of ``names`` that this machine has. Raises ValueError for a name that is no counter."""
    return tuple(name for name in names if _native.can_count(number_of(name)))


def number_of(name: str) -> int:
    """The number that native code knows a counter by. Raises ValueError."""
    if name not in COUNTERS:
        raise ValueError(f"counter {name!r} is none of {', '.join(COUNTERS)}")
    return COUNTERS.index(name)


def numbers_of(names: Sequence[str]) -> list[int]:
    """Those of several."""
    return list(map(number_of, names))
