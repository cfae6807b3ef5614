"""Words of messages: numbers of things, names that nothing has, and those that were meant."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable

MOST_NAMES = 20
"""Names that a hint lists."""


def did_you_mean(unknown: Iterable[str], known: Collection[str]) -> str:
    """The names among ``known`` that are spelt like ``unknown`` ones, as the beginning of a hint."""
    alike = dict.fromkeys(near for name in unknown for near in close_names(name, known))
    return f"did you mean {' or '.join(map(repr, alike))}? " if alike else ""


def close_names(name: str, known: Collection[str]) -> list[str]:
    """At most three of ``known`` that are spelt like ``name``, the closest first, whatever their case."""
    by_fold = {each.casefold(): each for each in known}
    matches = importlib.import_module("difflib").get_close_matches(str(name).casefold(), by_fold, 3)
    return [by_fold[match] for match in matches]


def counted(number: int, noun: str) -> str:
    """``1 kernel``, ``2 kernels``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(names: Collection[str]) -> str:
    """``names`` with commas between them, the last ones only counted where they are many."""
    shown = ", ".join(list(names)[:MOST_NAMES]) or "none"
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES} more"
