"""How deep regions lie in regions, and room on Python's stack for passes that follow them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.graph import Graph, Module
from graphwright.support.fork_lock import ForkLock

MAX_DEPTH: Final = 512
"""Levels of regions, and of functions that call each other: a stack of 8 MiB holds what they take."""
_FRAMES: Final = 40
"""Calls of Python for one level, in the pass that makes the most."""

_lock = ForkLock()
_wanted: list[int] = []
"""Limits that are in use; the first is the one before all of them."""


def region_depth(graphs: Iterable[Graph]) -> int:
    """Levels of regions below ``graphs``: 0 without control flow. Takes no stack."""
    depth, level = -1, list(graphs)
    while level:
        depth += 1
        level = [region for graph in level for node in graph for region in node.regions]
    return depth


@contextmanager
def deep_calls(levels: int) -> Iterator[None]:
    """Python's limit of recursion lets ``levels`` of regions pass meanwhile; for all threads, as Python has
    one limit.
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
    """Room for the regions of ``module``. Raises ModelError where they nest deeper than :data:`MAX_DEPTH`."""
    depth = region_depth(module.graphs.values())
    if depth > MAX_DEPTH:
        message = f"its regions nest {depth} deep, {MAX_DEPTH} at most are compiled"
        raise ModelError(Diagnostic("depth", message, hint="make loops of branches that repeat"))
    with deep_calls(depth):
        yield
