"""The table of makers: by op, what appends a legal node of it to a draft."""

from __future__ import annotations

from collections.abc import Callable

from .draft import Draft

Maker = Callable[[Draft, str], None]
MAKERS: dict[str, Maker] = {}


def makes(*ops: str) -> Callable[[Maker], Maker]:
    """Registers a maker for ``ops``."""

    def enter(maker: Maker) -> Maker:
        MAKERS.update(dict.fromkeys(ops, maker))
        return maker

    return enter


def listed(text: str) -> tuple[str, ...]:
    """The names in a text."""
    return tuple(text.split())


FLOATS = ("float32", "float32", "float32", "float64", "float16")
SIGNED = ("float32", "float32", "int64", "int32", "float64", "int8", "int16")
INDICES = ("int64", "int32")
