"""Finds the pass that changes the results of a model, by bisection over the copies after each pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Module, Value
from graphwright.ir.op import Array
from graphwright.records import dataclass
from graphwright.tools.check import Distance, distance
from graphwright.tools.debugging.history import Snapshot
from graphwright.tools.debugging.program_values import is_number
from graphwright.tools.measuring.engines import first_line


@dataclass(frozen=True)
class WrongPass:
    """The first pass after which the module exceeds the tolerance. ``number`` counts passes from 0. ``error``
    is the reason why the module cannot be evaluated, or empty.
    """

    name: str
    number: int
    distance: Distance
    error: str
    location: str
    """The nodes that compute the first value that differs from before; empty if no value kept its name."""


def first_wrong(
    snapshots: Sequence[Snapshot], arrays: Sequence[Array], expected: Sequence[Array], limit: float
) -> WrongPass | None:
    """The pass of ``snapshots`` at fault, each evaluated in f64 on ``arrays``; None if the last one is right.
    The search is a bisection, which assumes that a wrong module stays wrong.
    """
    low, high = 0, len(snapshots) - 1
    found = _deviation(snapshots[high].module, arrays, expected)
    if isinstance(found, Distance) and found.most <= limit:
        return None
    while low + 1 < high:  # the first is right, the last is wrong
        middle = (low + high) // 2
        there = _deviation(snapshots[middle].module, arrays, expected)
        if isinstance(there, Distance) and there.most <= limit:
            low = middle
        else:
            high, found = middle, there
    location = _first_changed(snapshots[low].module, snapshots[high].module, arrays, limit)
    if isinstance(found, str):
        return WrongPass(snapshots[high].name, high, Distance(np.inf, np.inf), found, location)
    return WrongPass(snapshots[high].name, high, found, "", location)


def evaluated(module: Module, arrays: Sequence[Array]) -> Sequence[Array]:
    """The outputs of ``module`` in f64."""
    with np.errstate(all="ignore"):
        return evaluate_module(module, arrays, wide=True)


def _deviation(module: Module, arrays: Sequence[Array], expected: Sequence[Array]) -> Distance | str:
    """The distance of the outputs of ``module`` from the expected ones; a text if it cannot be evaluated."""
    try:
        results = evaluated(module, arrays)
    except Exception as error:  # a wrong module can make references raise any exception
        return first_line(error)
    return farthest(results, expected)


def farthest(results: Sequence[Array], expected: Sequence[Array]) -> Distance:
    """The largest distance of an output."""
    each = [distance(got, wanted) for got, wanted in zip(results, expected, strict=True)]
    return max(each, key=lambda found: found.most, default=Distance(0.0, 0.0))


def _first_changed(before: Module, after: Module, arrays: Sequence[Array], limit: float) -> str:
    """The location of the first value of ``after`` whose elements differ from those of the value with the
    same name in ``before``.
    """
    right = _named_values(before, arrays)
    for name, (value, array) in _named_values(after, arrays).items():
        if name in right and not distance(array, right[name][1]).most <= limit:
            return value.producer.location if value.producer is not None else ""
    changed = _new_places(before, after)
    return changed[0] if changed else ""


def _named_values(module: Module, arrays: Sequence[Array]) -> Mapping[str, tuple[Value, Array]]:
    """The values of nodes of the entry, by name, as far as the module can be evaluated."""
    found: dict[str, tuple[Value, Array]] = {}

    def note(value: Value, array: Array) -> None:
        if value.name and is_number(array) and value.graph is module.main:
            found[value.name] = value, array

    try:
        with np.errstate(all="ignore"):
            evaluate_module(module, arrays, wide=True, observe=note)
    except Exception:  # the values before the fault are enough
        return found
    return found


def _new_places(before: Module, after: Module) -> list[str]:
    """The locations of nodes that only ``after`` has, in order."""
    known = {(node.op, node.location) for node in before.main}
    return [node.location for node in after.main if (node.op, node.location) not in known]
