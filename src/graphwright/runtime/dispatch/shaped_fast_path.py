"""Fast paths that depend on the input shapes of a run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from graphwright.ir.arrays import Array
from graphwright.runtime.executor import FastPath, Shapes


class ShapedFastPath(FastPath):
    """Forwards each run to the fast path for the shapes of its arrays, which are in the order of the inputs
    ``names``. It forwards to ``otherwise`` if an argument is not an array.
    """

    def __init__(self, names: Sequence[str], otherwise: FastPath) -> None:
        self._names, self._otherwise = names, otherwise

    @abstractmethod
    def path(self, shapes: Shapes) -> FastPath:
        """The fast path for arrays of ``shapes``."""

    def __call__(self, *arrays: Any) -> tuple[Array, ...] | None:
        """As :meth:`FastPath.__call__`."""
        try:
            path = self.path(tuple([array.shape for array in arrays]))
        except (AttributeError, TypeError):  # not an array
            path = self._otherwise
        return path(*arrays)

    def named(self, feeds: Any, names: object, out: object = None, /) -> dict[str, Array] | None:
        """As :meth:`FastPath.named`."""
        return self._of_feeds(feeds).named(feeds, names, out)

    def listed(self, feeds: Any, names: object, /) -> list[Array] | None:
        """As :meth:`FastPath.listed`."""
        return self._of_feeds(feeds).listed(feeds, names)

    def _of_feeds(self, feeds: Any) -> FastPath:
        try:
            return self.path(tuple([feeds[name].shape for name in self._names]))
        except (AttributeError, KeyError, TypeError):  # not a dict of arrays
            return self._otherwise
