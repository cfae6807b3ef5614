"""Hardware performance counters, which recordings contain if the machine allows access to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from graphwright import _native

COUNTERS: Final = ("cycles", "instructions", "l1d_misses", "llc_misses", "page_faults")
"""The names of the counters, in the order of their numbers in ``runtime/native/counters.h``."""
HARDWARE: Final = COUNTERS[:4]
"""Counters of the CPU, which are often unavailable in virtual machines and containers."""


def available(names: Iterable[str]) -> tuple[str, ...]:
    """The counters of ``names`` that are available here. Raises ValueError for names that are not
    counters.
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ValueError(f"counters must be a list of names, not {names!r:.100}")
    return tuple(name for name in names if _native.can_count(number_of(name)))


def number_of(name: str) -> int:
    """The number of a counter in native code. Raises ValueError for other names."""
    if name not in COUNTERS:
        raise ValueError(f"there is no counter {name!r}: the counters are {', '.join(COUNTERS)}")
    return COUNTERS.index(name)


def numbers_of(names: Sequence[str]) -> list[int]:
    """The numbers of several counters. Raises ValueError."""
    return list(map(number_of, names))
