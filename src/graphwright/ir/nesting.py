"""Nesting depth of regions, and the Python recursion limit for passes that recurse into them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.graph import Graph, Module
from graphwright.support.fork_lock import ForkLock

MAX_DEPTH: Final = 512
"""The deepest nesting of regions and function calls; it fits in a stack of 8 MiB."""
_FRAMES: Final = 40
"""Python calls per level, in the pass with the deepest recursion."""

_lock = ForkLock()
_wanted: list[int] = []
"""Recursion limits in use; the first is the original one."""


def region_depth(graphs: Iterable[Graph]) -> int:
    """Levels of regions below ``graphs``: 0 without control flow. Not recursive."""
    depth, level = -1, list(graphs)
    while level:
        depth += 1
        level = [region for graph in level for node in graph for region in node.regions]
    return depth


@contextmanager
def deep_calls(levels: int) -> Iterator[None]:
    """Raises the recursion limit of Python for ``levels`` of regions. It applies to all threads, as Python
    has one limit.
    """
    limit = 1000 + _FRAMES * levels
    with _lock:
        if not _wanted:
            _wanted.append(sys.getrecursionlimit())
        _wanted.append(limit)
        sys.setrecursionlimit(max(_wanted))
    try:
        yield
    finally:
        with _lock:
            _wanted.remove(limit)
            sys.setrecursionlimit(max(_wanted))
            if len(_wanted) == 1:
                _wanted.clear()


@contextmanager
def regions_of(module: Module) -> Iterator[None]:
    """Raises the recursion limit for the regions of ``module``. Raises ModelError if they nest deeper than
    :data:`MAX_DEPTH`.
    """
    depth = region_depth(module.graphs.values())
    if depth > MAX_DEPTH:
        message = f"regions nest {depth} levels deep, but at most {MAX_DEPTH} are supported"
        raise ModelError(Diagnostic("depth", message, hint="replace repeated branches by a loop"))
    with deep_calls(depth):
        yield
