"""Texts for messages: numbers of things, lists of names, and suggestions for misspelled names."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable

MOST_NAMES = 20
"""The most names that a hint lists."""


def did_you_mean(unknown: Iterable[str], known: Collection[str]) -> str:
    """The beginning of a hint with the names in ``known`` that are spelled like ``unknown`` ones; or
    empty.
    """
    alike = dict.fromkeys(near for name in unknown for near in close_names(name, known))
    return f"did you mean {' or '.join(map(repr, alike))}? " if alike else ""


def close_names(name: str, known: Collection[str]) -> list[str]:
    """At most three of ``known`` that are spelled like ``name``, ignoring case, the closest first."""
    by_fold = {each.casefold(): each for each in known}
    matches = importlib.import_module("difflib").get_close_matches(str(name).casefold(), by_fold, 3)
    return [by_fold[match] for match in matches]


def counted(number: int, noun: str) -> str:
    """A number with a noun, such as ``1 kernel`` or ``2 kernels``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(names: Collection[str]) -> str:
    """``names`` separated by commas; if there are many, the last ones are only counted."""
    shown = ", ".join(list(names)[:MOST_NAMES]) or "none"
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES} more"
