"""Makes names unique by appending numbers."""

from __future__ import annotations


class UniqueNames:
    """Makes names unique by adding ``_1``, ``_2``, ... to names that were used before."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def take(self, name: str) -> str:
        """``name``, or ``name_N`` if it was used before."""
        if name not in self._counts:
            self._counts[name] = 0
            return name
        while True:
            self._counts[name] += 1
            candidate = f"{name}_{self._counts[name]}"
            if candidate not in self._counts:
                self._counts[candidate] = 0
                return candidate
